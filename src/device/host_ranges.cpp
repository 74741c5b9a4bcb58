#include "device/host_ranges.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

// Of the GNU C library's dynamic linker: the stack pointer at the program's start.
extern "C" void* __libc_stack_end __attribute__((weak));
// Of the GNU C library: the program's break, as sbrk(0) gives it.
extern "C" void* __curbrk __attribute__((weak));

namespace swy::device {

namespace {

void* const no_heap = nullptr;

}  // namespace

constinit HostRanges host_ranges{.heap_end = &no_heap};

namespace {

// Finds the program's writable segment. Uses the auxiliary vector and not dl_iterate_phdr, which takes the linker's
// lock.
void find_static_data() {
    const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
    const std::size_t count = getauxval(AT_PHNUM);
    if (headers == nullptr)
        return;
    const auto* end = headers + count;
    const auto* self = std::find_if(headers, end, [](const ElfW(Phdr) & header) { return header.p_type == PT_PHDR; });
    const auto* data = std::find_if(headers, end, [](const ElfW(Phdr) & header) {
        return header.p_type == PT_LOAD && (header.p_flags & PF_W) != 0;
    });
    if (self == end || data == end)
        return;
    const std::uintptr_t moved = reinterpret_cast<std::uintptr_t>(headers) - self->p_vaddr;
    host_ranges.static_begin = moved + data->p_vaddr;
    host_ranges.static_bytes = data->p_memsz;
}

// Finds the heap's begin as the kernel names it. A heap that does not reach to the program break that the C library
// knows is another one's (that of a tool in which the program runs).
void find_heap() {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/maps", "re"), &std::fclose);
    if (file == nullptr)
        return;
    constexpr std::uintptr_t kNone = UINTPTR_MAX;
    std::uintptr_t heap_begin = kNone;
    std::uintptr_t heap_end = 0;
    char line[4096 + 128];  // a path, and what precedes it
    while (std::fgets(line, sizeof line, file.get()) != nullptr) {
        unsigned long long begin = 0;
        unsigned long long end = 0;
        const std::string_view text(line);
        if (std::sscanf(line, "%llx-%llx", &begin, &end) != 2)
            continue;
        if (text.ends_with(" [heap]\n")) {
            heap_begin = std::min<std::uintptr_t>(heap_begin, begin);
            heap_end = std::max<std::uintptr_t>(heap_end, end);
        }
    }
    if (&__curbrk == nullptr)
        return;
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t break_end = (reinterpret_cast<std::uintptr_t>(__curbrk) + page - 1) / page * page;
    if (heap_begin == kNone || heap_end != break_end)
        return;
    host_ranges.heap_end = &__curbrk;
    host_ranges.heap_begin = heap_begin;
}

void find_stack() {
    if (&__libc_stack_end == nullptr)
        return;
    host_ranges.stack_begin = reinterpret_cast<std::uintptr_t>(__libc_stack_end) - kMainStack;
    host_ranges.stack_bytes = kMainStack;
}

}  // namespace

// None of these functions waits for the dynamic linker, so a thread may wait for another thread here whatever it holds.
void find_host_ranges() {
    static std::once_flag once;
    std::call_once(once, [] {
        find_static_data();
        find_heap();
        find_stack();
    });
}

}  // namespace swy::device
