#include "report/flight.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>

#include "call/comm_name.hpp"
#include "config.h"
#include "real.hpp"
#include "report/counters.hpp"
#include "report/flight_file.hpp"
#include "report/processes.hpp"
#include "report/watchdog.hpp"

namespace swy::report::flight {

bool on = false;

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// The mapping stays as long as the process, since a thread may still be recording when another is in MPI_Finalize.
File* file = nullptr;
std::string path;
watchdog::Limits limits_of_calls;

template <std::size_t N>
void copy_text(char (&to)[N], std::string_view text) {
    const std::size_t length = std::min(text.size(), N - 1);
    std::memcpy(to, text.data(), length);
    to[length] = '\0';
}

// The same in all processes of the job, and in no other's at the same time.
std::string job_name() {
    for (const char* variable : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"})
        if (const char* text = std::getenv(variable); text != nullptr && *text != '\0')
            return text;
    return std::to_string(getpid());
}

// Is the file that of an earlier job with the name of this one? Open MPI makes the name out of mpirun's process number,
// which comes again. The processes of one job come to the end of MPI_Init together.
bool is_of_namesake(const std::string& found) {
    constexpr Nanoseconds kApart = 60'000'000'000;
    const int descriptor = open(found.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    std::array<char, sizeof File::job> name{};
    Nanoseconds began = 0;
    const bool read = pread(descriptor, name.data(), name.size(), offsetof(File, job)) == ssize_t{sizeof name} &&
                      pread(descriptor, &began, sizeof began, offsetof(File, began)) == ssize_t{sizeof began};
    close(descriptor);
    return read && job_name() == name.data() && monotonic_nanoseconds() - began > kApart;
}

// What processes have left that did not come to MPI_Finalize serves whoever looks for the reason, for a day, or until
// another job has the same name.
void remove_old(const std::string& prefix) {
    constexpr auto kDay = std::chrono::hours(24);
    std::error_code problem;
    for (const auto& found : std::filesystem::directory_iterator(kFolder, problem)) {
        const std::string name = found.path().filename();
        if (!name.starts_with(prefix))
            continue;
        const int pid = std::atoi(name.c_str() + prefix.size());
        const auto written = found.last_write_time(problem);
        if (problem || process_lives(pid))
            continue;
        if (std::filesystem::file_time_type::clock::now() - written > kDay || is_of_namesake(found.path()))
            std::filesystem::remove(found.path(), problem);
    }
}

// A file of that name is one that an earlier process with this number has left.
File* make_file() {
    int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor < 0 && errno == EEXIST && unlink(path.c_str()) == 0)
        descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor < 0)
        return nullptr;
    void* memory = MAP_FAILED;
    if (posix_fallocate(descriptor, 0, sizeof(File)) == 0)  // or a full file system would be a SIGBUS later
        memory = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory != MAP_FAILED)
        return new (memory) File{};
    unlink(path.c_str());
    return nullptr;
}

void fill_in_facts(bool counts, const std::string& mpi) {
    copy_text(file->version, PACKAGE_VERSION);
    file->pid = getpid();
    file->pid_began = process_began(getpid());
    real::Comm_rank(MPI_COMM_WORLD, &file->rank);
    real::Comm_size(MPI_COMM_WORLD, &file->ranks);
    std::array<char, sizeof file->host> host{};
    gethostname(host.data(), host.size() - 1);
    copy_text(file->host, host.data());
    copy_text(file->job, job_name());
    copy_text(file->program, program_invocation_name);
    copy_text(file->mpi, mpi);
    file->counts = counts ? 1 : 0;
    file->began = monotonic_nanoseconds();
    std::atomic_ref(file->magic).store(kMagic, std::memory_order_release);
}

// An operation that has not ended keeps its entry, whatever others begin meanwhile.
Entry* free_entry(std::uint64_t number) {
    for (std::size_t i = 0; i < kEntries; ++i) {
        Entry& entry = file->entries[(number + i) % kEntries];
        std::uint32_t use = Entry::kFree;
        if (entry.use.load(kRelaxed) == use &&
            entry.use.compare_exchange_strong(use, Entry::kTaken, std::memory_order_acquire, kRelaxed))
            return &entry;
    }
    return nullptr;
}

// A call that the program waits in, or has queued on a stream.
bool may_wait(CallId call) {
    return blocking(call) || family(call) == Family::kStreams;
}

// For the watchdog.
double oldest_that_waits(std::uint64_t& number) {
    Nanoseconds began = 0;
    number = 0;
    for (const Entry& entry : file->entries) {
        const std::uint64_t its = entry.number.load(std::memory_order_acquire);
        if (its == 0 || entry.use.load(kRelaxed) == Entry::kFree || entry.end.load(kRelaxed) != 0 ||
            !may_wait(static_cast<CallId>(entry.call.load(kRelaxed))))
            continue;
        if (const Nanoseconds begin = entry.begin.load(kRelaxed); number == 0 || begin < began) {
            began = begin;
            number = its;
        }
    }
    return number == 0 ? 0 : static_cast<double>(monotonic_nanoseconds() - began) * 1e-9;
}

}  // namespace

bool start(bool counts, const std::string& mpi, const watchdog::Limits& limits) {
    const std::string prefix = fmt::format("{}{}-", kPrefix, getuid());
    remove_old(prefix);
    path = fmt::format("{}/{}{}", kFolder, prefix, getpid());
    file = make_file();
    if (file == nullptr)
        return false;
    fill_in_facts(counts, mpi);
    if (counts)
        count_in(file->counters);
    limits_of_calls = limits;
    on = true;
    return true;
}

void stop() {
    if (!on)
        return;
    on = false;
    unlink(path.c_str());
}

void ends(const char* by) {
    if (!on)
        return;
    copy_text(file->ended_by, by);
    file->ends.store(monotonic_nanoseconds(), std::memory_order_release);
}

void is_on(const std::string& device, const std::string& nccl, const std::string& driver) {
    if (!on)
        return;
    copy_text(file->device, device);
    copy_text(file->nccl, nccl);
    copy_text(file->driver, driver);
}

void Operation::take_entry(CallId call, const Owner& owner) {
    const std::uint64_t number = file->begun.fetch_add(1, kRelaxed) + 1;
    Entry* const entry = free_entry(number);
    if (entry == nullptr) {
        file->unrecorded.fetch_add(1, kRelaxed);
        return;
    }
    entry->number.store(0, kRelaxed);
    std::atomic_thread_fence(std::memory_order_release);
    entry->begin.store(monotonic_nanoseconds(), kRelaxed);
    entry->route.store(0, kRelaxed);
    entry->end.store(0, kRelaxed);
    entry->bytes.store(0, kRelaxed);
    entry->communicator.store(0, kRelaxed);
    entry->collective.store(0, kRelaxed);
    entry->peer.store(kNone, kRelaxed);
    entry->tag.store(kNone, kRelaxed);
    entry->call.store(static_cast<std::uint16_t>(call), kRelaxed);
    entry->place[0] = '\0';
    entry->place_ranks = 0;
    if (owner.kind == Owner::Kind::kComm && owner.comm != MPI_COMM_NULL) {
        char name[MPI_MAX_OBJECT_NAME] = "";
        int length = 0;
        real::Comm_get_name(owner.comm, name, &length);
        copy_text(entry->place, name);
        real::Comm_size(owner.comm, &entry->place_ranks);
    }
    entry->number.store(number, std::memory_order_release);
    entry_ = entry;
    if (number == 1)
        watchdog::watch_calls(file->job, limits_of_calls, oldest_that_waits);
}

void Operation::is_collective(std::int64_t communicator, std::uint64_t number) {
    if (entry_ == nullptr)
        return;
    entry_->communicator.store(communicator, kRelaxed);
    entry_->collective.store(number, kRelaxed);
}

void Operation::is_message(int peer, int tag) {
    if (entry_ == nullptr)
        return;
    entry_->peer.store(peer == MPI_ANY_SOURCE ? kAny : peer, kRelaxed);
    entry_->tag.store(tag == MPI_ANY_TAG ? kAny : tag, kRelaxed);
}

void Operation::route(Carrier carrier, Reason reason, std::size_t bytes) {
    if (entry_ == nullptr)
        return;
    entry_->carrier.store(static_cast<std::uint8_t>(carrier), kRelaxed);
    entry_->reason.store(static_cast<std::uint8_t>(reason), kRelaxed);
    entry_->bytes.store(bytes, kRelaxed);
    entry_->route.store(monotonic_nanoseconds(), std::memory_order_release);
}

void Operation::forget() {
    if (entry_ == nullptr)
        return;
    entry_->number.store(0, kRelaxed);
    end();
}

void Operation::end_begun() {
    entry_->end.store(monotonic_nanoseconds(), kRelaxed);
    entry_->use.store(Entry::kFree, std::memory_order_release);
    entry_ = nullptr;
}

}  // namespace swy::report::flight
