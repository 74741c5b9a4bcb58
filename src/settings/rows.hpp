// The table itself: a row a setting. For settings.cpp alone.
#pragma once

#include <array>
#include <bit>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "settings/parse.hpp"
#include "settings/settings.hpp"

namespace swy::settings {

// Names of the kinds of values, as messages and the manual print them: each says what is allowed.
inline constexpr std::string_view kBoolean = "yes or no";
inline constexpr std::string_view kSize = "bytes, or with K, M, G or T (powers of 1024)";
inline constexpr std::string_view kSeconds = "seconds";
inline constexpr std::string_view kCount = "a number from 0 to 1000000";

// Settings that had another name in the last release.
struct Renamed {
    std::string_view old_name, name;
};
inline constexpr Renamed kRenamed[] = {
    {"SWITCHYARD_P2P_LANES", "SWITCHYARD_P2P_PAIR_COMMS"},
    {"SWITCHYARD_P2P_LANE_AFTER", "SWITCHYARD_P2P_PAIR_COMM_AFTER"},
};

// One setting: its row in the manual, the functions that read and print its value, and, where ranks must agree on it,
// those that convert it to and from 8 bytes for the broadcast.
struct Setting {
    Row row;
    bool (*parse)(std::string_view, Values&);
    std::string (*print)(const Values&);
    std::uint64_t (*pack)(const Values&);
    void (*unpack)(std::uint64_t, Values&);
};

template <typename T>
struct Member;
template <typename T>
struct Member<T Values::*> {
    using Type = T;
};

template <auto kField>
std::uint64_t pack(const Values& values) {
    using T = typename Member<decltype(kField)>::Type;
    if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<std::uint64_t>(values.*kField);
    else
        return static_cast<std::uint64_t>(values.*kField);
}

template <auto kField>
void unpack(std::uint64_t bits, Values& values) {
    using T = typename Member<decltype(kField)>::Type;
    if constexpr (std::is_same_v<T, double>)
        values.*kField = std::bit_cast<double>(bits);
    else
        values.*kField = static_cast<T>(bits);
}

template <auto kField>
bool read_bool(std::string_view text, Values& values) {
    return parse_bool(text, values.*kField);
}

template <auto kField>
bool read_size(std::string_view text, Values& values) {
    return parse_size(text, values.*kField);
}

template <auto kField>
std::string show_bool(const Values& values) {
    return values.*kField ? "yes" : "no";
}

template <auto kField>
std::string show_size(const Values& values) {
    return print_size(values.*kField);
}

// The names of an enumeration's values, in their order.
inline constexpr std::array<std::string_view, 3> kNcclWords = {"no", "yes", "require"};
inline constexpr std::array<std::string_view, 2> kAgreeWords = {"full", "mpi"};
inline constexpr std::array<std::string_view, 4> kSyncWords = {"none", "memops", "legacy", "device"};
inline constexpr std::array<std::string_view, 3> kOnFailureWords = {"error", "stage", "abort"};
inline constexpr std::array<std::string_view, 2> kNicsWords = {"near", "all"};
inline constexpr std::array<std::string_view, 3> kP2pCommWords = {"pair", "shared", "auto"};

template <auto kField, const auto& kWords>
bool read_word(std::string_view text, Values& values) {
    using T = typename Member<decltype(kField)>::Type;
    for (std::size_t i = 0; i < kWords.size(); ++i) {
        if (text == kWords[i]) {
            values.*kField = static_cast<T>(i);
            return true;
        }
    }
    return false;
}

template <auto kField, const auto& kWords>
std::string show_word(const Values& values) {
    return std::string(kWords[static_cast<std::size_t>(values.*kField)]);
}

inline bool read_nccl(std::string_view text, Values& values) {
    bool on = true;
    const bool required = text == "require";
    if (!required && !parse_bool(text, on))
        return false;
    values.nccl = required ? Nccl::kRequired : on ? Nccl::kYes : Nccl::kNo;
    return true;
}

inline bool read_report(std::string_view text, Values& values) {
    constexpr std::string_view kFile = "json:", kTable = "text:", kColour = ":colour";
    bool on = false;
    values.report_columns = 0;
    values.report_colour = false;
    if (text.starts_with(kTable)) {
        text.remove_prefix(kTable.size());
        values.report_colour = text.ends_with(kColour);
        if (values.report_colour)
            text.remove_suffix(kColour.size());
        if (!parse_size(text, values.report_columns) || values.report_columns == 0)
            return false;
        text = "text";
    }
    if (text.starts_with(kFile)) {
        if (text.size() == kFile.size())
            return false;
        values.report = ReportTo::kJson;
        values.report_file = text.substr(kFile.size());
        return true;
    }
    if (text == "text")
        on = true;
    else if (!parse_bool(text, on))
        return false;
    values.report = on ? ReportTo::kText : ReportTo::kOff;
    values.report_file.clear();
    return true;
}

inline bool read_debug(std::string_view text, Values& values) {
    constexpr std::string_view kStaged = "staged", kToFolder = "staged:";
    bool on = true;
    values.debug_folder.clear();
    if (text == kToFolder)
        return false;
    if (text == kStaged || text.starts_with(kToFolder)) {
        values.debug = DebugLines::kStaged;
        values.debug_folder = text.substr(text == kStaged ? text.size() : kToFolder.size());
        return true;
    }
    if (!parse_bool(text, on))
        values.debug_folder = text;
    values.debug = on ? DebugLines::kAll : DebugLines::kNone;
    return true;
}

inline std::string show_debug(const Values& values) {
    switch (values.debug) {
        case DebugLines::kStaged:
            return values.debug_folder.empty() ? "staged" : "staged:" + values.debug_folder;
        case DebugLines::kAll:
            return values.debug_folder.empty() ? "1" : values.debug_folder;
        case DebugLines::kNone:
            break;
    }
    return "0";
}

inline std::string show_report(const Values& values) {
    switch (values.report) {
        case ReportTo::kJson:
            return "json:" + values.report_file;
        case ReportTo::kText:
            return values.report_columns == 0
                       ? "1"
                       : "text:" + std::to_string(values.report_columns) + (values.report_colour ? ":colour" : "");
        case ReportTo::kOff:
            break;
    }
    return "0";
}

// 1 would be a file's name that nobody means.
template <auto kWanted, auto kFile>
bool read_file(std::string_view text, Values& values) {
    bool on = false;
    if (parse_bool(text, on) && on)
        return false;
    values.*kWanted = !parse_bool(text, on);
    values.*kFile = values.*kWanted ? text : std::string_view();
    return true;
}

template <auto kWanted, auto kFile>
std::string show_file(const Values& values) {
    if (!(values.*kWanted))
        return "0";
    return (values.*kFile).empty() ? "on" : values.*kFile;
}

inline bool read_groups(std::string_view text, Values& values) {
    values.groups = text != "0";
    values.groups_file = values.groups ? text : std::string_view();
    return true;
}

inline std::string show_groups(const Values& values) {
    if (!values.groups)
        return "0";
    return values.groups_file.empty() ? "on" : values.groups_file;
}

#define SWY_AGREED(field) pack<&Values::field>, unpack<&Values::field>
#define SWY_OWN nullptr, nullptr

inline constexpr Setting kSettings[] = {
    {{"SWITCHYARD", kBoolean, "yes",
      "Whether Switchyard takes part. With no, every call goes to Open MPI as the program made it, device buffers "
      "included.",
      true},
     read_bool<&Values::enabled>,
     show_bool<&Values::enabled>,
     SWY_AGREED(enabled)},
    {{"SWITCHYARD_NCCL", "yes, no or require", "yes",
      "Whether device buffers go over NCCL. With no, they are staged through host memory. With require, what would be "
      "staged for a reason that can be mended is an MPI error on all ranks of the call; the section Requiring NCCL "
      "says "
      "what that is.",
      true},
     read_nccl,
     show_word<&Values::nccl, kNcclWords>,
     SWY_AGREED(nccl)},
    {{"SWITCHYARD_NCCL_LIBRARY", "a file or a library's name", "libnccl.so.2",
      "The NCCL to load, 2.18 or newer. An NCCL that the program has loaded already under the same name is used.",
      false},
     [](std::string_view text, Values& values) {
         // The default is kept as the empty string: the dynamic linker's own search decides then.
         values.nccl_library = text == "libnccl.so.2" ? std::string_view() : text;
         return true;
     },
     [](const Values& values) { return values.nccl_library.empty() ? "libnccl.so.2" : values.nccl_library; },
     SWY_OWN},
    {{"SWITCHYARD_NICS", "near or all", "near",
      "Which RDMA devices NCCL is to use on a node where NCCL_IB_HCA is not set. With near, those that share a host "
      "bridge with a GPU, where every GPU has one and others are farther off, for storage say; switchyard info shows "
      "them. With all, and elsewhere, the choice is left to NCCL.",
      true},
     read_word<&Values::nics, kNicsWords>,
     show_word<&Values::nics, kNicsWords>,
     SWY_AGREED(nics)},
    {{"SWITCHYARD_NCCL_THRESHOLD", kSize, "64K",
      "Collectives on device buffers of this size or larger go over NCCL; smaller ones are staged, which has the lower "
      "latency. 0 sends all "
      "over NCCL.",
      true},
     read_size<&Values::nccl_threshold>,
     show_size<&Values::nccl_threshold>,
     SWY_AGREED(nccl_threshold)},
    {{"SWITCHYARD_TUNING", "a file, or 0", "0",
      "A file of switchyard tune: for each collective the size from which it goes over NCCL, in place of "
      "SWITCHYARD_NCCL_THRESHOLD, which overrides the file where both are set. Rank 0 of MPI_COMM_WORLD reads it. It "
      "is "
      "used on communicators of as many ranks and nodes as it was measured with, and with the same model of GPU and "
      "version of NCCL; the report says whether it was.",
      true},
     read_file<&Values::tuning, &Values::tuning_file>,
     show_file<&Values::tuning, &Values::tuning_file>,
     SWY_AGREED(tuning)},
    {{"SWITCHYARD_AGREE", "full or mpi", "full",
      "With full, ranks agree on the route of each large collective before data moves, so that some may pass device "
      "memory and others host memory: over memory that they share where all are on one node, else by a small "
      "reduction of MPI's. With mpi it is always that, and ranks that pass host memory wait for it too, so that calls "
      "which do not match are reported on every rank.",
      true},
     read_word<&Values::agree, kAgreeWords>,
     show_word<&Values::agree, kAgreeWords>,
     SWY_AGREED(agree)},
    {{"SWITCHYARD_DETERMINISTIC", kBoolean, "no",
      "Sums and products of floating-point numbers are made in the order of the ranks, by Switchyard's own kernels in "
      "place of NCCL's: the same bits in every run with as many ranks, on whatever GPUs and nodes these are. Takes "
      "more "
      "time and memory.",
      true},
     read_bool<&Values::deterministic>,
     show_bool<&Values::deterministic>,
     SWY_AGREED(deterministic)},
    {{"SWITCHYARD_SYNC", "none, memops, legacy or device", "memops",
      "What the program may have queued on its GPU before an MPI call and expects to be done: memops waits for "
      "cudaMemcpy and cudaMemset, which may return before they are over, and for nothing else (the program has waited "
      "for its kernels); legacy for the default stream and all streams that synchronise with it, device for all "
      "streams, none for nothing. Where the driver cannot tell apart what cudaMemcpy has queued, in memory of "
      "cudaMallocAsync and of cuMemCreate, memops is legacy.",
      false},
     read_word<&Values::sync, kSyncWords>,
     show_word<&Values::sync, kSyncWords>,
     SWY_OWN},
    {{"SWITCHYARD_TIMEOUT", kSeconds, "0",
      "A device operation that takes longer gives an MPI error that names the call and the communicator, in place of "
      "waiting. 0 waits for ever. Collectives that do not block, and starts of persistent ones, are timed from the "
      "call on until all ranks have made it, and the error names ranks of which there is no sign. A message is timed "
      "from when its send and its receive have been matched: one that has no match waits as it does in MPI, for ever. "
      "Messages between jobs that were started apart are timed from the call on, since these cannot tell each other "
      "that they are ready. What _enqueue calls put on a stream is timed from the last of them on; NCCL then leaves "
      "it, so that the stream goes on, and the communicator's next call is the error. Since MPI's own blocking calls "
      "cannot be ended, the ranks agree on every collective with data before they make it, small ones and those on "
      "host "
      "memory too: that takes less than a microsecond on one host, and a small reduction's time between hosts. Where a "
      "rank "
      "stops after that, and in collectives of jobs that were started apart, the wait is told, and "
      "SWITCHYARD_ON_FAILURE=abort ends the job.",
      true},
     [](std::string_view text, Values& values) { return parse_seconds(text, values.timeout); },
     [](const Values& values) { return print_seconds(values.timeout); },
     SWY_AGREED(timeout)},
    {{"SWITCHYARD_ON_FAILURE", "error, stage or abort", "error",
      "What becomes of a job when NCCL, the driver or another rank fails in an operation on device memory. In any case "
      "that call is an MPI error on every rank that takes part. With error, the communicator's next large call has a "
      "new NCCL communicator made; with stage, the collectives of that communicator are staged from then on; with "
      "abort, the first such error ends the job, whatever error handler the program has set, and so does a staged "
      "collective that lasts longer than SWITCHYARD_TIMEOUT.",
      true},
     read_word<&Values::on_failure, kOnFailureWords>,
     show_word<&Values::on_failure, kOnFailureWords>,
     SWY_AGREED(on_failure)},
    {{"SWITCHYARD_STALL", kSeconds, "60",
      "How long a rank waits for others, or for NCCL, before it says so on standard error, with the call, its bytes "
      "and, where it knows them, the ranks that are missing. So it does where the program waits outside MPI for what "
      "an _enqueue call has put on a stream. It says so again when five times as long has passed, and so on. One rank "
      "says it for all where they know of each other. Nothing ends by it, as it does by SWITCHYARD_TIMEOUT. 0 "
      "switches it off.",
      true},
     [](std::string_view text, Values& values) { return parse_seconds(text, values.stall); },
     [](const Values& values) { return print_seconds(values.stall); },
     SWY_AGREED(stall)},
    {{"SWITCHYARD_CUDA_AWARE_MPI", kBoolean, "no",
      "Says that the MPI beneath takes device pointers. Then calls that Switchyard has no route of its own for are "
      "passed on as they are.",
      true},
     read_bool<&Values::cuda_aware_mpi>,
     show_bool<&Values::cuda_aware_mpi>,
     SWY_AGREED(cuda_aware_mpi)},
    {{"SWITCHYARD_P2P_THRESHOLD", "at least 1K: bytes, or with K, M, G or T (powers of 1024)", "64K",
      "Messages in device memory of this size or larger are sent by envelope, and over NCCL where it can be; smaller "
      "ones are staged, which has the lower latency.",
      true},
     [](std::string_view text, Values& values) {
         std::size_t bytes = 0;
         if (!parse_size(text, bytes) || bytes < 1024)
             return false;
         values.p2p_threshold = bytes;
         return true;
     },
     show_size<&Values::p2p_threshold>,
     SWY_AGREED(p2p_threshold)},
    {{"SWITCHYARD_P2P_COMM", "pair, shared or auto", "auto",
      "Which NCCL communicator messages between two ranks take: pair makes one for each directed pair of devices, "
      "shared uses that of the program's communicator, auto the latter until a pair has moved "
      "SWITCHYARD_P2P_PAIR_COMM_AFTER bytes.",
      true},
     read_word<&Values::p2p_comm, kP2pCommWords>,
     show_word<&Values::p2p_comm, kP2pCommWords>,
     SWY_AGREED(p2p_comm)},
    {{"SWITCHYARD_P2P_PAIR_COMMS", kCount, "16",
      "How many NCCL communicators of a pair a process has at most; the least recently used is ended for a new one.",
      true},
     [](std::string_view text, Values& values) { return parse_int(text, 0, 1000000, values.p2p_pair_comms); },
     [](const Values& values) { return std::to_string(values.p2p_pair_comms); },
     SWY_AGREED(p2p_pair_comms)},
    {{"SWITCHYARD_P2P_PAIR_COMM_AFTER", kSize, "4M",
      "With SWITCHYARD_P2P_COMM=auto, how many bytes one rank has sent another before the pair gets an NCCL "
      "communicator of its own.",
      true},
     read_size<&Values::p2p_pair_comm_after>,
     show_size<&Values::p2p_pair_comm_after>,
     SWY_AGREED(p2p_pair_comm_after)},
    {{"SWITCHYARD_P2P_CHUNK", kSize, "512K",
      "The size of the pieces in which a large staged message is copied and sent, so that both overlap. At least 4K.",
      true},
     [](std::string_view text, Values& values) {
         std::size_t bytes = 0;
         if (!parse_size(text, bytes) || bytes < 4096 || bytes > (std::size_t{1} << 30))
             return false;
         values.p2p_chunk = bytes;
         return true;
     },
     show_size<&Values::p2p_chunk>,
     SWY_AGREED(p2p_chunk)},
    {{"SWITCHYARD_COMM_CACHE", kCount, "8",
      "How many NCCL communicators are kept for later use when the MPI communicators they served are gone. They give "
      "way where NCCL cannot make another one of the same processes.",
      true},
     [](std::string_view text, Values& values) { return parse_int(text, 0, 1000000, values.comm_cache); },
     [](const Values& values) { return std::to_string(values.comm_cache); },
     SWY_AGREED(comm_cache)},
    {{"SWITCHYARD_EAGER", kBoolean, "no",
      "Makes the NCCL communicator of each communicator when the program makes that, on each rank's current device, in "
      "place of its first use: making then takes as long as NCCL does. MPI_COMM_WORLD has its own made in MPI_Init "
      "where all ranks have chosen their devices before; where not, MPI_Init loads NCCL all the same, and the "
      "library's "
      "kernels where the device is chosen.",
      true},
     read_bool<&Values::eager>,
     show_bool<&Values::eager>,
     SWY_AGREED(eager)},
    {{"SWITCHYARD_GROUPS", "a file, or 0", "0",
      "Names groups of ranks, for MPIX_Comm_from_name(3), which describes the file. Rank 0 of MPI_COMM_WORLD reads it.",
      true},
     read_groups,
     show_groups,
     SWY_AGREED(groups)},
    {{"SWITCHYARD_PINNED_POOL", kSize, "512M",
      "How much page-locked host memory is kept for staging, per device. Larger buffers are staged through ordinary "
      "memory, which is slower.",
      false},
     read_size<&Values::pinned_pool>,
     show_size<&Values::pinned_pool>,
     SWY_OWN},
    {{"SWITCHYARD_PEER_POOL", kSize, "64M",
      "How much device memory is kept, per device, for messages that NCCL does not carry between processes of a host: "
      "the sender writes them into such memory of the receiver's. Each message that is received so takes 8 MiB "
      "meanwhile; 0 has all of them staged, and no window over device memory mapped by its ranks.",
      false},
     read_size<&Values::peer_pool>,
     show_size<&Values::peer_pool>,
     SWY_OWN},
    {{"SWITCHYARD_REPORT", "0, 1, text:COLUMNS, text:COLUMNS:colour or json:FILE", "0",
      "At MPI_Finalize, reports the transport of each call and why: 1 prints a table to standard error, text:COLUMNS "
      "one that is as wide, as switchyard-run(1) asks for where it writes to a terminal; json:FILE writes an object to "
      "FILE. "
      "Rank 0 of MPI_COMM_WORLD writes.",
      true},
     read_report,
     show_report,
     SWY_AGREED(report)},
    {{"SWITCHYARD_TRACE", "a file, or 0", "0",
      "Writes a trace to the file at MPI_Finalize: when each rank was in which call, its transport, and what was "
      "done on its streams. Perfetto (ui.perfetto.dev) and Chrome show it. Rank 0 of MPI_COMM_WORLD writes.",
      true},
     read_file<&Values::trace, &Values::trace_file>,
     show_file<&Values::trace, &Values::trace_file>,
     SWY_AGREED(trace)},
    {{"SWITCHYARD_DEBUG", "0, 1, staged, a folder, or staged:FOLDER", "0",
      "Prints a line for each call with device memory when its transport has been chosen, before the data moves: the "
      "rank, the call, its communicator, the bytes, the transport, and the reason where it is not the one that the "
      "buffers ask for. 1 prints to standard error, a folder gets a file rank-N.log of each rank's; staged prints "
      "the staged calls alone, which neither NCCL nor mapped memory serves.",
      false},
     read_debug,
     show_debug,
     SWY_OWN},
    {{"SWITCHYARD_STATUS", kBoolean, "yes",
      "Keeps the last 256 operations with device memory, and what is counted for the report, in a small file of "
      "/dev/shm, for switchyard-status(1), which says what each rank of a job is in and what it waits for. "
      "MPI_Finalize removes the file. A job that a signal or MPI_Abort ends before that says once on each host what "
      "its "
      "ranks were in, and writes the report as far as it came.",
      false},
     read_bool<&Values::status>,
     show_bool<&Values::status>,
     SWY_OWN},
    {{"SWITCHYARD_TRACE_EVENTS", "a number, or with K, M or G (powers of 1024)", "1M",
      "How many events a trace has at most, of all ranks together. Each rank keeps the first ones of its share; how "
      "many were dropped is said in the trace and on standard error.",
      true},
     [](std::string_view text, Values& values) {
         std::size_t events = 0;
         if (!parse_size(text, events) || events == 0 || events >= (std::size_t{1} << 32))
             return false;
         values.trace_events = events;
         return true;
     },
     show_size<&Values::trace_events>,
     SWY_AGREED(trace_events)},
};

#undef SWY_AGREED
#undef SWY_OWN

}  // namespace swy::settings
