// What the wrappers of MPI's tool information interface (MPI 3.1 section 14.3) share: indices and texts. Switchyard's
// variables and its category stand behind those that MPI had when a tool first asked for their number: MPI's own that
// come later get indices behind these, since an index never changes. For tool_performance.cpp and tool_control.cpp.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string_view>

#include "real.hpp"
#include "tool/variables.hpp"

namespace swy::tool {

// How tools see the indices of one kind of object: MPI's own from 0 on, then ours, then MPI's that were added later.
class Indices {
  public:
    Indices(int (**number)(int*), int mine) : number_(number), mine_(mine) {}

    // MPI's code; an error where the interface is not initialised.
    int total(int* number) {
        int code = ready();
        if (code == MPI_SUCCESS)
            code = (*number_)(number);
        if (code == MPI_SUCCESS)
            *number += mine_;
        return code;
    }
    int ready() {
        int number = 0;
        const int code = (*number_)(&number);
        const std::lock_guard guard(mutex_);
        if (code == MPI_SUCCESS && first_ < 0)
            first_ = number;
        return code;
    }
    // After ready().
    [[nodiscard]] bool is_ours(int index) const { return index >= first_ && index < first_ + mine_; }
    [[nodiscard]] int ours(int index) const { return index - first_; }
    [[nodiscard]] int to_real(int index) const { return index < first_ ? index : index - mine_; }
    [[nodiscard]] int of_real(int index) const { return index < first_ ? index : index + mine_; }
    [[nodiscard]] int of_ours(int index) const { return first_ + index; }

  private:
    int (**number_)(int*);
    const int mine_;
    int first_ = -1;
    std::mutex mutex_;
};

inline Indices& performance_indices() {
    static Indices indices(&real::T_pvar_get_num, static_cast<int>(tool::performance().size()));
    return indices;
}

inline Indices& control_indices() {
    static Indices indices(&real::T_cvar_get_num, static_cast<int>(tool::control().size()));
    return indices;
}

// Those that MPI has written become those that tools see. Returns `code`, MPI's own.
inline int renumber(int code, const Indices& indices, int written, int* list) {
    if (code == MPI_SUCCESS && list != nullptr)
        for (int i = 0; i < written; ++i)
            list[i] = indices.of_real(list[i]);
    return code;
}

template <typename T, typename V>
void give(T* to, V value) {
    if (to != nullptr)
        *to = static_cast<T>(value);
}

// Strings by section 14.3.3: *length is what the buffer holds, and becomes what is needed; both count the null.
inline void give_text(std::string_view text, char* to, int* length) {
    if (length == nullptr)
        return;
    if (to != nullptr && *length > 0) {
        const std::size_t copied = std::min(text.size(), static_cast<std::size_t>(*length) - 1);
        std::memcpy(to, text.data(), copied);
        to[copied] = '\0';
    }
    *length = static_cast<int>(text.size()) + 1;
}

}  // namespace swy::tool
