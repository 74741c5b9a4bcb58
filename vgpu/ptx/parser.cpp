// Modules, functions and scopes: PTX ISA, "Directives".
#include "vgpu/ptx/parser.hpp"

#include <algorithm>

namespace vgpu::ptx {

bool Words::take_sign(char sign) {
    if (!is_sign(sign))
        return false;
    take();
    return true;
}

bool Words::take_dotted(std::string_view word) {
    if (!is_dotted(word))
        return false;
    take();
    return true;
}

void Words::expect_sign(char sign) {
    if (!take_sign(sign))
        fail(std::string(1, sign) + " is missing");
}

std::string_view Words::expect_word(std::string_view what) {
    if (peek().kind != Token::Kind::Word)
        fail(std::string(what) + " is missing");
    return take().text;
}

std::uint64_t Words::expect_integer(std::string_view what) {
    if (peek().kind != Token::Kind::Integer)
        fail(std::string(what) + " is missing");
    return take().value;
}

void Words::skip_line() {
    for (const unsigned line = peek().line; !ended() && peek().line == line;)
        take();
}

void Words::skip_braces() {
    expect_sign('{');
    for (unsigned depth = 1; depth > 0;) {
        if (ended())
            fail("} is missing");
        const Token& token = take();
        if (token.kind == Token::Kind::Sign)
            depth += token.text == "{" ? 1u : token.text == "}" ? -1u : 0u;
    }
}

void Words::fail(std::string_view what, Refusal::Kind kind) const {
    const Token& token = peek();
    std::string text = "line " + std::to_string(token.line) + ": ";
    if (token.kind == Token::Kind::End)
        text += "the text ends here";
    else
        text.append("at \"").append(token.text.substr(0, 80)).append("\"");
    throw Failure{{kind, text.append(": ").append(what)}};
}

std::string_view Words::between(const Token& first, const Token& last) const {
    const char* end = last.kind == Token::Kind::End ? text_.data() + text_.size() : last.text.data();
    return {first.text.data(), static_cast<std::size_t>(end - first.text.data())};
}

namespace {

class Parser {
  public:
    Parser(std::string_view text, Unit& unit) : words_(text), unit_(unit) {}

    void run() {
        while (!words_.ended())
            module_statement();
    }

  private:
    void module_statement() {
        if (words_.take_sign(';'))
            return;
        if (words_.peek().kind != Token::Kind::Dotted)
            words_.fail("a directive is missing");
        const std::string_view word = words_.peek().text;
        if (word == "version" || word == "target" || word == "address_size" || word == "file" || word == "loc") {
            if (word == "address_size" && words_.peek(1).value != 64)
                words_.fail("addresses have to have 64 bits", Refusal::Kind::Unsupported);
            words_.skip_line();
        } else if (word == "section") {
            while (!words_.ended() && !words_.is_sign('{'))
                words_.take();
            words_.skip_braces();
        } else if (word == "pragma") {
            skip_statement();
        } else if (word == "alias") {
            words_.take();
            const std::string_view name = words_.expect_word("a name");
            words_.expect_sign(',');
            unit_.aliases[name] = words_.expect_word("a name");
            words_.expect_sign(';');
        } else {
            definition();
        }
    }

    void skip_statement() {
        while (!words_.ended() && !words_.take_sign(';'))
            words_.take();
    }

    Linkage take_linkage() {
        Linkage linkage = Linkage::Own;
        for (;;) {
            if (words_.take_dotted("visible"))
                linkage = Linkage::Visible;
            else if (words_.take_dotted("weak"))
                linkage = Linkage::Weak;
            else if (words_.take_dotted("common"))
                linkage = Linkage::Common;
            else if (words_.take_dotted("extern"))
                linkage = Linkage::Extern;
            else
                return linkage;
        }
    }

    void definition() {
        const Linkage linkage = take_linkage();
        const bool entry = words_.is_dotted("entry");
        if (entry || words_.is_dotted("func")) {
            words_.take();
            function(linkage, entry);
        } else {
            parse_variables(words_, linkage, unit_.variables);
        }
    }

    void attributes() {
        while (words_.take_dotted("attribute")) {
            while (!words_.ended() && !words_.take_sign(')'))
                words_.take();
        }
    }

    void function(Linkage linkage, bool entry) {
        Function function;
        function.linkage = linkage;
        function.entry = entry;
        attributes();
        if (words_.is_sign('('))
            function.prototype.results = parse_parameters(words_);
        function.line = words_.peek().line;
        function.name = words_.expect_word("the name of a function");
        if (words_.is_sign('('))
            function.prototype.parameters = parse_parameters(words_);
        while (words_.peek().kind == Token::Kind::Dotted)
            performance_directive(function);
        if (words_.is_sign('{')) {
            function.defined = true;
            body(function);
        } else {
            words_.expect_sign(';');
        }
        unit_.functions.push_back(std::move(function));
    }

    // Up to three numbers, of which missing ones are 1.
    void dimensions(unsigned (&numbers)[3]) {
        std::fill(std::begin(numbers), std::end(numbers), 1u);
        for (unsigned i = 0; i < 3; ++i) {
            numbers[i] = static_cast<unsigned>(std::min<std::uint64_t>(words_.expect_integer("a number"), 1u << 20));
            if (!words_.take_sign(','))
                break;
        }
    }

    void performance_directive(Function& function) {
        const std::string_view word = words_.take().text;
        if (word == "maxntid" || word == "reqntid") {
            unsigned threads[3];
            dimensions(threads);
            const std::uint64_t all = std::uint64_t{threads[0]} * threads[1] * threads[2];
            function.max_threads = static_cast<unsigned>(std::min<std::uint64_t>(all, 1024));
        } else if (word == "reqnctapercluster") {
            dimensions(function.cluster);
        } else if (word == "pragma") {
            skip_statement();
        } else if (word == "maxnctapersm" || word == "minnctapersm" || word == "maxnreg" || word == "maxclusterrank") {
            words_.expect_integer("a number");
        } else if (word != "noreturn" && word != "explicitcluster" && word != "unique" && word != "blocksareclusters") {
            words_.fail("." + std::string(word) + " is no directive of a function that is known");
        }
    }

    void body(Function& function) {
        words_.expect_sign('{');
        function.scopes.emplace_back();
        std::vector<unsigned> open{0};
        while (!open.empty()) {
            if (words_.ended())
                words_.fail("} is missing");
            if (words_.take_sign('{')) {
                function.scopes.emplace_back().parent = open.back();
                open.push_back(static_cast<unsigned>(function.scopes.size() - 1));
            } else if (words_.take_sign('}')) {
                open.pop_back();
            } else if (!words_.take_sign(';')) {
                statement(function, open.back());
            }
        }
    }

    void statement(Function& function, unsigned scope) {
        const Token& word = words_.peek();
        if (word.kind == Token::Kind::Word && words_.is_sign(':', 1)) {
            const std::string_view label = words_.take().text;
            words_.take();
            labelled(function, scope, label);
        } else if (word.kind == Token::Kind::Dotted) {
            if (word.text == "loc" || word.text == "file")
                words_.skip_line();
            else if (word.text == "pragma")
                skip_statement();
            else
                declarations(function, scope);
        } else {
            function.instructions.push_back(parse_instruction(words_));
            function.instructions.back().scope = scope;
        }
    }

    void labelled(Function& function, unsigned scope, std::string_view label) {
        if (words_.take_dotted("branchtargets") || words_.take_dotted("calltargets")) {
            std::vector<std::string_view>& targets = function.scopes[scope].targets[label];
            do
                targets.push_back(words_.expect_word("a target"));
            while (words_.take_sign(','));
            words_.expect_sign(';');
        } else if (words_.take_dotted("callprototype")) {
            prototype(function.prototypes[label]);
        } else {
            function.scopes[scope].labels[label] = function.instructions.size();
        }
    }

    void prototype(Prototype& prototype) {
        if (words_.is_sign('('))
            prototype.results = parse_parameters(words_);
        words_.expect_word("_");
        if (words_.is_sign('('))
            prototype.parameters = parse_parameters(words_);
        skip_statement();
    }

    void declarations(Function& function, unsigned scope) {
        std::vector<Declaration> declared;
        parse_variables(words_, Linkage::Own, declared);
        for (Declaration& one : declared)
            function.scopes[scope].names[one.name] = std::move(one);
    }

    Words words_;
    Unit& unit_;
};

}  // namespace

bool parse(std::string_view text, Unit& unit, Refusal& refusal) {
    try {
        Parser(text, unit).run();
        return true;
    } catch (const Failure& failure) {
        refusal = failure.refusal;
        return false;
    }
}

}  // namespace vgpu::ptx
