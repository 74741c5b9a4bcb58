#include "topology/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <charconv>

namespace swy::topology {

namespace {

constexpr unsigned kBits = 64;
constexpr unsigned kMost = 1u << 20;  // of PUs in one machine: a mistyped number must not allocate all memory

bool read_number(std::string_view text, unsigned& value) {
    const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    return problem == std::errc() && stop == text.data() + text.size() && value < kMost;
}

}  // namespace

void Cpus::add(unsigned cpu) {
    if (words_.size() <= cpu / kBits)
        words_.resize(cpu / kBits + 1);
    words_[cpu / kBits] |= std::uint64_t{1} << (cpu % kBits);
}

void Cpus::add(const Cpus& others) {
    if (words_.size() < others.words_.size())
        words_.resize(others.words_.size());
    for (std::size_t i = 0; i < others.words_.size(); ++i)
        words_[i] |= others.words_[i];
}

bool Cpus::overlaps(const Cpus& other) const {
    const std::size_t both = std::min(words_.size(), other.words_.size());
    for (std::size_t i = 0; i < both; ++i)
        if ((words_[i] & other.words_[i]) != 0)
            return true;
    return false;
}

bool Cpus::contains(const Cpus& other) const {
    for (std::size_t i = 0; i < other.words_.size(); ++i)
        if ((other.words_[i] & ~(i < words_.size() ? words_[i] : 0)) != 0)
            return false;
    return true;
}

std::vector<unsigned> Cpus::list() const {
    std::vector<unsigned> cpus;
    for (std::size_t i = 0; i < words_.size(); ++i)
        for (std::uint64_t rest = words_[i]; rest != 0; rest &= rest - 1)
            cpus.push_back(static_cast<unsigned>(i) * kBits + static_cast<unsigned>(std::countr_zero(rest)));
    return cpus;
}

std::string Cpus::text() const {
    const std::vector<unsigned> cpus = list();
    std::string text;
    for (std::size_t begin = 0; begin < cpus.size();) {
        std::size_t end = begin;
        while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1)
            ++end;
        text += (text.empty() ? "" : ",") + std::to_string(cpus[begin]);
        if (end > begin)
            text += "-" + std::to_string(cpus[end]);
        begin = end + 1;
    }
    return text;
}

bool Cpus::parse(std::string_view text, Cpus& into) {
    into = {};
    while (true) {
        const std::string_view range = text.substr(0, text.find(','));
        const std::size_t dash = range.find('-');
        unsigned first = 0;
        if (!read_number(range.substr(0, dash), first))
            return false;
        unsigned last = first;
        if (dash != std::string_view::npos && (!read_number(range.substr(dash + 1), last) || last < first))
            return false;
        for (unsigned cpu = first; cpu <= last; ++cpu)
            into.add(cpu);
        if (range.size() == text.size())
            return true;
        text.remove_prefix(range.size() + 1);
    }
}

Cpus own_binding() {
    Cpus cpus;
    // The kernel refuses a set that is too small for the machine.
    for (int size = 1024; size <= static_cast<int>(kMost); size *= 4) {
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
