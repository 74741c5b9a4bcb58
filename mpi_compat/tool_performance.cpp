// The wrappers for performance variables of MPI's tool information interface (MPI 3.1 section 14.3.7). What is not of
// Switchyard's variables is MPI's own call.
#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "call/entry_point.hpp"
#include "mpi_compat/tool_indices.hpp"
#include "real.hpp"
#include "tool/variables.hpp"

using namespace swy;
using tool::performance_indices;

namespace {

// A handle of ours: what its variable has counted while it was started.
struct Performance {
    const tool::Performance* variable;
    MPI_T_pvar_session session;
    bool started = false;
    std::uint64_t since = 0, before = 0;  // the variable's value at the last start, and what was counted until then

    [[nodiscard]] std::uint64_t value() const { return before + (started ? variable->value() - since : 0); }
    void set(std::uint64_t value) {
        before = value;
        since = started ? variable->value() : 0;
    }
    void start() {
        if (!started)
            since = variable->value();
        started = true;
    }
    void stop() {
        before = value();
        started = false;
    }
    void read(void* buffer) const {
        if (variable->quantity == tool::Quantity::kNanoseconds)
            *static_cast<double*>(buffer) = static_cast<double>(value()) * 1e-9;
        else
            *static_cast<unsigned long long*>(buffer) = value();
    }
    void write(const void* buffer) {
        if (variable->quantity == tool::Quantity::kNanoseconds)
            set(static_cast<std::uint64_t>(*static_cast<const double*>(buffer) * 1e9));
        else
            set(*static_cast<const unsigned long long*>(buffer));
    }
};

// Handles of ours, by their addresses, which are what the tool has: no handle of MPI's has the same. A tool may ask for
// them until the very end of the process.
struct Handles {
    std::mutex mutex;
    std::map<MPI_T_pvar_handle, std::unique_ptr<Performance>> all;
};

Handles& handles() {
    static auto* const made = new Handles;
    return *made;
}

// Applies something to one handle of ours, or to all in the session and then has MPI do the same; otherwise it is
// MPI's.
template <typename Ours, typename Real>
int one_or_all(MPI_T_pvar_session session, MPI_T_pvar_handle handle, Ours ours, Real real) {
    {
        const std::lock_guard guard(handles().mutex);
        const auto found = handles().all.find(handle);
        if (found != handles().all.end()) {
            if (const int code = performance_indices().ready(); code != MPI_SUCCESS)
                return code;
            if (found->second->session != session)
                return MPI_T_ERR_INVALID_HANDLE;
            ours(*found->second);
            return MPI_SUCCESS;
        }
        if (handle == MPI_T_PVAR_ALL_HANDLES)
            for (auto& [key, ours_too] : handles().all)
                if (ours_too->session == session)
                    ours(*ours_too);
    }
    return real();
}

}  // namespace

extern "C" SWY_EXPORT int MPI_T_pvar_get_num(int* num_pvar) {
    return performance_indices().total(num_pvar);
}
SWY_PAIR(MPI_T_pvar_get_num)

extern "C" SWY_EXPORT int MPI_T_pvar_get_info(int pvar_index, char* name, int* name_len, int* verbosity, int* var_class,
                                              MPI_Datatype* datatype, MPI_T_enum* enumtype, char* desc, int* desc_len,
                                              int* bind, int* readonly, int* continuous, int* atomic) {
    tool::Indices& indices = performance_indices();
    if (const int code = indices.ready(); code != MPI_SUCCESS)
        return code;
    if (!indices.is_ours(pvar_index))
        return real::T_pvar_get_info(indices.to_real(pvar_index), name, name_len, verbosity, var_class, datatype,
                                     enumtype, desc, desc_len, bind, readonly, continuous, atomic);
    const tool::Performance& variable = tool::performance()[static_cast<std::size_t>(indices.ours(pvar_index))];
    const bool seconds = variable.quantity == tool::Quantity::kNanoseconds;
    tool::give_text(variable.name, name, name_len);
    tool::give_text(variable.description, desc, desc_len);
    tool::give(verbosity, !variable.call.empty() ? MPI_T_VERBOSITY_USER_ALL
                          : variable.reason      ? MPI_T_VERBOSITY_USER_DETAIL
                                                 : MPI_T_VERBOSITY_USER_BASIC);
    tool::give(var_class, seconds                                       ? MPI_T_PVAR_CLASS_TIMER
                          : variable.quantity == tool::Quantity::kBytes ? MPI_T_PVAR_CLASS_AGGREGATE
                                                                        : MPI_T_PVAR_CLASS_COUNTER);
    if (datatype != nullptr)
        *datatype = seconds ? MPI_DOUBLE : MPI_UNSIGNED_LONG_LONG;
    if (enumtype != nullptr)
        *enumtype = MPI_T_ENUM_NULL;
    tool::give(bind, MPI_T_BIND_NO_OBJECT);
    tool::give(readonly, 0);
    tool::give(continuous, 0);
    tool::give(atomic, 1);
    return MPI_SUCCESS;
}
SWY_PAIR(MPI_T_pvar_get_info)

extern "C" SWY_EXPORT int MPI_T_pvar_get_index(const char* name, int var_class, int* pvar_index) {
    tool::Indices& indices = performance_indices();
    if (const int code = indices.ready(); code != MPI_SUCCESS)
        return code;
    const auto& all = tool::performance();
    for (int i = 0; name != nullptr && pvar_index != nullptr && i < static_cast<int>(all.size()); ++i) {
        if (all[static_cast<std::size_t>(i)].name != name)
            continue;
        int its_class = 0;
        MPI_T_pvar_get_info(indices.of_ours(i), nullptr, nullptr, nullptr, &its_class, nullptr, nullptr, nullptr,
                            nullptr, nullptr, nullptr, nullptr, nullptr);
        *pvar_index = indices.of_ours(i);
        return its_class == var_class ? MPI_SUCCESS : MPI_T_ERR_INVALID_NAME;
    }
    const int code = real::T_pvar_get_index(name, var_class, pvar_index);
    return tool::renumber(code, indices, 1, pvar_index);
}
SWY_PAIR(MPI_T_pvar_get_index)

extern "C" SWY_EXPORT int MPI_T_pvar_session_free(MPI_T_pvar_session* session) {
    if (session != nullptr) {
        const std::lock_guard guard(handles().mutex);
        std::erase_if(handles().all, [session](const auto& entry) { return entry.second->session == *session; });
    }
    return real::T_pvar_session_free(session);
}
SWY_PAIR(MPI_T_pvar_session_free)

extern "C" SWY_EXPORT int MPI_T_pvar_handle_alloc(MPI_T_pvar_session session, int pvar_index, void* obj_handle,
                                                  MPI_T_pvar_handle* handle, int* count) {
    tool::Indices& indices = performance_indices();
    if (const int code = indices.ready(); code != MPI_SUCCESS)
        return code;
    if (!indices.is_ours(pvar_index))
        return real::T_pvar_handle_alloc(session, indices.to_real(pvar_index), obj_handle, handle, count);
    if (session == MPI_T_PVAR_SESSION_NULL)
        return MPI_T_ERR_INVALID_SESSION;
    if (handle == nullptr || count == nullptr)
        return MPI_ERR_ARG;
    tool::count_calls();
    auto made = std::make_unique<Performance>(
        Performance{&tool::performance()[static_cast<std::size_t>(indices.ours(pvar_index))], session});
    *handle = reinterpret_cast<MPI_T_pvar_handle>(made.get());
    *count = 1;
    const std::lock_guard guard(handles().mutex);
    handles().all.emplace(*handle, std::move(made));
    return MPI_SUCCESS;
}
SWY_PAIR(MPI_T_pvar_handle_alloc)

extern "C" SWY_EXPORT int MPI_T_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle* handle) {
    const bool all =
        handle != nullptr && *handle == MPI_T_PVAR_ALL_HANDLES;  // a mistake of the tool's, for MPI to name
    bool ours = false;
    const int code = one_or_all(
        session, handle != nullptr && !all ? *handle : MPI_T_PVAR_HANDLE_NULL, [&ours](Performance&) { ours = true; },
        [session, handle] { return real::T_pvar_handle_free(session, handle); });
    if (ours) {
        const std::lock_guard guard(handles().mutex);
        handles().all.erase(*handle);
        *handle = MPI_T_PVAR_HANDLE_NULL;
    }
    return code;
}
SWY_PAIR(MPI_T_pvar_handle_free)

extern "C" SWY_EXPORT int MPI_T_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
    return one_or_all(
        session, handle, [](Performance& ours) { ours.start(); },
        [session, handle] { return real::T_pvar_start(session, handle); });
}
SWY_PAIR(MPI_T_pvar_start)

extern "C" SWY_EXPORT int MPI_T_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
    return one_or_all(
        session, handle, [](Performance& ours) { ours.stop(); },
        [session, handle] { return real::T_pvar_stop(session, handle); });
}
SWY_PAIR(MPI_T_pvar_stop)

extern "C" SWY_EXPORT int MPI_T_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
    return one_or_all(
        session, handle, [](Performance& ours) { ours.set(0); },
        [session, handle] { return real::T_pvar_reset(session, handle); });
}
SWY_PAIR(MPI_T_pvar_reset)

extern "C" SWY_EXPORT int MPI_T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf) {
    if (handle == MPI_T_PVAR_ALL_HANDLES)
        return real::T_pvar_read(session, handle, buf);
    return one_or_all(
        session, handle, [buf](const Performance& ours) { ours.read(buf); },
        [session, handle, buf] { return real::T_pvar_read(session, handle, buf); });
}
SWY_PAIR(MPI_T_pvar_read)

extern "C" SWY_EXPORT int MPI_T_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void* buf) {
    if (handle == MPI_T_PVAR_ALL_HANDLES)
        return real::T_pvar_write(session, handle, buf);
    return one_or_all(
        session, handle, [buf](Performance& ours) { ours.write(buf); },
        [session, handle, buf] { return real::T_pvar_write(session, handle, buf); });
}
SWY_PAIR(MPI_T_pvar_write)

extern "C" SWY_EXPORT int MPI_T_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf) {
    if (handle == MPI_T_PVAR_ALL_HANDLES)
        return real::T_pvar_readreset(session, handle, buf);
    // What is counted between the two steps stays in the variable, so nothing is lost.
    return one_or_all(
        session, handle,
        [buf](Performance& ours) {
            const std::uint64_t now = ours.started ? ours.variable->value() : 0;
            Performance read = ours;
            read.before += ours.started ? now - ours.since : 0;
            read.started = false;
            read.read(buf);
            ours.before = 0;
            ours.since = now;
        },
        [session, handle, buf] { return real::T_pvar_readreset(session, handle, buf); });
}
SWY_PAIR(MPI_T_pvar_readreset)
