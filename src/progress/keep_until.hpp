// What has been given up while MPI or a device still uses its memory: the memory stays.
#pragma once

#include <mpi.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace swy::progress {

// Keeps `memory` until `request`, a real request that is the library's alone from here on, is complete, and frees the
// request then. Drops `memory` at once where there is no request. Any thread may call this; it calls no MPI function.
void keep_until(MPI_Request request, std::shared_ptr<void> memory);

// Drops the memory whose requests are complete by now. The engine calls this now and then.
void drop_kept();

// Keeps `memory` to the end of the process: nothing will tell when a device, or MPI after MPI_Finalize, is done with
// it.
template <typename T>
void keep_for_ever(T&& memory) {
    static_assert(!std::is_lvalue_reference_v<T>, "moved from");
    static_cast<void>(new T(std::move(memory)));
}

}  // namespace swy::progress
