#include "report/flights.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <utility>

#include "config.h"
#include "report/flight_file.hpp"
#include "report/processes.hpp"
#include "report/units.hpp"

namespace swy::report {
namespace {

constexpr auto kUnordered = std::memory_order_relaxed;

struct Unmap {
    void operator()(flight::File* file) const { munmap(file, sizeof *file); }
};
using Mapped = std::unique_ptr<flight::File, Unmap>;

// Private, so that a copy may be changed. Null for what is no flight, or another user's.
Mapped map(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat facts {};
    void* memory = MAP_FAILED;
    if (descriptor >= 0 && fstat(descriptor, &facts) == 0 &&
        static_cast<std::size_t>(facts.st_size) == sizeof(flight::File))
        memory = mmap(nullptr, sizeof(flight::File), PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
    if (descriptor >= 0)
        close(descriptor);
    if (memory == MAP_FAILED)
        return nullptr;
    Mapped file(static_cast<flight::File*>(memory));
    return file->magic == flight::kMagic ? std::move(file) : nullptr;
}

// The file itself. Null where the process has come to MPI_Finalize meanwhile.
Mapped map_to_tell(const Flight& flight) {
    const int descriptor = open(flight.path.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return nullptr;
    void* memory = mmap(nullptr, sizeof(flight::File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    return Mapped(memory != MAP_FAILED ? static_cast<flight::File*>(memory) : nullptr);
}

template <std::size_t N>
std::string text(const char (&from)[N]) {
    return {from, strnlen(from, N)};
}

double seconds(flight::Nanoseconds time) {
    return static_cast<double>(time) * 1e-9;
}

// Returns false for an entry that is not used, or that its writer changes meanwhile.
bool read_entry(const flight::Entry& entry, flight::Nanoseconds now, FlightOperation& to) {
    to.number = entry.number.load(std::memory_order_acquire);
    if (to.number == 0)
        return false;
    const auto route = entry.route.load(std::memory_order_acquire), end = entry.end.load(std::memory_order_acquire);
    to.call = static_cast<CallId>(entry.call.load(kUnordered));
    to.age = seconds(now - entry.begin.load(kUnordered));
    to.ended = end != 0;
    to.ended_ago = to.ended ? seconds(now - end) : 0;
    to.routed = route != 0;
    to.carrier = static_cast<Carrier>(entry.carrier.load(kUnordered));
    to.reason = static_cast<Reason>(entry.reason.load(kUnordered));
    to.bytes = entry.bytes.load(kUnordered);
    to.communicator = text(entry.place);
    to.communicator_ranks = entry.place_ranks;
    to.communicator_id = entry.communicator.load(kUnordered);
    to.collective = entry.collective.load(kUnordered);
    to.peer = entry.peer.load(kUnordered);
    to.tag = entry.tag.load(kUnordered);
    std::atomic_thread_fence(std::memory_order_acquire);
    return entry.number.load(kUnordered) == to.number && static_cast<std::size_t>(to.call) < kCallIds &&
           static_cast<int>(to.carrier) < kCarriers && static_cast<int>(to.reason) < kReasons;
}

Flight read_flight(const std::string& path, const flight::File& file) {
    Flight read;
    read.path = path;
    read.host = text(file.host);
    read.job = text(file.job);
    read.program = text(file.program);
    read.mpi = text(file.mpi);
    read.nccl = text(file.nccl);
    read.driver = text(file.driver);
    read.device = text(file.device);
    read.counts = file.counts != 0;
    read.counted = cells_of(file.counters);
    read.pid = file.pid;
    read.rank = file.rank;
    read.ranks = file.ranks;
    read.begun = file.begun.load(kUnordered);
    read.unrecorded = file.unrecorded.load(kUnordered);
    const bool is_copy = file.saved != 0;
    const bool number_lives = !is_copy && process_lives(file.pid);
    read.lives = is_copy ? file.lived != 0 : number_lives && process_began(file.pid) == file.pid_began;
    read.pid_is_anothers = number_lives && !read.lives;
    read.ends = file.ends.load(std::memory_order_acquire);
    if (read.ends != 0)
        read.ended_by = text(file.ended_by);
    const flight::Nanoseconds now = is_copy ? file.saved : monotonic_nanoseconds();
    read.age = seconds((read.ends != 0 ? read.ends : now) - file.began);
    for (const flight::Entry& entry : file.entries)
        if (FlightOperation operation{}; read_entry(entry, now, operation))
            read.operations.push_back(std::move(operation));
    std::sort(read.operations.begin(), read.operations.end(),
              [](const auto& a, const auto& b) { return a.number < b.number; });
    return read;
}

// The last collective of each rank on one communicator.
using Last = std::map<int, const FlightOperation*>;

std::map<std::int64_t, Last> last_collectives(const std::vector<const Flight*>& job) {
    std::map<std::int64_t, Last> communicators;
    for (const Flight* flight : job)
        for (const FlightOperation& operation : flight->operations)
            if (operation.communicator_id != 0) {
                const FlightOperation*& last = communicators[operation.communicator_id][flight->rank];
                if (last == nullptr || last->collective < operation.collective)
                    last = &operation;
            }
    return communicators;
}

const Flight* of_rank(const std::vector<const Flight*>& job, int rank) {
    const auto found = std::find_if(job.begin(), job.end(), [&](const Flight* flight) { return flight->rank == rank; });
    return found != job.end() ? *found : nullptr;
}

std::string call_in_words(const FlightOperation& operation) {
    return fmt::format("{} number {}", name(operation.call), operation.collective);
}

std::string why_absent(const Flight& flight, const FlightOperation* last) {
    std::string words = fmt::format("rank {} has not come", flight.rank);
    if (!flight.lives)
        words = fmt::format("rank {} has {}", flight.rank, end_in_words(flight));
    if (last == nullptr)
        return words + ", and has recorded no call there";
    if (last->ended)
        return words +
               fmt::format(": its last call there, {}, ended {} ago", call_in_words(*last), time_text(last->ended_ago));
    return words + fmt::format(": it is still in {}", call_in_words(*last));
}

// Which ranks are in the last collective of a communicator, and which are not. "" where nobody waits.
std::string finding(const std::vector<const Flight*>& job, const Last& last) {
    std::uint64_t newest = 0;
    for (const auto& [rank, operation] : last)
        newest = std::max(newest, operation->collective);
    std::map<std::string, std::vector<int>> inside;  // by call
    const FlightOperation* one = nullptr;
    for (const auto& [rank, operation] : last)
        if (operation->collective == newest && !operation->ended) {
            inside[call_in_words(*operation)].push_back(rank);
            one = operation;
        }
    if (one == nullptr)
        return {};
    std::string words = fmt::format(
        "On {} ({} ranks)", one->communicator.empty() ? "a communicator" : one->communicator, one->communicator_ranks);
    const char* separator = ": ";
    for (const auto& [call, ranks] : inside) {
        words += fmt::format("{}{} {} in {}", separator, ranks_in_words(ranks), ranks.size() == 1 ? "is" : "are", call);
        separator = "; ";
    }
    if (inside.size() > 1)
        words += "; these calls do not match";
    // Who has made no call there may not belong to it, unless it is as large as the job.
    const bool of_all = !job.empty() && one->communicator_ranks == job.front()->ranks;
    for (const Flight* flight : job) {
        const auto its = last.find(flight->rank);
        if (its != last.end() ? its->second->collective < newest : of_all)
            words += "; " + why_absent(*flight, its != last.end() ? its->second : nullptr);
    }
    std::vector<int> unseen;
    for (int rank = 0; of_all && rank < one->communicator_ranks; ++rank)
        if (of_rank(job, rank) == nullptr)
            unseen.push_back(rank);
    if (!unseen.empty())
        words += fmt::format("; of {} there is nothing here", ranks_in_words(unseen));
    return words + ".";
}

}  // namespace

std::vector<Flight> read_flights(const std::string& folder, std::vector<std::string>& problems) {
    std::vector<Flight> flights;
    std::error_code problem;
    for (const auto& found : std::filesystem::directory_iterator(folder, problem)) {
        if (found.path().filename().string().find(flight::kPrefix) == std::string::npos)
            continue;
        const Mapped file = map(found.path());
        if (file == nullptr)
            continue;
        if (text(file->version) == PACKAGE_VERSION)
            flights.push_back(read_flight(found.path(), *file));
        else if (process_lives(file->pid) && process_began(file->pid) == file->pid_began)  // others end with their day
            problems.push_back(
                fmt::format("rank {} of job {} runs Switchyard {}, and this is {}: use the command of "
                            "that installation",
                            file->rank, text(file->job), text(file->version), PACKAGE_VERSION));
    }
    if (problem)
        problems.push_back(fmt::format("{} cannot be read: {}", folder, problem.message()));
    return flights;
}

std::string save_flights(const std::vector<Flight>& flights, const std::string& folder) {
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (problem)
        return fmt::format("{} cannot be made: {}", folder, problem.message());
    for (const Flight& one : flights) {
        const Mapped file = map(one.path);
        if (file == nullptr)
            continue;  // it has come to MPI_Finalize
        if (file->saved == 0) {
            file->saved = monotonic_nanoseconds();
            file->lived = one.lives ? 1 : 0;
        }
        const std::string to = fmt::format("{}/{}{}-{}", folder, flight::kPrefix, one.host, one.pid);
        std::ofstream stream(to, std::ios::binary);
        stream.write(reinterpret_cast<const char*>(file.get()), sizeof *file);
        stream.close();
        if (!stream)
            return fmt::format("{} cannot be written: {}", to, std::strerror(errno));
    }
    return {};
}

bool may_tell_end(const Flight& first) {
    // The lock is this process's until it ends: whoever comes later waits here, and does not end its rank before.
    const int descriptor = open(first.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0)
        flock(descriptor, LOCK_EX);
    const Mapped file = map_to_tell(first);
    return file != nullptr && file->end_told.exchange(1) == 0;
}

bool may_tell(const Flight& first, double seconds) {
    const Mapped file = map_to_tell(first);
    if (file == nullptr)
        return false;
    const flight::Nanoseconds now = monotonic_nanoseconds();
    flight::Nanoseconds before = file->told.load();
    const bool long_ago = before == 0 || static_cast<double>(now - before) * 1e-9 > seconds;
    return long_ago && file->told.compare_exchange_strong(before, now);
}

std::vector<std::string> findings(const std::vector<const Flight*>& job) {
    std::vector<std::string> all;
    for (const auto& [communicator, last] : last_collectives(job))
        if (std::string one = finding(job, last); !one.empty())
            all.push_back(std::move(one));
    return all;
}

std::string end_in_words(const Flight& flight) {
    const std::string words = "ended without MPI_Finalize";
    return flight.ended_by.empty() ? words : fmt::format("{} ({})", words, flight.ended_by);
}

std::string in_words(const FlightOperation& operation) {
    std::string words = operation.collective != 0 ? call_in_words(operation) : std::string(name(operation.call));
    if (operation.peer != flight::kNone) {
        words += operation.peer == flight::kAny ? ", any rank" : fmt::format(", rank {}", operation.peer);
        words += operation.tag == flight::kAny ? ", any tag" : fmt::format(", tag {}", operation.tag);
    }
    if (operation.communicator_ranks != 0)
        words += fmt::format(" on {} ({} rank{})",
                             operation.communicator.empty() ? "a communicator without name" : operation.communicator,
                             operation.communicator_ranks, operation.communicator_ranks == 1 ? "" : "s");
    if (!operation.routed)
        return operation.call != CallId::kFinalize ? words + ", no transport chosen yet" : words;
    words += fmt::format(", {}, {}", size_text(operation.bytes), name(operation.carrier));
    return operation.reason == Reason::kNone ? words : words + fmt::format(" ({})", name(operation.reason));
}

}  // namespace swy::report
