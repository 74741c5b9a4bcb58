// A set of processing units (hwloc's PUs, the system's CPU numbers): what a rank is bound to, what is near a GPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct hwloc_bitmap_s;

namespace swy::topology {

class Cpus {
  public:
    Cpus() : Cpus(nullptr) {}
    explicit Cpus(const hwloc_bitmap_s* set);  // a set without end is "all there could be", which says nothing: empty
    Cpus(const Cpus& other) : Cpus(other.set_.get()) {}
    Cpus& operator=(Cpus other) noexcept {
        set_.swap(other.set_);
        return *this;
    }

    void add(unsigned cpu);
    void add(const Cpus& others);
    bool empty() const { return count() == 0; }
    int count() const;
    bool overlaps(const Cpus& other) const;
    bool contains(const Cpus& other) const;
    std::string text() const;  // as Linux and parse() write it: "0-5,48-53"; "" for none
    bool operator==(const Cpus& other) const { return contains(other) && other.contains(*this); }

    // False where the text is no list of numbers and ranges; `into` is then what was read so far.
    static bool parse(std::string_view text, Cpus& into);

  private:
    struct Free {
        void operator()(hwloc_bitmap_s* set) const;
    };
    std::unique_ptr<hwloc_bitmap_s, Free> set_;
};

// The CPUs that this process may run on.
Cpus own_binding();

}  // namespace swy::topology
