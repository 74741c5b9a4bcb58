// The parser's view of the words. A method that meets what it does not understand throws Failure.
#pragma once

#include <string>
#include <utility>

#include "vgpu/ptx/lexer.hpp"
#include "vgpu/ptx/syntax.hpp"

namespace vgpu::ptx {

struct Failure {
    Refusal refusal;
};

class Words {
  public:
    explicit Words(std::string_view text) : text_(text), tokens_(split(text)) {}

    const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
    const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
    bool ended() const { return peek().kind == Token::Kind::End; }
    bool is_sign(char sign, std::size_t ahead = 0) const {
        return peek(ahead).kind == Token::Kind::Sign && peek(ahead).text[0] == sign;
    }
    bool is_dotted(std::string_view word) const { return peek().kind == Token::Kind::Dotted && peek().text == word; }
    bool take_sign(char sign);
    bool take_dotted(std::string_view word);
    void expect_sign(char sign);
    std::string_view expect_word(std::string_view what);
    std::uint64_t expect_integer(std::string_view what);
    void skip_line();    // the rest of the current token's line
    void skip_braces();  // from { to its }
    [[noreturn]] void fail(std::string_view what, Refusal::Kind kind = Refusal::Kind::Syntax) const;
    std::string_view between(const Token& first, const Token& last) const;

  private:
    std::string_view text_;
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
};

// parse_declaration.cpp
void parse_variables(Words& words, Linkage linkage, std::vector<Declaration>& into);
std::vector<Declaration> parse_parameters(Words& words);
// parse_instruction.cpp
Instruction parse_instruction(Words& words);
Operand parse_operand(Words& words);

}  // namespace vgpu::ptx
