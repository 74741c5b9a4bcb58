// The program's error handler, which a real MPI function calls, may leave that function by a C++ exception.
#pragma once

namespace swy::error {

// Makes a real call. Where an exception leaves it, `thrown` is called before the exception goes on, so that what the
// real call has done is recorded then, too. Costs nothing where none does.
template <typename Call, typename Thrown>
inline int unless_thrown(Call call, Thrown thrown) {
    try {
        return call();
    } catch (...) {
        thrown();
        throw;
    }
}

}  // namespace swy::error
