#include "topology/cpus.hpp"

#include <hwloc.h>
#include <sched.h>

#include <cstdlib>
#include <new>

#include "settings/parse.hpp"

namespace swy::topology {

namespace {

constexpr int kMost = 1 << 20;  // of PUs in one machine: a mistyped number must not allocate all memory

}  // namespace

void Cpus::Free::operator()(hwloc_bitmap_s* set) const {
    hwloc_bitmap_free(set);
}

Cpus::Cpus(const hwloc_bitmap_s* set)
    : set_(set != nullptr && hwloc_bitmap_weight(set) >= 0 ? hwloc_bitmap_dup(set) : hwloc_bitmap_alloc()) {
    if (set_ == nullptr)
        throw std::bad_alloc();
}

void Cpus::add(unsigned cpu) {
    hwloc_bitmap_set(set_.get(), cpu);
}

void Cpus::add(const Cpus& others) {
    hwloc_bitmap_or(set_.get(), set_.get(), others.set_.get());
}

int Cpus::count() const {
    return hwloc_bitmap_weight(set_.get());
}

bool Cpus::overlaps(const Cpus& other) const {
    return hwloc_bitmap_intersects(set_.get(), other.set_.get()) != 0;
}

bool Cpus::contains(const Cpus& other) const {
    return hwloc_bitmap_isincluded(other.set_.get(), set_.get()) != 0;
}

std::string Cpus::text() const {
    char* text = nullptr;
    if (hwloc_bitmap_list_asprintf(&text, set_.get()) < 0)
        throw std::bad_alloc();
    const std::unique_ptr<char, decltype(&std::free)> owner(text, std::free);
    return text;
}

// Stricter than hwloc, which takes "1-" for a set without end and passes over what it does not know.
bool Cpus::parse(std::string_view text, Cpus& into) {
    into = {};
    while (true) {
        const std::string_view range = text.substr(0, text.find(','));
        const std::size_t dash = range.find('-');
        int first = 0;
        if (!settings::parse_int(range.substr(0, dash), 0, kMost - 1, first))
            return false;
        int last = first;
        if (dash != std::string_view::npos && !settings::parse_int(range.substr(dash + 1), first, kMost - 1, last))
            return false;
        hwloc_bitmap_set_range(into.set_.get(), static_cast<unsigned>(first), last);
        if (range.size() == text.size())
            return true;
        text.remove_prefix(range.size() + 1);
    }
}

Cpus own_binding() {
    Cpus cpus;
    // The kernel refuses a set that is too small for the machine.
    for (int size = 1024; size <= kMost; size *= 4) {
        cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(size));
        if (set == nullptr)
            return cpus;
        const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
        const bool known = sched_getaffinity(0, bytes, set) == 0;
        for (int cpu = 0; known && cpu < size; ++cpu)
            if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set))
                cpus.add(static_cast<unsigned>(cpu));
        CPU_FREE(set);
        if (known)
            break;
    }
    return cpus;
}

}  // namespace swy::topology
