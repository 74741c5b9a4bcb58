// printf of device code: CUDA C++ Programming Guide, "Formatted Output".
#include <cstdio>

#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

constexpr std::size_t kLongest = 1 << 16;  // of a text that code gives
constexpr std::size_t kWidest = 4096;      // of one argument

// The arguments lie behind each other, each a multiple of its size from the start.
class Arguments {
  public:
    Arguments(Warp& warp, unsigned lane, u64 address) : warp_(warp), lane_(lane), address_(address) {}

    u64 next(unsigned bytes) {
        offset_ = (offset_ + bytes - 1) / bytes * bytes;
        u64 value = 0;
        std::memcpy(&value, warp_.locate_unaligned(address_ + offset_, bytes, lane_, false), bytes);
        offset_ += bytes;
        ++count_;
        return value;
    }
    u32 count() const { return count_; }

  private:
    Warp& warp_;
    unsigned lane_;
    u64 address_;
    u64 offset_ = 0;
    u32 count_ = 0;
};

struct Conversion {
    std::string flags;  // with width and precision
    bool wide = false;  // of eight bytes
    char kind = '\0';
    std::size_t end = 0;
};

Conversion parse_conversion(const std::string& format, std::size_t at, Arguments& arguments) {
    Conversion result;
    for (; at < format.size(); ++at) {
        const char c = format[at];
        if (c == '*')
            result.flags += std::to_string(static_cast<s32>(arguments.next(4)));
        else if (std::string_view("-+ #0123456789.").find(c) != std::string_view::npos)
            result.flags += c;
        else if (c == 'l' || c == 'j' || c == 'z' || c == 't')
            result.wide = true;
        else if (c != 'h')
            break;
    }
    result.kind = at < format.size() ? format[at] : '\0';
    result.end = std::min(at + 1, format.size());
    return result;
}

// Widths are cut to what fits, as a wild format must not take all memory.
template <class T>
std::string formatted(const std::string& conversion, T value) {
    std::string text(kWidest, '\0');
    const int length = std::snprintf(text.data(), text.size(), conversion.c_str(), value);
    text.resize(length < 0 ? 0 : std::min<std::size_t>(static_cast<std::size_t>(length), kWidest - 1));
    return text;
}

std::string convert(Warp& warp, unsigned lane, const Conversion& one, Arguments& arguments) {
    const std::string start = "%" + one.flags;
    switch (one.kind) {
        case 'd':
        case 'i': {
            const u64 bits = arguments.next(one.wide ? 8 : 4);
            const long long value = one.wide ? static_cast<s64>(bits) : static_cast<s32>(bits);
            return formatted(start + "ll" + one.kind, value);
        }
        case 'u':
        case 'o':
        case 'x':
        case 'X':
            return formatted(start + "ll" + one.kind,
                             static_cast<unsigned long long>(arguments.next(one.wide ? 8 : 4)));
        case 'c':
            return formatted(start + "c", static_cast<int>(static_cast<u8>(arguments.next(4))));
        case 'f':
        case 'F':
        case 'e':
        case 'E':
        case 'g':
        case 'G':
        case 'a':
        case 'A':
            return formatted(start + one.kind, from_slot<double>(arguments.next(8)));
        case 'p':
            return formatted(start + "p", reinterpret_cast<void*>(arguments.next(8)));
        case 's':
            return formatted(start + "s", read_text(warp, lane, arguments.next(8)).c_str());
        default:
            return start + one.kind;
    }
}

}  // namespace

std::string read_text(Warp& warp, unsigned lane, u64 address) {
    std::string text;
    while (text.size() < kLongest) {
        const char c = static_cast<char>(*warp.locate_unaligned(address + text.size(), 1, lane, false));
        if (c == '\0')
            break;
        text += c;
    }
    return text;
}

u32 print_formatted(Warp& warp, unsigned lane, u64 format_address, u64 address) {
    const std::string format = read_text(warp, lane, format_address);
    Arguments arguments(warp, lane, address);
    std::string text;
    for (std::size_t at = 0; at < format.size();) {
        if (format[at] != '%') {
            text += format[at++];
        } else if (at + 1 < format.size() && format[at + 1] == '%') {
            text += '%';
            at += 2;
        } else {
            const Conversion one = parse_conversion(format, at + 1, arguments);
            text += convert(warp, lane, one, arguments);
            at = one.end;
        }
    }
    if (warp.grid->around->print)
        warp.grid->around->print(text);
    return arguments.count();
}

}  // namespace vgpu::ptx
