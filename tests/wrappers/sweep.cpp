// Every call that carries buffers, on device memory: right data where it is staged or routed, an MPI error that says
// "is device memory" where that is the program's mistake, and no row of the table without a test.
// launch: -n 3 --gpus 3 -- send_receive
// launch: -n 2 --gpus 2 -- collective
// launch: -n 3 --gpus 3 -- collective
// launch: -n 4 --gpus 2 -- collective
// launch: -n 3 --gpus 3 -x SWITCHYARD_NCCL=0 -- collective
// launch: -n 3 --gpus 3 -- intercommunicator
// launch: -n 3 --gpus 3 -- neighborhood
// launch: -n 1 --gpus 1 -- pack
// launch: -n 2 --gpus 2 -- file
// launch: -n 2 --gpus 2 -- refused
// launch: -n 2 --gpus 2 -- unread
// launch: -n 1 -- complete
#include "sweep.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "call_ids.hpp"
#include "device_memory.h"

namespace sweep {
namespace {

int failures = 0;

void fail(const std::string& text) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
    failures++;
}

// --- staged and routed calls
// ------------------------------------------------------------------------------------------------

struct Outcome {
    int code = MPI_SUCCESS;
    std::vector<Ints> content;  // of each buffer, afterwards
    bool operator==(const Outcome&) const = default;
};

// Small numbers, so that sums and products of a few ranks stay exact.
int initial(const World& world, std::size_t buffer, int i) {
    return world.rank * 1000 + static_cast<int>(buffer) * 100 + i % 91 + 1;
}

Outcome run(const Case& test, const World& world, unsigned on_device) {
    const Ints lengths = test.lengths(world);
    std::vector<int*> buffers;
    Outcome outcome;
    for (std::size_t b = 0; b < lengths.size(); b++) {
        Ints values(static_cast<std::size_t>(lengths[b]));
        for (std::size_t i = 0; i < values.size(); i++)
            values[i] = initial(world, b, static_cast<int>(i));
        const std::size_t bytes = values.size() * sizeof(int);
        const bool device = (on_device >> b & 1U) != 0;
        void* memory = device ? device_alloc(bytes) : std::malloc(bytes + 1);
        if (device)
            device_copy(memory, values.data(), bytes);
        else
            std::copy(values.begin(), values.end(), static_cast<int*>(memory));
        buffers.push_back(static_cast<int*>(memory));
        outcome.content.push_back(values);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    forms::current = test.form;
    outcome.code = test.run(world, buffers.data());
    forms::current = forms::Form::kBlocking;
    MPI_Barrier(MPI_COMM_WORLD);
    for (std::size_t b = 0; b < buffers.size(); b++) {
        Ints& content = outcome.content[b];
        if ((on_device >> b & 1U) != 0) {
            device_copy(content.data(), buffers[b], content.size() * sizeof(int));
            device_free(buffers[b]);
        } else {
            content.assign(buffers[b], buffers[b] + content.size());
            std::free(buffers[b]);
        }
    }
    return outcome;
}

std::string difference(const Outcome& host, const Outcome& device) {
    if (host.code != device.code) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        MPI_Error_string(device.code, text, &length);
        return "returns " + std::to_string(device.code) + " (" + text + "), on host memory " +
               std::to_string(host.code);
    }
    for (std::size_t b = 0; b < host.content.size(); b++)
        for (std::size_t i = 0; i < host.content[b].size(); i++)
            if (host.content[b][i] != device.content[b][i])
                return "buffer " + std::to_string(b) + ", element " + std::to_string(i) + " of " +
                       std::to_string(host.content[b].size()) + " is " + std::to_string(device.content[b][i]) +
                       ", on host memory " + std::to_string(host.content[b][i]);
    return "";
}

void compare(const Case& test, const World& world) {
    const Outcome host = run(test, world, 0);
    if (host.code != MPI_SUCCESS)
        fail(test.call + ": the reference on host memory failed");
    const unsigned all = (1U << test.device) - 1;
    for (unsigned mask = 1; mask <= all + 1; mask++) {
        const bool mixed = mask > all;  // the last round: device memory on even ranks only
        const unsigned mine = !mixed ? mask : world.even() ? all : 0;
        const std::string wrong = difference(host, run(test, world, mine));
        if (!wrong.empty())
            fail(test.call + " " + test.variant + " (blocks of " + std::to_string(world.n) + ", device buffers " +
                 (mixed ? "on even ranks" : "by mask " + std::to_string(mask)) + "): " + wrong);
    }
}

// --- refused calls
// ----------------------------------------------------------------------------------------------------------

std::map<Asked, int> asked;

void comm_handler(MPI_Comm* comm, int*, ...) {
    asked[*comm == MPI_COMM_WORLD ? Asked::kNobody : Asked::kComm]++;
}
void win_handler(MPI_Win*, int*, ...) {
    asked[Asked::kWin]++;
}
void file_handler(MPI_File*, int*, ...) {
    asked[Asked::kFile]++;
}

void set_handlers(Fixture& fixture) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(comm_handler, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(fixture.comm, handler);
    MPI_Errhandler_free(&handler);
    MPI_Win_create_errhandler(win_handler, &handler);
    MPI_Win_set_errhandler(fixture.win, handler);
    MPI_Errhandler_free(&handler);
    MPI_File_create_errhandler(file_handler, &handler);
    MPI_File_set_errhandler(fixture.file, handler);
    MPI_Errhandler_free(&handler);
}

void expect_refusal(const Refused& test, Fixture& fixture) {
    asked.clear();
    const std::string what = std::string(test.call) + " with device memory as " + test.buffer;
    const int code = test.run(fixture);
    if (code == MPI_SUCCESS)
        return fail(what + " succeeds");
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    if (error_class != MPI_ERR_OTHER && error_class != MPI_ERR_BUFFER && error_class != MPI_ERR_BASE)
        fail(what + " has error class " + std::to_string(error_class));
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    const std::string_view said(text, static_cast<std::size_t>(length));
    if (said.find(test.call) == std::string_view::npos || said.find("is device memory") == std::string_view::npos)
        fail(what + " says: " + text);
    if (asked != std::map<Asked, int>{{test.owner, 1}})
        fail(what + " does not ask its owner's error handler, once: world's " + std::to_string(asked[Asked::kNobody]) +
             ", communicator's " + std::to_string(asked[Asked::kComm]) + ", window's " +
             std::to_string(asked[Asked::kWin]) + ", file's " + std::to_string(asked[Asked::kFile]) + " times");
    if (fixture.request != MPI_REQUEST_NULL)
        fail(what + " leaves a request");
}

void refuse(const World& world) {
    Fixture fixture;
    fixture.device = static_cast<int*>(device_alloc(4096));
    fixture.comm = world.ring;  // has neighbours, and is a communicator as any other
    fixture.file = world.file;
    fixture.rank = world.rank;
    fixture.peer = world.next();
    for (std::size_t i = 0; i < std::size(fixture.counts); i++) {
        fixture.counts[i] = 1;
        fixture.displs[i] = static_cast<int>(i);
        fixture.offsets[i] = static_cast<MPI_Aint>(4 * i);
        fixture.types[i] = MPI_INT;
    }
    void* base = nullptr;  // MPI_Win_create is not to be had everywhere: Open MPI 4.1 needs process_vm_readv for it
    MPI_Win_allocate(1024, 4, MPI_INFO_NULL, world.comm, static_cast<void*>(&base), &fixture.win);
    set_handlers(fixture);
    for (const Refused& test : refused_calls())
        expect_refusal(test, fixture);
    MPI_Win_free(&fixture.win);
    device_free(fixture.device);
}

// --- calls in which an address is only a number
// -----------------------------------------------------------------------------

const char* const kUnread[] = {"MPI_Get_address", "MPI_Address", "MPI_Win_detach"};

void unread(const World& world) {
    int* device = static_cast<int*>(device_alloc(64));
    MPI_Aint address = 0;
    MPI_Get_address(device + 3, &address);
    if (address != reinterpret_cast<MPI_Aint>(device + 3))
        fail("MPI_Get_address");
    // mpi.h keeps programs from calling what MPI has removed; old binaries do.
    const auto removed = reinterpret_cast<int (*)(void*, MPI_Aint*)>(dlsym(RTLD_DEFAULT, "MPI_Address"));
    if (removed != nullptr &&
        (removed(device, &address) != MPI_SUCCESS || address != reinterpret_cast<MPI_Aint>(device)))
        fail("MPI_Address");
    MPI_Win win = MPI_WIN_NULL;
    if (MPI_Win_create_dynamic(MPI_INFO_NULL, world.comm, &win) == MPI_SUCCESS) {
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        if (MPI_Win_detach(win, device) == MPI_SUCCESS)  // it was never attached
            fail("MPI_Win_detach");
        MPI_Win_free(&win);
    }
    // Only the root's receive buffer counts: what the others pass there is theirs (MPI 3.1 section 5.5).
    std::vector<int> gathered(static_cast<std::size_t>(world.size), -1);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Igather(&world.rank, 1, MPI_INT, world.rank == 0 ? gathered.data() : device, 1, MPI_INT, 0, world.comm,
                &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < world.size && world.rank == 0; r++)
        if (gathered[static_cast<std::size_t>(r)] != r)
            fail("MPI_Igather with device memory where it does not count");
    device_free(device);
}

// --- all of it
// ---------------------------------------------------------------------------------------------------------------

// Collectives in all their forms. Of MPI_Reduce_local there is one.
std::vector<Case> in_all_forms(const std::vector<Case>& blocking) {
    std::vector<Case> all = blocking;
    for (const Case& test : blocking)
        for (const forms::Form form : {forms::Form::kNonBlocking, forms::Form::kPersistent})
            if (test.call != "MPI_Reduce_local") {
                all.push_back(test);
                all.back().call = forms::name(test.call, form);
                all.back().form = form;
            }
    return all;
}

std::vector<Case> cases_of(std::string_view group) {
    if (group == "send_receive")
        return send_receive_cases();
    if (group == "collective")
        return in_all_forms(collective_cases());
    if (group == "intercommunicator")
        return in_all_forms(intercommunicator_cases());
    if (group == "neighborhood")
        return in_all_forms(neighborhood_cases());
    if (group == "pack")
        return pack_cases();
    if (group == "file")
        return file_cases();
    return {};
}

// A new row of the table without a test is a failure.
void check_completeness() {
    std::set<std::string_view> tested(std::begin(kUnread), std::end(kUnread));
    // Their messages have many calls each: tests/mpi/p2p/partitioned makes them.
    tested.insert({"MPI_Psend_init", "MPI_Precv_init"});
    // Arrays of buffers: tests/mpi/multi/messages.
    tested.insert({"MPIX_Send_multi", "MPIX_Recv_multi", "MPIX_Isend_multi", "MPIX_Irecv_multi"});
    // Their results come with the end of an epoch: tests/mpi/window.
    tested.insert({"MPI_Win_create", "MPI_Win_attach", "MPI_Put", "MPI_Get", "MPI_Accumulate", "MPI_Get_accumulate",
                   "MPI_Fetch_and_op", "MPI_Compare_and_swap", "MPI_Rput", "MPI_Rget", "MPI_Raccumulate",
                   "MPI_Rget_accumulate"});
    static std::vector<Case> all;
    static std::set<std::string> ends;
    for (const char* group : {"send_receive", "collective", "neighborhood", "pack", "file"})
        for (const Case& test : cases_of(group))
            all.push_back(test);
    for (const Case& test : all)
        tested.insert(test.call);
    for (const Case& test : file_cases())  // a split collective's case makes both its calls
        if (const auto begin = test.call.rfind("_begin"); begin != std::string::npos)
            tested.insert(*ends.insert(test.call.substr(0, begin) + "_end").first);
    for (const Refused& test : refused_calls())
        tested.insert(test.call);
    int rows = 0;
    for (const swy::CallFacts& row : swy::kCallFacts) {
        if (row.treatment == swy::Treatment::kNone || dlsym(RTLD_DEFAULT, std::string(row.name).c_str()) == nullptr)
            continue;
        if (row.treatment == swy::Treatment::kEnqueued)
            continue;  // tests/mpi/stream makes them
        rows++;
        if (!tested.contains(row.name))
            fail(std::string(row.name) + " carries buffers but the sweep does not call it");
    }
    if (rows < 100)
        fail("only " + std::to_string(rows) + " rows were looked at");
}

// A folder for the job's files, on the node of rank 0.
std::string folder;

void make_folder(const World& world) {
    char path[256];
    std::snprintf(path, sizeof path, "%s/switchyard-sweep-XXXXXX",
                  std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/tmp");
    if (world.rank == 0 && mkdtemp(path) == nullptr)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, world.comm);
    folder = path;
}

MPI_File open(MPI_Comm comm, const std::string& name) {
    MPI_File file = MPI_FILE_NULL;
    MPI_File_open(comm, (folder + "/" + name).c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    return file;
}

World make_world() {
    World world;
    MPI_Comm_dup(MPI_COMM_WORLD, &world.comm);
    MPI_Comm_rank(world.comm, &world.rank);
    MPI_Comm_size(world.comm, &world.size);
    const int sources[] = {world.previous(), world.rank};
    const int targets[] = {world.next(), world.rank};
    MPI_Dist_graph_create_adjacent(world.comm, 2, sources, MPI_UNWEIGHTED, 2, targets, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &world.ring);
    if (world.size > 1) {
        MPI_Comm half = MPI_COMM_NULL;
        MPI_Comm_split(world.comm, world.rank % 2, world.rank, &half);
        MPI_Intercomm_create(half, 0, world.comm, world.even() ? 1 : 0, 3, &world.inter);
        MPI_Comm_free(&half);
    }
    for (MPI_Comm comm : {world.comm, world.ring, world.inter})
        if (comm != MPI_COMM_NULL)
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    make_folder(world);
    world.file = open(world.comm, "all");
    world.own = open(MPI_COMM_SELF, "own" + std::to_string(world.rank));
    return world;
}

void end(World& world) {
    MPI_File_close(&world.file);
    MPI_File_close(&world.own);
    MPI_Barrier(world.comm);
    if (world.rank == 0)
        rmdir(folder.c_str());
    if (world.inter != MPI_COMM_NULL)
        MPI_Comm_free(&world.inter);
    MPI_Comm_free(&world.ring);
    MPI_Comm_free(&world.comm);
}

}  // namespace
}  // namespace sweep

int main(int argc, char** argv) {
    using namespace sweep;
    const std::string_view group = argc > 1 ? argv[1] : "complete";
    MPI_Init(&argc, &argv);
    World world = make_world();
    const std::vector<Case> cases = cases_of(group);
    if (group == "refused")
        refuse(world);
    else if (group == "unread")
        unread(world);
    else if (group == "complete")
        check_completeness();
    else if (cases.empty())
        fail("no such group: " + std::string(group));
    // A small block stays under every threshold, a large one goes over it.
    for (int n : {6, 40000}) {
        world.n = n;
        for (const Case& test : cases)
            if (argc < 3 || test.call == argv[2])
                compare(test, world);
    }
    end(world);
    MPI_Finalize();
    return failures != 0;
}
