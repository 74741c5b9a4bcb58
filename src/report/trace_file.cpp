#include "report/trace_file.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "call/private_comm.hpp"
#include "config.h"
#include "real.hpp"
#include "report/clock.hpp"
#include "report/trace.hpp"
#include "report/trace_json.hpp"
#include "settings/settings.hpp"

namespace swy::report {

namespace {

constexpr int kRoot = 0;
constexpr int kTag = 0;

struct Session {
    MPI_Comm comm = MPI_COMM_NULL;  // of the trace's own messages: the program's wildcards must not catch them
    trace::Clock clock;
};

Session& session() {
    static Session the_session;
    return the_session;
}

// The file on rank 0. After its first failure it accepts everything and writes nothing.
class File {
  public:
    explicit File(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w")) {
        if (file_ == nullptr)
            failed();
    }
    ~File() {
        if (file_ != nullptr && std::fclose(file_) != 0)
            failed();
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    void put(const std::string& text) {
        if (file_ == nullptr || std::fwrite(text.data(), 1, text.size(), file_) == text.size())
            return;
        failed();
        std::fclose(file_);
        file_ = nullptr;
    }
    void put_objects(const std::string& text) {
        put(first_ ? text : ",\n" + text);
        first_ = false;
    }
    bool open() const { return file_ != nullptr; }

  private:
    void failed() const {
        std::fprintf(stderr, "switchyard: the trace could not be written to %s: %s (SWITCHYARD_TRACE=FILE)\n",
                     path_.c_str(), std::strerror(errno));
    }
    const std::string path_;
    std::FILE* file_;
    bool first_ = true;
};

std::string host_name() {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    real::Get_processor_name(name.data(), &length);
    return name.data();
}

std::size_t share(int ranks) {
    return std::max<std::size_t>(settings::values().trace_events / static_cast<std::size_t>(ranks), 1);
}

std::string heading(const std::vector<unsigned long long>& dropped) {
    const nlohmann::ordered_json other = {{"switchyard", PACKAGE_VERSION},
                                          {"ranks", dropped.size()},
                                          {"most_events_of_a_rank", share(static_cast<int>(dropped.size()))},
                                          {"dropped", dropped}};
    return "{\"displayTimeUnit\":\"ms\",\"otherData\":" + other.dump() + ",\"traceEvents\":[\n";
}

// Reports dropped events: nothing is left out silently.
void tell_dropped(const std::vector<unsigned long long>& dropped) {
    unsigned long long all = 0;
    for (const unsigned long long one : dropped)
        all += one;
    if (all != 0)
        std::fprintf(stderr,
                     "switchyard: the trace has the first %zu events of each rank; %llu later ones were dropped "
                     "(SWITCHYARD_TRACE_EVENTS)\n",
                     share(static_cast<int>(dropped.size())), all);
}

void send_batches(trace::Batches& batches) {
    std::string text;
    do {
        text = batches.next();
        real::Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, kRoot, kTag, session().comm);
    } while (!text.empty());
}

void receive_batches(int rank, File& file) {
    std::string text;
    do {
        MPI_Status status;
        int bytes = 0;
        if (real::Probe(rank, kTag, session().comm, &status) != MPI_SUCCESS ||
            real::Get_count(&status, MPI_CHAR, &bytes) != MPI_SUCCESS)
            return;
        text.resize(static_cast<std::size_t>(bytes));
        if (real::Recv(text.data(), bytes, MPI_CHAR, rank, kTag, session().comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (bytes > 0)
            file.put_objects(text);
    } while (!text.empty());
}

// Writes the events of one rank after the other, so that rank 0 has one batch in memory at a time.
void write_all(trace::Batches& own, const std::vector<unsigned long long>& dropped) {
    File file(settings::values().trace_file);
    int go_on = file.open() ? 1 : 0;
    real::Bcast(&go_on, 1, MPI_INT, kRoot, session().comm);
    if (go_on == 0)
        return;
    file.put(heading(dropped));
    for (std::string text = own.next(); !text.empty(); text = own.next())
        file.put_objects(text);
    for (int rank = 1; rank < static_cast<int>(dropped.size()); ++rank)
        receive_batches(rank, file);
    file.put("\n]}\n");
    tell_dropped(dropped);
}

}  // namespace

void begin_trace() {
    int ranks = 1;
    real::Comm_size(MPI_COMM_WORLD, &ranks);
    if (call::make_private_comm(MPI_COMM_WORLD, &session().comm) != MPI_SUCCESS)
        return;
    session().clock.ask(session().comm);
    trace::start(share(ranks));
}

void write_trace() {
    trace::stop();
    MPI_Comm& comm = session().comm;
    if (comm == MPI_COMM_NULL)
        return;
    int rank = 0;
    int ranks = 1;
    real::Comm_rank(comm, &rank);
    real::Comm_size(comm, &ranks);
    session().clock.ask(comm);
    const unsigned long long mine = trace::dropped();
    std::vector<unsigned long long> dropped(static_cast<std::size_t>(ranks));
    real::Gather(&mine, 1, MPI_UNSIGNED_LONG_LONG, dropped.data(), 1, MPI_UNSIGNED_LONG_LONG, kRoot, comm);
    trace::Batches own(rank, host_name(), trace::events(), mine, session().clock);
    if (rank == kRoot) {
        write_all(own, dropped);
    } else {
        int go_on = 0;
        real::Bcast(&go_on, 1, MPI_INT, kRoot, comm);
        if (go_on != 0)
            send_batches(own);
    }
    real::Comm_free(&comm);
}

}  // namespace swy::report
