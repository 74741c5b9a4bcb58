// One instruction: PTX ISA, "Instruction Operands".
#include "vgpu/ptx/parser.hpp"

namespace vgpu::ptx {
namespace {

constexpr unsigned kDeepest = 8;

Operand parse_nested(Words& words, unsigned depth);

void parse_list(Words& words, Operand& operand, char close, unsigned depth) {
    if (depth > kDeepest)
        words.fail("operands are nested too deep");
    while (!words.take_sign(close)) {
        operand.parts.push_back(parse_nested(words, depth + 1));
        if (!words.take_sign(',') && !words.is_sign(close))
            words.fail("an operand list does not end");
    }
}

// What follows a name or a number: +4, +-4, -4.
void parse_offset(Words& words, Operand& operand) {
    while (words.is_sign('+') || words.is_sign('-')) {
        const bool minus = words.take().text == "-";
        const bool minus_too = words.take_sign('-');
        const std::uint64_t value = words.expect_integer("an offset");
        operand.value += minus != minus_too ? 0 - value : value;
    }
}

void parse_address(Words& words, Operand& operand, unsigned depth) {
    operand.kind = Operand::Kind::Address;
    if (words.peek().kind == Token::Kind::Word)
        operand.name = words.take().text;
    else
        operand.value = words.expect_integer("an address");
    parse_offset(words, operand);
    if (words.take_sign(','))
        parse_list(words, operand, ']', depth);
    else
        words.expect_sign(']');
}

void parse_name(Words& words, Operand& operand, unsigned depth) {
    operand.name = words.take().text;
    operand.kind = operand.name == "_" ? Operand::Kind::Sink : Operand::Kind::Name;
    if (words.peek().kind == Token::Kind::Dotted)
        operand.component = words.take().text;
    if (operand.kind == Operand::Kind::Name && operand.component.empty())
        parse_offset(words, operand);
    if (words.take_sign('|'))
        operand.parts.push_back(parse_nested(words, depth + 1));
}

void parse_number(Words& words, Operand& operand) {
    const bool inverted = words.take_sign('~');
    const bool negative = !inverted && words.take_sign('-');
    const Token& number = words.peek();
    operand.value = number.value;
    if (number.kind == Token::Kind::Integer) {
        operand.kind = Operand::Kind::Integer;
        operand.value = negative ? 0 - number.value : inverted ? ~number.value : number.value;
    } else if (number.kind == Token::Kind::Float32) {
        operand.kind = Operand::Kind::Float32;
        operand.value ^= negative ? std::uint64_t{1} << 31 : 0;
    } else if (number.kind == Token::Kind::Float64) {
        operand.kind = Operand::Kind::Float64;
        operand.value ^= negative ? std::uint64_t{1} << 63 : 0;
    } else {
        words.fail("an operand is missing");
    }
    words.take();
}

Operand parse_nested(Words& words, unsigned depth) {
    if (depth > kDeepest)
        words.fail("operands are nested too deep");
    Operand operand;
    operand.negated = words.take_sign('!');
    if (words.take_sign('{')) {
        operand.kind = Operand::Kind::Vector;
        parse_list(words, operand, '}', depth);
    } else if (words.take_sign('(')) {
        operand.kind = Operand::Kind::List;
        parse_list(words, operand, ')', depth);
    } else if (words.take_sign('[')) {
        parse_address(words, operand, depth);
    } else if (words.peek().kind == Token::Kind::Word) {
        parse_name(words, operand, depth);
    } else {
        parse_number(words, operand);
    }
    return operand;
}

}  // namespace

Operand parse_operand(Words& words) {
    return parse_nested(words, 0);
}

Instruction parse_instruction(Words& words) {
    const Token first = words.peek();
    Instruction instruction;
    instruction.line = first.line;
    if (words.take_sign('@')) {
        instruction.guard_negated = words.take_sign('!');
        instruction.guard = words.expect_word("a predicate");
    }
    instruction.opcode = words.expect_word("an instruction");
    while (words.peek().kind == Token::Kind::Dotted)
        instruction.modifiers.push_back(words.take().text);
    while (!words.is_sign(';')) {
        instruction.operands.push_back(parse_operand(words));
        if (!words.take_sign(',') && !words.is_sign(';'))
            words.fail("; is missing after an instruction");
    }
    instruction.text = words.between(first, words.peek());
    words.take();
    return instruction;
}

}  // namespace vgpu::ptx
