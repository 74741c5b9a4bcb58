// Splits PTX into words. Comments are left out.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace vgpu::ptx {

struct Token {
    enum class Kind : std::uint8_t { End, Word, Dotted, Integer, Float32, Float64, String, Sign, Bad };
    Kind kind = Kind::End;
    unsigned line = 1;
    std::string_view text;    // of Dotted without the dot
    std::uint64_t value = 0;  // of a number: its bits
};

// The last token is End. Bytes that PTX has no use for are tokens of kind Bad.
std::vector<Token> split(std::string_view text);

}  // namespace vgpu::ptx
