#include "datatype/layout.hpp"

#include <atomic>
#include <mutex>
#include <new>

#include "datatype/decode.hpp"
#include "datatype/extension.hpp"
#include "datatype/predefined.hpp"
#include "datatype/quick.hpp"
#include "real.hpp"

namespace swy::datatype {
namespace {

using Shared = std::shared_ptr<const Layout>;

std::mutex layout_mutex;  // guards making the keyval and attaching a layout to a type
std::atomic<int> keyval{MPI_KEYVAL_INVALID};

int drop(MPI_Datatype, int, void* value, void*) {
    delete static_cast<Shared*>(value);
    return MPI_SUCCESS;
}

// The keyval. Attributes are not copied: a type's layout is not that of the types that a program derives from it, and
// the result of MPI_Type_dup gets its own.
int ours(bool make) {
    const int known = keyval.load(std::memory_order_acquire);
    if (known != MPI_KEYVAL_INVALID || !make)
        return known;
    const std::lock_guard lock(layout_mutex);
    int fresh = keyval.load(std::memory_order_relaxed);
    if (fresh == MPI_KEYVAL_INVALID &&
        real::Type_create_keyval(MPI_TYPE_NULL_COPY_FN, drop, &fresh, nullptr) == MPI_SUCCESS)
        keyval.store(fresh, std::memory_order_release);
    return keyval.load(std::memory_order_relaxed);
}

Shared* hanging_on(MPI_Datatype type, int key) {
    void* value = nullptr;
    int found = 0;
    if (real::Type_get_attr(type, key, &value, &found) != MPI_SUCCESS || !found)
        return nullptr;
    return static_cast<Shared*>(value);
}

Shared of_predefined(MPI_Datatype type, const Predefined& row) {
    if (const Shared* known = row.layout.load(std::memory_order_acquire))
        return *known;
    auto made = std::make_unique<const Shared>(std::make_shared<const Layout>(decode(type)));
    const Shared* known = nullptr;
    if (row.layout.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
        known = made.release();
    return *known;
}

}  // namespace

Shared layout_of(MPI_Datatype type) {
    if (const Predefined* row = find_predefined(type))
        return of_predefined(type, *row);
    const int key = ours(true);
    if (key == MPI_KEYVAL_INVALID)
        return std::make_shared<const Layout>(decode(type));
    // An attached layout lives as long as the type, and the caller's type lives during the call.
    if (const Shared* known = hanging_on(type, key))
        return *known;
    auto made = std::make_unique<Shared>(std::make_shared<const Layout>(decode(type)));
    const std::lock_guard lock(layout_mutex);
    if (const Shared* known = hanging_on(type, key))  // another thread was quicker
        return *known;
    Shared result = *made;
    if (real::Type_set_attr(type, key, made.get()) == MPI_SUCCESS)
        made.release();
    if (result->predefined)
        remember_predefined(type, result->size);
    return result;
}

void release() {
    release_extensions();
    const std::lock_guard lock(layout_mutex);
    int key = keyval.exchange(MPI_KEYVAL_INVALID);
    if (key != MPI_KEYVAL_INVALID)
        real::Type_free_keyval(&key);  // MPI keeps the keyval until the last type that has one is freed
}

}  // namespace swy::datatype
