// A set of processing units (hwloc's PUs, the system's CPU numbers): what a rank is bound to, what is near a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace swy::topology {

class Cpus {
  public:
    void add(unsigned cpu);
    void add(const Cpus& others);
    bool empty() const { return words_.empty(); }
    bool overlaps(const Cpus& other) const;
    bool contains(const Cpus& other) const;
    std::vector<unsigned> list() const;
    std::string text() const;  // as Linux and parse() write it: "0-5,48-53"; "" for none
    friend bool operator==(const Cpus&, const Cpus&) = default;

    // False where the text is no list of numbers and ranges; `into` is then what was read so far.
    static bool parse(std::string_view text, Cpus& into);

  private:
    std::vector<std::uint64_t> words_;  // the last one is not 0, so that equal sets compare equal
};

// The CPUs that this process may run on.
Cpus own_binding();

}  // namespace swy::topology
