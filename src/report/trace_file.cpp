#include "report/trace_file.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <queue>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "call/private_comm.hpp"
#include "config.h"
#include "error/loss.hpp"
#include "real.hpp"
#include "report/clock.hpp"
#include "report/trace.hpp"
#include "settings/files.hpp"
#include "settings/settings.hpp"

namespace swy::report::trace {

namespace {

using Json = nlohmann::ordered_json;

// Chrome's thread numbers: the program's threads from 0, then rows of messages, then streams.
constexpr int kFirstMessages = 1000;
constexpr int kFirstStream = 1000000;
constexpr std::size_t kLongestObject = 4096;

double microseconds(std::int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e3;  // the nearest number: three digits when printed
}

std::string dumped(const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json arguments(const Event& event) {
    Json args = Json::object();
    if (event.is_call)
        args = {{"carrier", name(event.carrier)}, {"reason", name(event.reason)}};
    if (event.is_call || event.bytes != 0)
        args["bytes"] = event.bytes;
    if (!event.subject.communicator.empty())
        args["communicator"] = event.subject.communicator;
    if (event.subject.peer >= 0)
        args["peer"] = event.subject.peer;
    if (event.subject.tag >= 0)
        args["tag"] = event.subject.tag;
    if (event.pieces > 0)
        args["copies"] = event.pieces;
    if (event.unfinished)
        args["unfinished"] = true;
    return args;
}

std::string_view category(const Event& event) {
    if (event.track == Track::kStream)
        return event.pieces > 0 ? "copy" : event.name.starts_with("nccl") ? "nccl" : "kernel";
    if (event.track == Track::kOperation)
        return "operation";  // for its parts too: those of one name and number belong together
    if (event.track == Track::kMessage)
        return "message";
    return event.is_call ? "call" : "part";
}

constexpr std::size_t kBatchBytes = std::size_t{256} << 10;

// The events of one rank as Chrome's trace-event objects, a batch of text at a time.
class Batches {
  public:
    Batches(int rank, const std::string& host, std::span<const Event> events, std::size_t dropped, const Clock& clock);

    // Returns objects separated by commas, about kBatchBytes; "" after the last ones.
    std::string next();

  private:
    void lay_out_messages();
    void name_tracks(const std::string& host);
    void say(const std::string& object);
    void write(std::uint32_t index);
    void write_arrow(const Event& event, int track, std::int64_t begin, std::int64_t end);
    void write_end(std::size_t dropped);
    int track_of(std::uint32_t index) const;

    const int rank_;
    const std::span<const Event> events_;
    const std::size_t dropped_;
    const Clock& clock_;
    std::vector<std::uint32_t> order_;  // indices of the events in the order in which they are written: by their begin
    std::map<std::uint64_t, int> streams_;  // handle to number
    std::vector<int> rows_;                 // of messages, by the event's index
    int rows_of_messages_ = 0;
    std::string text_;
    std::size_t next_ = 0;
    bool ended_ = false;
};

Batches::Batches(int rank, const std::string& host, std::span<const Event> events, std::size_t dropped,
                 const Clock& clock)
    : rank_(rank), events_(events), dropped_(dropped), clock_(clock), order_(events.size()) {
    // Of events with one begin the longest comes first: viewers draw the first one as the outer one.
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(events[a].begin, events[b].end) < std::pair(events[b].begin, events[a].end);
    });
    lay_out_messages();
    name_tracks(host);
}

// Puts each message into the first row that is free when it begins. Arrows bind to what is drawn in rows: viewers find
// nothing for them on the tracks that they make themselves for what overlaps.
void Batches::lay_out_messages() {
    using Taken = std::pair<Time, int>;  // until when, and the row
    std::priority_queue<Taken, std::vector<Taken>, std::greater<>> taken;
    std::priority_queue<int, std::vector<int>, std::greater<>> free;
    rows_.resize(events_.size());
    for (const std::uint32_t index : order_) {
        const Event& event = events_[index];
        if (event.track != Track::kMessage)
            continue;
        for (; !taken.empty() && taken.top().first <= event.begin; taken.pop())
            free.push(taken.top().second);
        int row = rows_of_messages_;
        if (free.empty()) {
            ++rows_of_messages_;
        } else {
            row = free.top();
            free.pop();
        }
        taken.emplace(event.end, row);
        rows_[index] = row;
    }
}

int Batches::track_of(std::uint32_t index) const {
    const Event& event = events_[index];
    if (event.track == Track::kMessage)
        return kFirstMessages + rows_[index];
    return event.track == Track::kStream ? kFirstStream + streams_.at(event.where) : static_cast<int>(event.where);
}

void Batches::say(const std::string& object) {
    text_ += text_.empty() ? "" : ",\n";
    text_ += object;
}

std::string stream_in_words(int number, const std::string& device) {
    return device.empty() ? fmt::format("stream {}", number) : fmt::format("stream {}, {}", number, device);
}

void Batches::name_tracks(const std::string& host) {
    const auto named = [this](const char* what, int track, const std::string& value) {
        say(dumped({{"ph", "M"}, {"name", what}, {"pid", rank_}, {"tid", track}, {"args", {{"name", value}}}}));
    };
    std::set<std::uint64_t> threads{0};
    for (const Event& event : events_) {
        if (event.track == Track::kThread)
            threads.insert(event.where);
        else if (event.track == Track::kStream)
            streams_.emplace(event.where, static_cast<int>(streams_.size()));
    }
    named("process_name", 0, fmt::format("rank {} ({})", rank_, host));
    say(dumped({{"ph", "M"}, {"name", "process_sort_index"}, {"pid", rank_}, {"args", {{"sort_index", rank_}}}}));
    for (const std::uint64_t thread : threads)
        named("thread_name", static_cast<int>(thread), thread == 0 ? "MPI calls" : fmt::format("MPI calls {}", thread));
    for (int row = 0; row < rows_of_messages_; ++row)
        named("thread_name", kFirstMessages + row, row == 0 ? "messages" : fmt::format("messages {}", row));
    for (const auto& [handle, number] : streams_)
        named("thread_name", kFirstStream + number, stream_in_words(number, device_of(handle)));
}

// Writes this rank's end of the arrow from a message's send to its receive. The end of a receive that lies on the edge
// of what is drawn would bind to nothing.
void Batches::write_arrow(const Event& event, int track, std::int64_t begin, std::int64_t end) {
    const ArrowEnd& arrow = event.subject.arrow;
    Json object = {{"name", "message"},
                   {"cat", "message"},
                   {"ph", arrow.sent ? "s" : "f"},
                   {"id", fmt::format("{:#x}{:010x}", arrow.sender, arrow.number)},
                   {"pid", rank_},
                   {"tid", track},
                   {"ts", microseconds(arrow.sent ? begin : std::max(begin, end - 1))}};
    if (!arrow.sent)
        object["bp"] = "e";
    say(dumped(object));
}

void Batches::write(std::uint32_t index) {
    const Event& event = events_[index];
    const std::int64_t begin = clock_.since_start(event.begin);
    const std::int64_t end = std::max(clock_.since_start(event.end), begin);
    Json object = {{"name", event.name}, {"cat", category(event)},   {"ph", "X"}, {"pid", rank_},
                   {"tid", 0},           {"ts", microseconds(begin)}};
    if (event.track != Track::kOperation) {
        const int track = track_of(index);
        object["tid"] = track;
        object["dur"] = microseconds(end - begin);
        object["args"] = arguments(event);
        say(dumped(object));
        if (event.subject.arrow.number != 0)
            write_arrow(event, track, begin, end);
        return;
    }
    object["ph"] = "b";
    object["id2"] = {{"local", fmt::format("{:#x}", event.where)}};
    object["args"] = arguments(event);
    say(dumped(object));
    object["ph"] = "e";
    object["ts"] = microseconds(end);
    object.erase("args");
    say(dumped(object));
}

// Marks where the record ends because events were dropped.
void Batches::write_end(std::size_t dropped) {
    if (dropped == 0 || events_.empty())
        return;
    say(dumped({{"name", fmt::format("{} later events were dropped (SWITCHYARD_TRACE_EVENTS)", dropped)},
                {"cat", "dropped"},
                {"ph", "i"},
                {"s", "p"},
                {"pid", rank_},
                {"tid", 0},
                {"ts", microseconds(clock_.since_start(events_.back().end))}}));
}

std::string Batches::next() {
    while (next_ < events_.size() && text_.size() + 2 * kLongestObject < kBatchBytes)
        write(order_[next_++]);
    if (next_ == events_.size() && !std::exchange(ended_, true))
        write_end(dropped_);
    return std::exchange(text_, {});
}

}  // namespace

}  // namespace swy::report::trace

namespace swy::report {

namespace {

constexpr int kWriter = 0;
constexpr int kTag = 0;

struct Session {
    MPI_Comm comm = MPI_COMM_NULL;  // of the trace's own messages: the program's wildcards must not catch them
    int rank = 0, ranks = 1;
    std::string host;
    trace::Clock clock;
};

Session& session() {
    static Session the_session;
    return the_session;
}

// The file on rank 0. After its first failure it accepts everything and writes nothing.
class File {
  public:
    explicit File(const std::string& path) : path_(path), file_(settings::open_to_write(path)) {
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
        real::Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, kWriter, kTag, session().comm);
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
    real::Bcast(&go_on, 1, MPI_INT, kWriter, session().comm);
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
    real::Comm_rank(MPI_COMM_WORLD, &session().rank);
    real::Comm_size(MPI_COMM_WORLD, &session().ranks);
    session().host = host_name();
    if (call::make_private_comm(MPI_COMM_WORLD, &session().comm) != MPI_SUCCESS)
        return;
    session().clock.ask(session().comm);
    trace::start(share(session().ranks));
}

void write_own_trace() {
    trace::stop();
    if (settings::values().trace_file.empty())  // only rank 0's environment has it
        return;
    const Session& own = session();
    trace::Batches batches(own.rank, own.host, trace::events(), trace::dropped(), own.clock);
    std::vector<unsigned long long> dropped(static_cast<std::size_t>(own.ranks));
    dropped[static_cast<std::size_t>(own.rank)] = trace::dropped();
    File file(fmt::format("{}.rank{}", settings::values().trace_file, own.rank));
    file.put(heading(dropped));
    for (std::string text = batches.next(); !text.empty(); text = batches.next())
        file.put_objects(text);
    file.put("\n]}\n");
}

void write_trace() {
    trace::stop();
    MPI_Comm& comm = session().comm;
    if (comm != MPI_COMM_NULL)
        comm = error::left_of(comm);
    if (comm == MPI_COMM_NULL)
        return;
    int rank = 0;
    int ranks = 1;
    real::Comm_rank(comm, &rank);
    real::Comm_size(comm, &ranks);
    session().clock.ask(comm);
    const unsigned long long mine = trace::dropped();
    std::vector<unsigned long long> dropped(static_cast<std::size_t>(ranks));
    real::Gather(&mine, 1, MPI_UNSIGNED_LONG_LONG, dropped.data(), 1, MPI_UNSIGNED_LONG_LONG, kWriter, comm);
    trace::Batches own(rank, host_name(), trace::events(), mine, session().clock);
    if (rank == kWriter) {
        write_all(own, dropped);
    } else {
        int go_on = 0;
        real::Bcast(&go_on, 1, MPI_INT, kWriter, comm);
        if (go_on != 0)
            send_batches(own);
    }
    real::Comm_free(&comm);
}

}  // namespace swy::report
