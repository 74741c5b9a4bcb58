// The collectives that `switchyard tune` measures, for the command and for switchyard-measure.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace swy::cli {

enum class Measured { kAllreduce, kReduce, kBcast, kAllgather, kGather, kScatter, kAlltoall, kReduceScatter };

inline constexpr std::array<std::pair<Measured, std::string_view>, 8> kMeasuredCalls = {{
    {Measured::kAllreduce, "MPI_Allreduce"},
    {Measured::kReduce, "MPI_Reduce"},
    {Measured::kBcast, "MPI_Bcast"},
    {Measured::kAllgather, "MPI_Allgather"},
    {Measured::kGather, "MPI_Gather"},
    {Measured::kScatter, "MPI_Scatter"},
    {Measured::kAlltoall, "MPI_Alltoall"},
    {Measured::kReduceScatter, "MPI_Reduce_scatter_block"},
}};

// Calls that are not measured, each with the measured call whose threshold it gets.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kLikeMeasured = {{
    {"MPI_Allgatherv", "MPI_Allgather"},
    {"MPI_Gatherv", "MPI_Gather"},
    {"MPI_Scatterv", "MPI_Scatter"},
    {"MPI_Alltoallv", "MPI_Alltoall"},
    {"MPI_Alltoallw", "MPI_Alltoall"},
    {"MPI_Reduce_scatter", "MPI_Reduce_scatter_block"},
}};

inline constexpr std::size_t kSmallestMeasured = 1024;

}  // namespace swy::cli
