// The wrappers for control variables and categories of MPI's tool information interface (MPI 3.1 sections 14.3.6 and
// 14.3.8). What is not of Switchyard's variables is MPI's own call.
#include <mpi.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "call/entry_point.hpp"
#include "mpi_compat/tool_indices.hpp"
#include "real.hpp"
#include "tool/variables.hpp"

using namespace swy;
using tool::control_indices;

namespace {

tool::Indices& category_indices() {
    static tool::Indices indices(&real::T_category_get_num, 1);
    return indices;
}

// Handles of ours, by their addresses. A tool may ask for them until the very end of the process.
struct ControlHandles {
    std::mutex mutex;
    std::map<MPI_T_cvar_handle, std::unique_ptr<const tool::Control*>> all;
};

ControlHandles& control_handles() {
    static auto* const made = new ControlHandles;
    return *made;
}

// The longest value, with its null: a path.
constexpr int kValueLength = 4096;

constexpr const char* kCategory = "switchyard";

enum class Members { kControl, kPerformance, kCategories };

int members_of(int category, int length, int* list, Members kind, int (*real)(int, int, int*)) {
    int code = category_indices().ready();
    if (code == MPI_SUCCESS)
        code = control_indices().ready();
    if (code == MPI_SUCCESS)
        code = tool::performance_indices().ready();
    if (code != MPI_SUCCESS)
        return code;
    const tool::Indices& indices = kind == Members::kControl       ? control_indices()
                                   : kind == Members::kPerformance ? tool::performance_indices()
                                                                   : category_indices();
    if (!category_indices().is_ours(category)) {
        const int there = category_indices().to_real(category);
        int numbers[3] = {};
        code =
            real::T_category_get_info(there, nullptr, nullptr, nullptr, nullptr, &numbers[0], &numbers[1], &numbers[2]);
        return code != MPI_SUCCESS ? code
                                   : tool::renumber(real(there, length, list), indices,
                                                    std::min(length, numbers[static_cast<int>(kind)]), list);
    }
    const std::size_t all = kind == Members::kControl       ? tool::control().size()
                            : kind == Members::kPerformance ? tool::performance().size()
                                                            : 0;
    for (int i = 0; i < std::min(length, static_cast<int>(all)); ++i)
        list[i] = indices.of_ours(i);
    return MPI_SUCCESS;
}

}  // namespace

extern "C" SWY_EXPORT int MPI_T_cvar_get_num(int* num_cvar) {
    return control_indices().total(num_cvar);
}
SWY_PAIR(MPI_T_cvar_get_num)

extern "C" SWY_EXPORT int MPI_T_cvar_get_info(int cvar_index, char* name, int* name_len, int* verbosity,
                                              MPI_Datatype* datatype, MPI_T_enum* enumtype, char* desc, int* desc_len,
                                              int* bind, int* scope) {
    tool::Indices& indices = control_indices();
    if (const int code = indices.ready(); code != MPI_SUCCESS)
        return code;
    if (!indices.is_ours(cvar_index))
        return real::T_cvar_get_info(indices.to_real(cvar_index), name, name_len, verbosity, datatype, enumtype, desc,
                                     desc_len, bind, scope);
    const tool::Control& variable = tool::control()[static_cast<std::size_t>(indices.ours(cvar_index))];
    tool::give_text(variable.name, name, name_len);
    tool::give_text(variable.description, desc, desc_len);
    tool::give(verbosity, MPI_T_VERBOSITY_USER_BASIC);
    if (datatype != nullptr)
        *datatype = MPI_CHAR;
    if (enumtype != nullptr)
        *enumtype = MPI_T_ENUM_NULL;
    tool::give(bind, MPI_T_BIND_NO_OBJECT);
    tool::give(scope, MPI_T_SCOPE_READONLY);
    return MPI_SUCCESS;
}
SWY_PAIR(MPI_T_cvar_get_info)

extern "C" SWY_EXPORT int MPI_T_cvar_get_index(const char* name, int* cvar_index) {
    tool::Indices& indices = control_indices();
    if (const int code = indices.ready(); code != MPI_SUCCESS)
        return code;
    const auto& all = tool::control();
    for (int i = 0; name != nullptr && cvar_index != nullptr && i < static_cast<int>(all.size()); ++i) {
        if (all[static_cast<std::size_t>(i)].name == name) {
            *cvar_index = indices.of_ours(i);
            return MPI_SUCCESS;
        }
    }
    const int code = real::T_cvar_get_index(name, cvar_index);
    return tool::renumber(code, indices, 1, cvar_index);
}
SWY_PAIR(MPI_T_cvar_get_index)

extern "C" SWY_EXPORT int MPI_T_cvar_handle_alloc(int cvar_index, void* obj_handle, MPI_T_cvar_handle* handle,
                                                  int* count) {
    tool::Indices& indices = control_indices();
    if (const int code = indices.ready(); code != MPI_SUCCESS)
        return code;
    if (!indices.is_ours(cvar_index))
        return real::T_cvar_handle_alloc(indices.to_real(cvar_index), obj_handle, handle, count);
    if (handle == nullptr || count == nullptr)
        return MPI_ERR_ARG;
    auto made =
        std::make_unique<const tool::Control*>(&tool::control()[static_cast<std::size_t>(indices.ours(cvar_index))]);
    *handle = reinterpret_cast<MPI_T_cvar_handle>(made.get());
    *count = kValueLength;
    const std::lock_guard guard(control_handles().mutex);
    control_handles().all.emplace(*handle, std::move(made));
    return MPI_SUCCESS;
}
SWY_PAIR(MPI_T_cvar_handle_alloc)

extern "C" SWY_EXPORT int MPI_T_cvar_handle_free(MPI_T_cvar_handle* handle) {
    {
        const std::lock_guard guard(control_handles().mutex);
        if (handle != nullptr && control_handles().all.erase(*handle) != 0) {
            *handle = MPI_T_CVAR_HANDLE_NULL;
            return MPI_SUCCESS;
        }
    }
    return real::T_cvar_handle_free(handle);
}
SWY_PAIR(MPI_T_cvar_handle_free)

extern "C" SWY_EXPORT int MPI_T_cvar_read(MPI_T_cvar_handle handle, void* buf) {
    {
        const std::lock_guard guard(control_handles().mutex);
        if (const auto found = control_handles().all.find(handle); found != control_handles().all.end()) {
            int length = kValueLength;
            tool::give_text((*found->second)->value(), static_cast<char*>(buf), &length);
            return MPI_SUCCESS;
        }
    }
    return real::T_cvar_read(handle, buf);
}
SWY_PAIR(MPI_T_cvar_read)

// The settings are what the ranks agreed on at MPI_Init.
extern "C" SWY_EXPORT int MPI_T_cvar_write(MPI_T_cvar_handle handle, const void* buf) {
    {
        const std::lock_guard guard(control_handles().mutex);
        if (control_handles().all.find(handle) != control_handles().all.end())
            return MPI_T_ERR_CVAR_SET_NEVER;
    }
    return real::T_cvar_write(handle, buf);
}
SWY_PAIR(MPI_T_cvar_write)

extern "C" SWY_EXPORT int MPI_T_category_get_num(int* num_cat) {
    return category_indices().total(num_cat);
}
SWY_PAIR(MPI_T_category_get_num)

extern "C" SWY_EXPORT int MPI_T_category_get_info(int cat_index, char* name, int* name_len, char* desc, int* desc_len,
                                                  int* num_cvars, int* num_pvars, int* num_categories) {
    tool::Indices& indices = category_indices();
    if (const int code = indices.ready(); code != MPI_SUCCESS)
        return code;
    if (!indices.is_ours(cat_index))
        return real::T_category_get_info(indices.to_real(cat_index), name, name_len, desc, desc_len, num_cvars,
                                         num_pvars, num_categories);
    tool::give_text(kCategory, name, name_len);
    tool::give_text("MPI on device memory: transports, reasons and settings", desc, desc_len);
    tool::give(num_cvars, tool::control().size());
    tool::give(num_pvars, tool::performance().size());
    tool::give(num_categories, 0);
    return MPI_SUCCESS;
}
SWY_PAIR(MPI_T_category_get_info)

extern "C" SWY_EXPORT int MPI_T_category_get_index(const char* name, int* category_index) {
    tool::Indices& indices = category_indices();
    if (const int code = indices.ready(); code != MPI_SUCCESS)
        return code;
    if (name != nullptr && category_index != nullptr && std::string_view(name) == kCategory) {
        *category_index = indices.of_ours(0);
        return MPI_SUCCESS;
    }
    const int code = real::T_category_get_index(name, category_index);
    return tool::renumber(code, indices, 1, category_index);
}
SWY_PAIR(MPI_T_category_get_index)

extern "C" SWY_EXPORT int MPI_T_category_get_cvars(int cat_index, int len, int indices[]) {
    return members_of(cat_index, len, indices, Members::kControl, real::T_category_get_cvars);
}
SWY_PAIR(MPI_T_category_get_cvars)

extern "C" SWY_EXPORT int MPI_T_category_get_pvars(int cat_index, int len, int indices[]) {
    return members_of(cat_index, len, indices, Members::kPerformance, real::T_category_get_pvars);
}
SWY_PAIR(MPI_T_category_get_pvars)

extern "C" SWY_EXPORT int MPI_T_category_get_categories(int cat_index, int len, int indices[]) {
    return members_of(cat_index, len, indices, Members::kCategories, real::T_category_get_categories);
}
SWY_PAIR(MPI_T_category_get_categories)
