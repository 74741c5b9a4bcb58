#include "ext/named/named.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <vector>

#include "ext/named/group_file.hpp"
#include "real.hpp"
#include "settings/files.hpp"

namespace swy::named {
namespace {

struct Names {
    std::mutex mutex;
    std::map<std::string, MPI_Group> declared;
    std::string file, problem;  // "" where there is none
    std::vector<NamedGroup> in_file;
};
Names& names() {
    static auto* all = new Names;  // not destroyed at exit
    return *all;
}

int broadcast(std::string& text) {
    std::int64_t length = static_cast<std::int64_t>(text.size());
    if (const int rc = real::Bcast(&length, 1, MPI_INT64_T, 0, MPI_COMM_WORLD); rc != MPI_SUCCESS)
        return rc;
    text.resize(static_cast<std::size_t>(length));
    return real::Bcast(text.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD);
}

MPI_Group group_of_world(const std::vector<int>& ranks) {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    real::Comm_group(MPI_COMM_WORLD, &world);
    real::Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
    real::Group_free(&world);
    return group;
}

void free_group(MPI_Group& group) {
    if (group != MPI_GROUP_NULL && group != MPI_GROUP_EMPTY)
        real::Group_free(&group);
}

#ifdef MPI_SESSION_NULL  // MPI 4.0; Open MPI has sessions since 5.0
std::string set_number(MPI_Session session, int number) {
    int length = 0;
    real::Session_get_nth_pset(session, MPI_INFO_NULL, number, &length, nullptr);
    std::string name(static_cast<std::size_t>(length), '\0');
    real::Session_get_nth_pset(session, MPI_INFO_NULL, number, &length, name.data());
    return name.c_str();
}

// The members of a process set as ranks of MPI_COMM_WORLD: a group from the session would have to be freed before the
// session ends.
std::vector<int> members_of_set(MPI_Session session, const std::string& name) {
    MPI_Group set = MPI_GROUP_NULL;
    if (real::Group_from_session_pset(session, name.c_str(), &set) != MPI_SUCCESS)
        return {};
    MPI_Group world = MPI_GROUP_NULL;
    int size = 0;
    real::Comm_group(MPI_COMM_WORLD, &world);
    real::Group_size(set, &size);
    std::vector<int> ranks(static_cast<std::size_t>(size)), found(ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    real::Group_translate_ranks(set, size, ranks.data(), world, found.data());
    real::Group_free(&world);
    free_group(set);
    std::erase(found, MPI_UNDEFINED);
    return found;
}

MPI_Group process_set(const std::string& name, std::string& all) {
    MPI_Session session = MPI_SESSION_NULL;
    if (real::Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS)
        return MPI_GROUP_NULL;
    int sets = 0;
    std::vector<int> members;
    real::Session_get_num_psets(session, MPI_INFO_NULL, &sets);
    for (int i = 0; i < sets; ++i) {
        const std::string set = set_number(session, i);
        all += (all.empty() ? "" : ", ") + set;
        if (set == name)
            members = members_of_set(session, name);
    }
    real::Session_finalize(&session);
    return members.empty() ? MPI_GROUP_NULL : group_of_world(members);
}
#else
MPI_Group process_set(const std::string&, std::string&) {
    return MPI_GROUP_NULL;
}
#endif

// The group of this name in the file to which the calling rank belongs; an empty group where it belongs to none of
// several.
MPI_Group in_file(const std::string& name, std::set<std::string>& others) {
    int rank = 0;
    real::Comm_rank(MPI_COMM_WORLD, &rank);
    bool known = false;
    for (const NamedGroup& group : names().in_file) {
        if (group.name != name) {
            others.insert(group.name);
            continue;
        }
        known = true;
        if (std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end())
            return group_of_world(group.ranks);
    }
    return known ? MPI_GROUP_EMPTY : MPI_GROUP_NULL;
}

// Looks a name up; called under the lock. Where it returns MPI_GROUP_NULL, `problem` says why.
MPI_Group find(const std::string& name, std::string& problem) {
    if (const auto declared = names().declared.find(name); declared != names().declared.end()) {
        MPI_Group copy = MPI_GROUP_NULL;
        real::Group_excl(declared->second, 0, nullptr, &copy);
        return copy;
    }
    if (!names().problem.empty()) {
        problem = names().problem;
        return MPI_GROUP_NULL;
    }
    std::set<std::string> others;
    if (const MPI_Group group = in_file(name, others); group != MPI_GROUP_NULL)
        return group;
    std::string sets;
    if (const MPI_Group group = process_set(name, sets); group != MPI_GROUP_NULL)
        return group;
    problem = fmt::format(
        "there is no group \"{}\": the program has declared none of that name (MPIX_Group_declare), {}, and the "
        "launcher {}",
        name,
        names().file.empty() ? "SWITCHYARD_GROUPS names no file"
                             : fmt::format("{} has {}", names().file,
                                           others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", "))),
        sets.empty() ? "gives no process sets" : "has the process sets " + sets);
    return MPI_GROUP_NULL;
}

// The tag of a name: MPI_Comm_create_group tells concurrent calls on one communicator apart by their tags.
int tag_of(const std::string& name) {
    std::uint32_t hash = 0x811c9dc5u;
    for (const char c : name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
    return static_cast<int>(hash % 30000);
}

}  // namespace

int share_group_file(const std::string& file) {
    int rank = 0;
    int size = 0;
    real::Comm_rank(MPI_COMM_WORLD, &rank);
    real::Comm_size(MPI_COMM_WORLD, &size);
    std::string path = file;
    std::string text;
    std::string problem = rank == 0 ? settings::read_file(file, text) : std::string{};
    for (std::string* part : {&path, &text, &problem})
        if (const int rc = broadcast(*part); rc != MPI_SUCCESS)
            return rc;
    const std::scoped_lock lock(names().mutex);
    names().file = path;
    names().in_file.clear();
    names().problem = problem.empty() ? read_groups(text, path, size, names().in_file) : problem;
    return MPI_SUCCESS;
}

void forget_groups() {
    const std::scoped_lock lock(names().mutex);
    for (auto& [name, group] : names().declared)
        free_group(group);
    names().declared.clear();
    names().in_file.clear();
    names().file.clear();
    names().problem.clear();
}

int declare_group(const std::string& name, MPI_Group group) {
    MPI_Group copy = MPI_GROUP_NULL;
    if (const int rc = real::Group_excl(group, 0, nullptr, &copy); rc != MPI_SUCCESS)
        return rc;
    const std::scoped_lock lock(names().mutex);
    MPI_Group& kept = names().declared.try_emplace(name, MPI_GROUP_NULL).first->second;
    free_group(kept);
    kept = copy;
    return MPI_SUCCESS;
}

int from_name(const std::string& name, MPI_Comm& comm, std::string& problem) {
    comm = MPI_COMM_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    {
        const std::scoped_lock lock(names().mutex);
        group = find(name, problem);
    }
    if (group == MPI_GROUP_NULL)
        return MPI_SUCCESS;
    int rank = MPI_UNDEFINED;
    int rc = real::Group_rank(group, &rank);
    if (rc == MPI_SUCCESS && rank != MPI_UNDEFINED)
        rc = real::Comm_create_group(MPI_COMM_WORLD, group, tag_of(name), &comm);
    free_group(group);
    if (rc == MPI_SUCCESS && comm != MPI_COMM_NULL)
        real::Comm_set_name(comm, name.substr(0, MPI_MAX_OBJECT_NAME - 1).c_str());
    return rc;
}

}  // namespace swy::named
