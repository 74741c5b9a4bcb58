// A window whose content is known, by arithmetic, for the tests of windows that all ranks map.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace known_window {

constexpr int kInts = 5000, kBefore = 64;  // ints of the allocation before the window
constexpr std::size_t kInt = sizeof(int);
inline int rank = 0, size = 0, failures = 0;

inline void expect(bool right, const std::string& what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: rank %d of %d: %s\n", rank, size, what.c_str());
    ++failures;
}

inline int initial(int of, int i) {
    return of * 100000 + i;
}

// A window in the middle of an allocation. The last rank of more than two has none.
class Window {
  public:
    explicit Window(gpu::Kind kind = gpu::Kind::kDevice) : memory_(kind, (kInts + 2 * kBefore) * kInt) {
        std::vector<int> values(kInts + 2 * kBefore);
        for (int i = 0; i < static_cast<int>(values.size()); ++i)
            values[static_cast<std::size_t>(i)] = initial(rank, i - kBefore);
        std::vector<std::byte> bytes(values.size() * kInt);
        std::memcpy(bytes.data(), values.data(), bytes.size());
        memory_.write(bytes);
        gpu::Driver::get().synchronize();
        MPI_Win_create(base(), this->bytes(), unit(), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    }
    ~Window() {
        if (win != MPI_WIN_NULL)
            MPI_Win_free(&win);
    }

    static bool empty_on(int of) { return size > 2 && of == size - 1; }
    static int unit() { return rank % 2 == 0 ? kInt : 1; }
    static MPI_Aint disp(int of, int i) {
        return of % 2 == 0 ? i : static_cast<MPI_Aint>(i) * static_cast<MPI_Aint>(kInt);
    }
    void* base() const { return empty_on(rank) ? nullptr : memory_.at(kBefore * kInt); }
    MPI_Aint bytes() const { return empty_on(rank) ? 0 : static_cast<MPI_Aint>(kInts * kInt); }
    int at(int i) const { return value_at(static_cast<std::size_t>(i + kBefore) * kInt); }
    bool untouched_around() const {
        bool same = true;
        for (int i = 1; i <= kBefore; ++i)
            same = same && at(-i) == initial(rank, -i) && at(kInts + i - 1) == initial(rank, kInts + i - 1);
        return same;
    }

    MPI_Win win = MPI_WIN_NULL;

  private:
    int value_at(std::size_t offset) const {
        int value = 0;
        gpu::Driver::get().copy(&value, memory_.at(offset), kInt);
        return value;
    }

    gpu::Memory memory_;
};

}  // namespace known_window
