#include "vgpu/ptx/lexer.hpp"

#include <bit>
#include <charconv>
#include <cstdlib>
#include <string>

namespace vgpu::ptx {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool starts_word(char c) {
    return is_letter(c) || c == '_' || c == '$' || c == '%';
}
bool continues_word(char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

class Splitter {
  public:
    explicit Splitter(std::string_view text) : text_(text) {}

    std::vector<Token> run() {
        std::vector<Token> tokens;
        tokens.reserve(text_.size() / 4 + 1);
        while (skip_blank())
            tokens.push_back(next());
        tokens.push_back({Token::Kind::End, line_, {}, 0});
        return tokens;
    }

  private:
    char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

    // False at the end of the text.
    bool skip_blank() {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '\n')
                ++line_;
            if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v' || c == '\0')
                ++at_;
            else if (c == '/' && at(at_ + 1) == '/')
                at_ = std::min(text_.find('\n', at_), text_.size());
            else if (c == '/' && at(at_ + 1) == '*')
                skip_comment();
            else
                return true;
        }
        return false;
    }
    void skip_comment() {
        const std::size_t end = text_.find("*/", at_ + 2);
        const std::size_t after = end == std::string_view::npos ? text_.size() : end + 2;
        for (; at_ < after; ++at_)
            line_ += text_[at_] == '\n';
    }

    Token make(Token::Kind kind, std::size_t end, std::size_t skip = 0, std::uint64_t value = 0) {
        Token token{kind, line_, text_.substr(at_ + skip, end - at_ - skip), value};
        at_ = end;
        return token;
    }

    Token next() {
        const char c = text_[at_];
        if (starts_word(c)) {
            std::size_t end = at_ + 1;
            while (continues_word(at(end)))
                ++end;
            return make(Token::Kind::Word, end);
        }
        if (c == '.' && continues_word(at(at_ + 1)))
            return dotted();
        if (is_digit(c))
            return number();
        if (c == '"') {
            std::size_t end = at_ + 1;
            while (end < text_.size() && text_[end] != '"' && text_[end] != '\n')
                ++end;
            return make(Token::Kind::String, std::min(end + 1, text_.size()));
        }
        const bool known = std::string_view("{}()[]<>,;:|@!+-~=*&^?/.%").find(c) != std::string_view::npos;
        return make(known ? Token::Kind::Sign : Token::Kind::Bad, at_ + 1);
    }

    // A modifier such as .L2::128B.
    Token dotted() {
        std::size_t end = at_ + 1;
        while (continues_word(at(end)) || (at(end) == ':' && at(end + 1) == ':' && continues_word(at(end + 2))))
            end += at(end) == ':' ? 2 : 1;
        return make(Token::Kind::Dotted, end, 1);
    }

    Token number() {
        const char kind = at(at_ + 1);
        if (at(at_) == '0' && (kind == 'f' || kind == 'F' || kind == 'd' || kind == 'D'))
            return hex_float(kind == 'f' || kind == 'F' ? 8 : 16);
        if (at(at_) == '0' && (kind == 'x' || kind == 'X'))
            return integer(16, 2);
        if (at(at_) == '0' && (kind == 'b' || kind == 'B'))
            return integer(2, 2);
        std::size_t end = at_;
        while (is_digit(at(end)))
            ++end;
        const bool exponent =
            (at(end) == 'e' || at(end) == 'E') && (is_digit(at(end + 1)) || at(end + 1) == '-' || at(end + 1) == '+');
        if (exponent || (at(end) == '.' && is_digit(at(end + 1))))
            return decimal_float();
        return integer(at(at_) == '0' ? 8 : 10, 0);
    }

    Token hex_float(std::size_t digits) {
        std::uint64_t bits = 0;
        const char* begin = text_.data() + at_ + 2;
        const char* end = text_.data() + std::min(text_.size(), at_ + 2 + digits);
        const auto [stop, error] = std::from_chars(begin, end, bits, 16);
        if (error != std::errc() || static_cast<std::size_t>(stop - begin) != digits)
            return make(Token::Kind::Bad, at_ + 2);
        return make(digits == 8 ? Token::Kind::Float32 : Token::Kind::Float64, at_ + 2 + digits, 0, bits);
    }

    Token integer(int base, std::size_t prefix) {
        std::uint64_t value = 0;
        const char* begin = text_.data() + at_ + prefix;
        const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), value, base);
        if (error != std::errc())
            return make(Token::Kind::Bad, at_ + 1);
        std::size_t end = static_cast<std::size_t>(stop - text_.data());
        if (at(end) == 'U')
            ++end;
        return make(Token::Kind::Integer, end, 0, value);
    }

    Token decimal_float() {
        std::size_t end = at_;
        while (is_digit(at(end)) || at(end) == '.' || at(end) == 'e' || at(end) == 'E' ||
               ((at(end) == '-' || at(end) == '+') && (at(end - 1) == 'e' || at(end - 1) == 'E')))
            ++end;
        const double value = std::strtod(std::string(text_.substr(at_, end - at_)).c_str(), nullptr);
        return make(Token::Kind::Float64, end, 0, std::bit_cast<std::uint64_t>(value));
    }

    std::string_view text_;
    std::size_t at_ = 0;
    unsigned line_ = 1;
};

}  // namespace

std::vector<Token> split(std::string_view text) {
    return Splitter(text).run();
}

}  // namespace vgpu::ptx
