#include "call/reason.hpp"

#include <array>
#include <cstddef>

namespace swy {

namespace {

constexpr std::array<std::string_view, kCarriers> kCarrierNames = {"host", "nccl", "staged", "peer"};

struct Words {
    Reason reason;  // of this row: the table's order is checked below
    std::string_view name, explain, remedy;
    bool mendable = false;
};

constexpr std::array<Words, kReasons> kWords = {{
    {Reason::kNone, "none", "its buffers ask for this transport", ""},
    {Reason::kSmall, "small", "smaller than the threshold (64 KiB by default), where staging has the lower latency",
     ""},
    {Reason::kNotAsked, "not-asked",
     "all ranks had passed host memory in such calls, and they agree on one in up to 64", ""},
    {Reason::kBuffered, "buffered", "a buffered send, which MPI keeps in the program's own host buffer",
     "Where the program allows it, use MPI_Isend."},
    {Reason::kNoPairComm, "no-pair-comm", "the two ranks have no NCCL communicator for messages yet",
     "Nothing for a pair that goes on; SWITCHYARD_P2P_COMM=pair or a smaller SWITCHYARD_P2P_PAIR_COMM_AFTER makes it "
     "sooner."},
    {Reason::kNotReady, "not-ready", "NCCL's communicator was missing or busy, and the call may not wait",
     "Later calls have NCCL; after MPI_Comm_idup make one large blocking collective first. SWITCHYARD_EAGER=1 makes it "
     "sooner."},
    {Reason::kThreads, "threads", "another thread of a rank was in a collective, which happens once a process", ""},
    {Reason::kMixed, "mixed", "some ranks passed device memory, others host memory",
     "Pass device memory on all ranks of the call.", true},
    {Reason::kOneRank, "one-rank", "the communicator has one process", ""},
    {Reason::kIntercomm, "intercommunicator",
     "an intercommunicator that MPI_Comm_idup has made, or an enqueue call on one",
     "Make it by MPI_Comm_dup, or merge it (MPI_Intercomm_merge), where large device buffers are moved."},
    {Reason::kSpansJobs, "spans-jobs", "the communicator joins jobs that were started apart",
     "Start the processes that exchange large device buffers as one job."},
    {Reason::kNoStream, "no-stream", "on some rank the communicator has no CUDA stream",
     "Make it by MPIX_Stream_comm_create with a stream of each rank's own device."},
    {Reason::kInsideMpi, "inside-mpi", "made by MPI itself or from a callback inside MPI", ""},
    {Reason::kInvalid, "invalid-argument", "an argument is one that MPI refuses", ""},
    {Reason::kOutsideNccl, "outside-nccl",
     "packing and files go through host memory, and so do windows that not all ranks can map", ""},
    {Reason::kManyBuffers, "many-buffers", "a message of more than 16 buffers on either end",
     "Send several messages, each of 16 buffers or fewer."},
    {Reason::kDeviceSync, "device-sync",
     "SWITCHYARD_SYNC=device waits for all of the device, for messages too that peers have yet to launch",
     "Unset SWITCHYARD_SYNC, or choose another value, where large device buffers are sent."},
    {Reason::kSeveralEdges, "several-edges",
     "two ranks have several edges in the process topology, whose blocks NCCL cannot tell apart",
     "Give two ranks one edge for all that they exchange."},
    {Reason::kDatatype, "datatype", "NCCL has no such datatype",
     "Where the program allows it, use an integer or floating-point type that NCCL has."},
    {Reason::kOperator, "operator", "neither NCCL nor a kernel of Switchyard has such an operator for the datatype",
     "Where the program allows it, use MPI_SUM, MPI_PROD, MPI_MIN or MPI_MAX."},
    {Reason::kDeterministic, "deterministic", "SWITCHYARD_DETERMINISTIC asks for an order that NCCL does not keep",
     "Unset SWITCHYARD_DETERMINISTIC where other rounding from run to run does not matter.", true},
    {Reason::kDerivedType, "derived-type",
     "the datatype is not contiguous, and no kernel packs it, or the message is one to the rank itself",
     "Where the program allows it, lay the data out contiguously.", true},
    {Reason::kUnaligned, "unaligned", "a reduction's buffer is not aligned to its elements, as NCCL's kernels need it",
     "Have buffers of reductions begin at a multiple of their elements' size.", true},
    {Reason::kSeveralDevices, "several-devices", "one rank's buffers are on several devices",
     "Keep the buffers of one call on one device.", true},
    {Reason::kForeignContext, "foreign-context", "the memory belongs to a context that is not its device's primary one",
     "Allocate in the primary context (the CUDA runtime does; cuDevicePrimaryCtxRetain).", true},
    {Reason::kDuplicateGpu, "duplicate-gpu",
     "two ranks of the communicator use one GPU, where NCCL refuses them or is slower",
     "Give each rank a GPU of its own: cudaSetDevice(local rank), and no more ranks on a node than it has GPUs. Or run "
     "NVIDIA's MPS and set NCCL_MULTI_RANK_GPU_ENABLE=1, with NCCL 2.30 or later.",
     true},
    {Reason::kNcclOff, "nccl-off", "NCCL is switched off", "Remove SWITCHYARD_NCCL=0."},
    {Reason::kNoNccl, "no-nccl", "libnccl.so.2 was not found on every rank",
     "Install NCCL on every node, or name it by SWITCHYARD_NCCL_LIBRARY; `switchyard info` tells what is found.", true},
    {Reason::kOldNccl, "old-nccl", "the NCCL found is older than 2.18",
     "Install a newer NCCL, or name one by SWITCHYARD_NCCL_LIBRARY.", true},
    {Reason::kNcclFailed, "nccl-failed", "NCCL returned an error when it made its communicator",
     "Run once with NCCL_DEBUG=WARN: it names the cause.", true},
    {Reason::kNoMemory, "no-memory", "memory or another resource that the route needs could not be had",
     "Leave some device memory free for NCCL, or lower SWITCHYARD_PINNED_POOL.", true},
}};

constexpr bool in_order() {
    for (std::size_t i = 0; i < kWords.size(); ++i) {
        if (static_cast<std::size_t>(kWords[i].reason) != i || kWords[i].name.empty() || kWords[i].explain.empty())
            return false;
    }
    return true;
}
static_assert(in_order(), "one row a reason, in the order of the enumeration");

const Words& words(Reason reason) {
    return kWords[static_cast<std::size_t>(reason)];
}

}  // namespace

std::string_view name(Carrier carrier) {
    return kCarrierNames[static_cast<std::size_t>(carrier)];
}

std::string_view name(Reason reason) {
    return words(reason).name;
}

std::string_view explain(Reason reason) {
    return words(reason).explain;
}

std::string_view remedy(Reason reason) {
    return words(reason).remedy;
}

bool mendable(Reason reason) {
    return words(reason).mendable;
}

}  // namespace swy
