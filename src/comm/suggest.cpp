#include "comm/suggest.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/listing.hpp"
#include "real.hpp"
#include "topology/devices.hpp"
#include "topology/memory.hpp"

namespace swy::comm {
namespace {

// Every rank's text, by rank.
int gather(MPI_Comm comm, const std::string& mine, std::vector<std::string>& all) {
    int size = 0;
    real::Comm_size(comm, &size);
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(static_cast<std::size_t>(size)), starts(lengths.size());
    if (const int rc = real::Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm); rc != MPI_SUCCESS)
        return rc;
    for (std::size_t rank = 1; rank < lengths.size(); ++rank)
        starts[rank] = starts[rank - 1] + lengths[rank - 1];
    std::string joined(static_cast<std::size_t>(starts.back() + lengths.back()), '\0');
    const int rc =
        real::Allgatherv(mine.data(), length, MPI_CHAR, joined.data(), lengths.data(), starts.data(), MPI_CHAR, comm);
    for (std::size_t rank = 0; rc == MPI_SUCCESS && rank < lengths.size(); ++rank)
        all.push_back(joined.substr(static_cast<std::size_t>(starts[rank]), static_cast<std::size_t>(lengths[rank])));
    return rc;
}

// The ordinals of this process's part of the node's GPUs, the one that suits it best first.
int suggest_on_node(MPI_Comm node, std::vector<int>& ordinals) {
    device::load_driver();
    std::vector<std::string> texts;
    if (const int rc = gather(node, topology::pack(device::this_process()), texts); rc != MPI_SUCCESS)
        return rc;
    std::vector<topology::Member> members;
    for (const std::string& text : texts)
        members.push_back(topology::unpack(text));
    topology::Machine machine;
    // Without hwloc's account nothing is known of distances; the GPUs are shared out evenly all the same.
    static_cast<void>(topology::read_machine("", machine));
    int rank = 0;
    real::Comm_rank(node, &rank);
    const topology::NodeFacts facts = facts_of(members, machine);
    const std::vector<int>& visible = facts.ranks[static_cast<std::size_t>(rank)].visible;
    const std::vector<std::vector<int>> shares = share_out(facts, choose(facts));
    for (const int gpu : shares[static_cast<std::size_t>(rank)])
        ordinals.push_back(static_cast<int>(std::find(visible.begin(), visible.end(), gpu) - visible.begin()));
    return MPI_SUCCESS;
}

}  // namespace

int suggest(MPI_Comm comm, std::vector<int>& ordinals) {
    int rank = 0;
    MPI_Comm node = MPI_COMM_NULL;
    int rc = real::Comm_rank(comm, &rank);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = suggest_on_node(node, ordinals);
    real::Comm_free(&node);
    return rc;
}

int near(const void* buffer, std::span<const int> ordinals) {
    device::load_driver();
    const device::Location location = device::locate(buffer);
    if (location.on_device() && !location.any_device)
        return location.ordinal;
    std::vector<int> all(static_cast<std::size_t>(ordinals.empty() ? device::device_count() : 0));
    std::iota(all.begin(), all.end(), 0);
    const std::span<const int> listed = ordinals.empty() ? all : ordinals;
    return listed.empty() ? MPI_UNDEFINED : listed[device::nearest_device(buffer, listed)];
}

void warn_of_idle_gpus(const State& state, const nccl::Group& group) {
    static std::atomic<bool> said{false};
    int world = 0;
    real::Comm_size(MPI_COMM_WORLD, &world);
    const auto& self = group[static_cast<std::size_t>(state.rank)];
    const auto here = [&](const nccl::Member& member) { return member.host == self.host; };
    const auto first = std::find_if(group.begin(), group.end(), here);
    const auto number = std::count_if(group.begin(), group.end(), here);
    const bool one = std::all_of(group.begin(), group.end(),
                                 [&](const auto& member) { return !here(member) || member.gpu == self.gpu; });
    const int devices = device::device_count();
    if (state.size < world || number < 2 || !one || devices < 2 || first - group.begin() != state.rank ||
        said.exchange(true))
        return;
    std::fprintf(stderr,
                 "switchyard: all %d ranks of this node use one GPU while %d more %s idle: start the program with "
                 "switchyard run --gpus=near, or have each rank call cudaSetDevice with its rank on the node\n",
                 static_cast<int>(number), devices - 1, devices == 2 ? "is" : "are");
}

}  // namespace swy::comm
