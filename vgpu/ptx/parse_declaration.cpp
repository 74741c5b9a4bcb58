// Variables, registers and parameters: PTX ISA, "State Spaces, Types, and Variables".
#include <limits>

#include "vgpu/ptx/parser.hpp"

namespace vgpu::ptx {
namespace {

bool is_space(std::string_view word) {
    return word == "reg" || word == "param" || word == "local" || word == "shared" || word == "global" ||
           word == "const";
}

// The kind of a pointer that a parameter is said to be (.ptr .global .align 4) changes nothing here.
void parse_pointer(Words& words) {
    if (is_space(words.peek().text) && words.peek().kind == Token::Kind::Dotted)
        words.take();
    if (words.take_dotted("align"))
        words.expect_integer("an alignment");
}

void parse_qualifier(Words& words, Declaration& declaration) {
    const Token word = words.take();
    const std::string_view text = word.text;
    if (is_space(text)) {
        declaration.space = text;
    } else if (text == "align") {
        declaration.alignment = words.expect_integer("an alignment");
        if (declaration.alignment == 0 || (declaration.alignment & (declaration.alignment - 1)) != 0)
            words.fail("an alignment has to be a power of two");
    } else if (text == "v2" || text == "v4" || text == "v8") {
        declaration.vector = static_cast<unsigned>(text[1] - '0');
    } else if (text == "ptr") {
        parse_pointer(words);
    } else if (text == "attribute") {
        words.expect_sign('(');
        while (!words.take_sign(')')) {
            if (words.ended())
                words.fail(") is missing");
            declaration.managed |= words.take().text == "managed";
        }
    } else {
        declaration.type = text;
    }
}

Initial parse_initial(Words& words);

// mask() takes a byte of an address (PTX ISA, "Variable Declarations, Initializers").
Initial parse_masked(Words& words) {
    const std::uint64_t mask = words.expect_integer("a mask");
    words.expect_sign('(');
    Initial initial = parse_initial(words);
    words.expect_sign(')');
    initial.masked = true;
    while (initial.mask_shift < 56 && (mask >> initial.mask_shift & 0xff) == 0)
        initial.mask_shift += 8;
    return initial;
}

Initial parse_number(Words& words) {
    Initial initial;
    const bool negative = words.take_sign('-');
    if (!negative)
        words.take_sign('+');
    const Token& number = words.peek();
    if (number.kind == Token::Kind::Integer) {
        initial.value = negative ? 0 - number.value : number.value;
    } else if (number.kind == Token::Kind::Float32 || number.kind == Token::Kind::Float64) {
        initial.float_bits = number.kind == Token::Kind::Float32 ? 32 : 64;
        initial.value = number.value ^ (negative ? std::uint64_t{1} << (initial.float_bits - 1) : 0);
    } else {
        words.fail("an initial value is missing");
    }
    words.take();
    return initial;
}

Initial parse_initial(Words& words) {
    if (words.peek().kind == Token::Kind::Integer && words.is_sign('(', 1))
        return parse_masked(words);
    if (words.peek().kind != Token::Kind::Word)
        return parse_number(words);
    Initial initial;
    initial.kind = Initial::Kind::Symbol;
    initial.symbol = words.take().text;
    if (initial.symbol == "mask" && words.take_sign('('))
        words.fail("mask() is written as a number before its operand");
    if (initial.symbol == "generic" && words.take_sign('(')) {
        initial = parse_initial(words);
        words.expect_sign(')');
    }
    while (words.is_sign('+') || words.is_sign('-')) {
        const bool minus = words.take().text == "-";
        const bool minus_too = words.take_sign('-');
        const std::uint64_t value = words.expect_integer("a number");
        initial.value += minus != minus_too ? 0 - value : value;
    }
    return initial;
}

void parse_initials(Words& words, std::vector<Initial>& into, unsigned depth = 0) {
    if (depth > 16)
        words.fail("braces are nested too deep");
    if (!words.take_sign('{')) {
        into.push_back(parse_initial(words));
        return;
    }
    while (!words.take_sign('}')) {
        parse_initials(words, into, depth + 1);
        if (!words.take_sign(',') && !words.is_sign('}'))
            words.fail(", or } is missing");
    }
}

void parse_dimensions(Words& words, Declaration& declaration) {
    while (words.take_sign('[')) {
        declaration.array = true;
        if (words.take_sign(']')) {
            declaration.open_array = true;
            continue;
        }
        const std::uint64_t count = words.expect_integer("the number of elements");
        if (count != 0 && declaration.elements > (std::size_t{1} << 40) / count)
            words.fail("the array is too large");
        declaration.elements *= count;
        words.expect_sign(']');
    }
}

void parse_declarator(Words& words, Declaration& declaration) {
    declaration.line = words.peek().line;
    declaration.name = words.expect_word("a name");
    if (words.take_sign('<')) {
        const std::uint64_t count = words.expect_integer("the number of registers");
        if (count > (1u << 20))
            words.fail("there are too many registers");
        declaration.numbered = static_cast<unsigned>(count);
        words.expect_sign('>');
    }
    parse_dimensions(words, declaration);
    if (words.take_sign('='))
        parse_initials(words, declaration.initial);
}

}  // namespace

void parse_variables(Words& words, Linkage linkage, std::vector<Declaration>& into) {
    Declaration common;
    common.linkage = linkage;
    while (words.peek().kind == Token::Kind::Dotted)
        parse_qualifier(words, common);
    if (common.space.empty() || common.type.empty())
        words.fail("this declares nothing that PTX knows");
    do {
        Declaration declaration = common;
        parse_declarator(words, declaration);
        into.push_back(std::move(declaration));
    } while (words.take_sign(','));
    words.expect_sign(';');
}

std::vector<Declaration> parse_parameters(Words& words) {
    std::vector<Declaration> parameters;
    words.expect_sign('(');
    while (!words.take_sign(')')) {
        Declaration parameter;
        while (words.peek().kind == Token::Kind::Dotted)
            parse_qualifier(words, parameter);
        if (parameter.type.empty())
            words.fail("a parameter has no type");
        parse_declarator(words, parameter);
        parameters.push_back(std::move(parameter));
        if (!words.take_sign(',') && !words.is_sign(')'))
            words.fail(", or ) is missing");
    }
    return parameters;
}

}  // namespace vgpu::ptx
