#include "vgpu/static/redirect.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace vgpu::static_runtime {

#ifdef __x86_64__

namespace {

constexpr std::size_t kSlot = 32;
constexpr std::uintptr_t kStep = 1 << 20, kReach = 1 << 30;

std::uintptr_t address(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

// Maps memory that a jump of 32 bits reaches from the executable: below it, where its heap does not grow to.
unsigned char* map_near(std::uintptr_t code, std::size_t bytes) {
    for (std::uintptr_t below = kStep; below < kReach && below < code; below += kStep) {
        void* const wish = reinterpret_cast<void*>((code - below) & ~(kStep / 16 - 1));
        void* const got =
            mmap(wish, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (got == wish)
            return static_cast<unsigned char*>(got);
        if (got != MAP_FAILED)  // a kernel before 4.17, which takes the address for a hint
            munmap(got, bytes);
    }
    return nullptr;
}

// Writes `movabs argument, %rdi` where there is one, and `jmp *(%rip)` with the address behind it.
void write_slot(unsigned char* slot, const Jump& jump) {
    if (jump.argument != nullptr) {
        constexpr unsigned char kMove[] = {0x48, 0xbf};
        std::memcpy(slot, kMove, sizeof kMove);
        std::memcpy(slot + sizeof kMove, &jump.argument, sizeof jump.argument);
        slot += sizeof kMove + sizeof jump.argument;
    }
    constexpr unsigned char kFarJump[] = {0xff, 0x25, 0, 0, 0, 0};
    std::memcpy(slot, kFarJump, sizeof kFarJump);
    std::memcpy(slot + sizeof kFarJump, &jump.to, sizeof jump.to);
}

void write_entry(unsigned char* entry, const unsigned char* slot) {
    const auto distance = static_cast<std::int32_t>(slot - (entry + kJumpBytes));
    entry[0] = 0xe9;
    std::memcpy(entry + 1, &distance, sizeof distance);
}

std::string failed(const char* function) {
    return std::string(function) + ": " + std::strerror(errno);
}

}  // namespace

std::string redirect(const std::vector<Jump>& jumps) {
    const auto [first, last] =
        std::minmax_element(jumps.begin(), jumps.end(), [](const Jump& a, const Jump& b) { return a.entry < b.entry; });
    if (first == jumps.end())
        return {};
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t begin = address(first->entry) & ~(page - 1);
    const std::size_t bytes = (address(last->entry) + kJumpBytes - begin + page - 1) & ~(page - 1);
    const std::size_t slot_bytes = (jumps.size() * kSlot + page - 1) & ~(page - 1);
    unsigned char* const slots = bytes < kReach ? map_near(begin, slot_bytes) : nullptr;
    if (slots == nullptr)
        return "no free addresses near the program's code";
    for (std::size_t i = 0; i < jumps.size(); ++i)
        write_slot(slots + i * kSlot, jumps[i]);
    void* const code = reinterpret_cast<void*>(begin);
    if (mprotect(slots, slot_bytes, PROT_READ | PROT_EXEC) != 0 || mprotect(code, bytes, PROT_READ | PROT_WRITE) != 0) {
        const std::string problem = failed("mprotect");
        munmap(slots, slot_bytes);
        return problem;
    }
    for (std::size_t i = 0; i < jumps.size(); ++i)
        write_entry(jumps[i].entry, slots + i * kSlot);
    return mprotect(code, bytes, PROT_READ | PROT_EXEC) == 0 ? "" : failed("mprotect");
}

#else

std::string redirect(const std::vector<Jump>&) {
    return "this is written for x86-64 only";
}

#endif

}  // namespace vgpu::static_runtime
