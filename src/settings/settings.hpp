// Every SWITCHYARD_* variable: one table (settings.cpp) gives name, type, default, meaning; the manual, `switchyard
// info` and the checking of values come from it. Any code may read values(); only MPI_Init writes them. Nothing here
// calls MPI or CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swy::settings {

enum class Nccl : std::uint8_t { kNo, kYes, kRequired };
enum class Agree : std::uint8_t { kFull, kMpi };
enum class Sync : std::uint8_t { kNone, kMemops, kLegacy, kDevice };
enum class P2pComm : std::uint8_t { kPair, kShared, kAuto };
enum class Nics : std::uint8_t { kNear, kAll };
enum class OnFailure : std::uint8_t { kError, kStage, kAbort };
enum class ReportTo : std::uint8_t { kOff, kText, kJson };
enum class DebugLines : std::uint8_t { kNone, kStaged, kAll };

// The values in force. Those marked (agreed) decide routes and are MPI_COMM_WORLD's rank 0's on every rank after
// MPI_Init.
struct Values {
    bool enabled = true;       // SWITCHYARD=0: every call goes to Open MPI untouched (agreed)
    Nccl nccl = Nccl::kYes;    // SWITCHYARD_NCCL=no|yes|require (agreed)
    std::string nccl_library;  // SWITCHYARD_NCCL_LIBRARY: file or soname; "" is libnccl.so.2
    Nics nics = Nics::kNear;   // SWITCHYARD_NICS=near|all (agreed)
    std::size_t nccl_threshold =
        65536;            // SWITCHYARD_NCCL_THRESHOLD: bytes from which a collective agrees and takes NCCL (agreed)
    bool tuning = false;  // SWITCHYARD_TUNING=FILE (agreed, the file is rank 0's alone)
    std::string tuning_file;
    Agree agree = Agree::kFull;                // SWITCHYARD_AGREE=full|mpi (agreed)
    bool deterministic = false;                // SWITCHYARD_DETERMINISTIC (agreed)
    Sync sync = Sync::kMemops;                 // SWITCHYARD_SYNC=none|memops|legacy|device
    double timeout = 0;                        // SWITCHYARD_TIMEOUT seconds, 0 is none (agreed)
    double stall = 60;                         // SWITCHYARD_STALL seconds, 0 is none (agreed)
    OnFailure on_failure = OnFailure::kError;  // SWITCHYARD_ON_FAILURE=error|stage|abort (agreed)
    bool cuda_aware_mpi = false;               // SWITCHYARD_CUDA_AWARE_MPI (agreed)
    std::size_t p2p_threshold = 65536;  // SWITCHYARD_P2P_THRESHOLD: bytes from which a message has an envelope (agreed)
    P2pComm p2p_comm = P2pComm::kAuto;  // SWITCHYARD_P2P_COMM=pair|shared|auto (agreed)
    int p2p_pair_comms = 16;  // SWITCHYARD_P2P_PAIR_COMMS: pair communicators of one process at a time (agreed)
    std::size_t p2p_pair_comm_after =
        4u << 20;                        // SWITCHYARD_P2P_PAIR_COMM_AFTER: bytes after which a pair gets one (agreed)
    std::size_t p2p_chunk = 512u << 10;  // SWITCHYARD_P2P_CHUNK: bytes of a chunk of the staged pipeline (agreed)
    bool eager = false;                  // SWITCHYARD_EAGER: NCCL communicators are made with MPI's (agreed)
    int comm_cache = 8;                  // SWITCHYARD_COMM_CACHE: idle NCCL communicators kept (agreed)
    bool groups = false;                 // SWITCHYARD_GROUPS=FILE (agreed, the file is rank 0's alone)
    std::string groups_file;
    std::size_t pinned_pool = 512u << 20;  // SWITCHYARD_PINNED_POOL: bytes of pinned memory kept per device
    std::size_t peer_pool = 64u << 20;     // SWITCHYARD_PEER_POOL: bytes of device memory that others map, per device
    ReportTo report =
        ReportTo::kOff;  // SWITCHYARD_REPORT=0|1|text:COLUMNS|json:FILE (agreed, the file is rank 0's alone)
    std::string report_file;
    std::size_t report_columns = 0;  // of a table, 0: as standard error has them
    bool report_colour = false;      // where the columns are given
    bool trace = false;              // SWITCHYARD_TRACE=FILE (agreed, the file is rank 0's alone)
    std::string trace_file;
    DebugLines debug = DebugLines::kNone;  // SWITCHYARD_DEBUG=0|1|staged|FOLDER|staged:FOLDER
    std::string debug_folder;              // "" is standard error
    bool status = true;                    // SWITCHYARD_STATUS
    std::size_t trace_events = 1u << 20;   // SWITCHYARD_TRACE_EVENTS: of all ranks together (agreed)
};

struct Row {  // one setting, as the manual and `switchyard info` show it
    std::string_view name, type, default_value, meaning;
    bool agreed;
};
std::span<const Row> table();

// Returns the variable of a setting that is named as on the command line, in any case and with or without SWITCHYARD_
// ("p2p_comm"); "" where there is none of this name. nearest_short_name() is the name that was probably meant.
std::string_view variable_of(std::string_view name);
std::string nearest_short_name(std::string_view name);

struct Shown {  // a setting's value and where it came from: "default", "environment", "rank 0"
    std::string name, value, origin;
};
std::vector<Shown> show();

// "NAME=value" for those in force that are not their defaults, but for those that say where a report or trace goes.
std::vector<std::string> changed();

// Reads the environment. Returns "" or a text that names the variable, the value, what is allowed, and the nearest
// valid name for an unknown SWITCHYARD_* variable (all problems, one a line). A variable set to nothing counts as not
// set. What is valid is taken even when something else is not. A setting that has been renamed is read under its old
// name too, for one release.
std::string read(Values& into);

// A sentence for each variable in the environment that has an old name, with the new one, one a line; "" for none.
std::string old_names();

const Values& values();
inline bool stages_after_failure() {
    return values().on_failure == OnFailure::kStage;
}
void install(Values values, bool from_rank_zero);

// The agreed part of the values as bytes for a broadcast, and back; the number of bytes is the same on every rank that
// runs this version. unpack_agreed() is false, and changes nothing, when the bytes are of another version. differs()
// names the agreed settings in which two ranks differ, with both values ("" if none).
std::vector<std::byte> pack_agreed(const Values& values);
bool unpack_agreed(std::span<const std::byte> bytes, Values& into);
std::string differs(const Values& mine, const Values& rank_zero);

}  // namespace swy::settings
