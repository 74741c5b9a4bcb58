#include "vgpu/nccl/rendezvous.hpp"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "vgpu/nccl/debug.hpp"

namespace vgpu::nccl {
namespace {

constexpr std::uint64_t kMagic = 0x7667707572656e64ull;
constexpr std::uint32_t kLargestRecord = 1 << 16;

enum class HelloPurpose : std::uint32_t { Meet = 1, Connect = 2 };

struct Hello {
    std::uint64_t magic = kMagic;
    Name token{};
    Name from{};  // the visitor's own service's token
    Name name{};
    HelloPurpose purpose = HelloPurpose::Meet;
    std::int32_t parties = 0;
    std::int32_t index = 0;
    std::uint32_t bytes = 0;
};

// Precedes the records, or a message that says why there are none.
struct Answer {
    std::uint32_t accepted = 0;
    std::uint32_t bytes = 0;
};

struct Visitor {
    Fd fd;
    std::string in;
    std::string out;
    Hello hello;
    bool greeted = false;
    bool waiting = false;  // its record is in a meeting
    bool leaving = false;  // to be closed once `out` is sent
    // Shared by a meeting's visitors from other processes; each lets go of it when its answer is on its way.
    std::shared_ptr<int> unsent;
    // The answer for this process itself, which may end as soon as it has it: so not before `others` are gone.
    std::string held;
    std::weak_ptr<int> others;
};

struct Meeting {
    int parties = 0;
    std::map<int, Visitor*> present;
};

class Server {
  public:
    ncclResult_t start();
    const Service& service() const { return service_; }
    ncclResult_t take(const Name& name, Stop stop, Fd& connection);

  private:
    void run();
    void admit();
    // False when the visitor is to be dropped.
    bool serve(Visitor& visitor, short events);
    bool listen_to(Visitor& visitor);
    bool act(Visitor& visitor);
    void join(Visitor& visitor);
    void finish(const Name& name, Meeting& meeting);
    void leave(Visitor& visitor);
    void release_held();
    static void send_out(Visitor& visitor);
    static void answer(Visitor& visitor, bool accepted, const std::string& text);

    Service service_;
    Fd listener_;
    std::vector<std::unique_ptr<Visitor>> visitors_;
    std::map<Name, Meeting> meetings_;

    std::mutex lock_;
    std::condition_variable arrived_;
    std::map<Name, Fd> connections_;
};

ncclResult_t Server::start() {
    ncclResult_t result = local_address(service_.address);
    if (result == ncclSuccess)
        result = listen_on(service_.address, listener_);
    if (result != ncclSuccess)
        return result;
    service_.token = random_name();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { run(); }).detach();  // lives as long as the process
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    info("Bootstrap: Using %s", service_.address.text().c_str());
    return ncclSuccess;
}

void Server::run() {
    std::vector<pollfd> entries;
    while (true) {
        entries.assign(1, {listener_.get(), POLLIN, 0});
        for (const auto& visitor : visitors_) {
            const short events = static_cast<short>(POLLIN | POLLRDHUP | (visitor->out.empty() ? 0 : POLLOUT));
            entries.push_back({visitor->fd.get(), events, 0});
        }
        if (poll(entries.data(), entries.size(), -1) < 0)
            continue;
        // A visitor that is served may complete a meeting and so give others something to send: nobody is removed
        // from the list before all have been served.
        for (std::size_t i = 1; i < entries.size(); ++i) {
            Visitor& visitor = *visitors_[i - 1];
            if (entries[i].revents != 0 && !serve(visitor, entries[i].revents)) {
                leave(visitor);
                visitor.unsent.reset();
                visitor.fd.close();
            }
        }
        release_held();
        std::erase_if(visitors_, [](const auto& visitor) { return !visitor->fd; });
        if (entries[0].revents != 0)
            admit();
    }
}

void Server::admit() {
    while (true) {
        Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd) {
            if (errno == EMFILE || errno == ENFILE)
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            return;
        }
        const int on = 1;
        setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        visitors_.push_back(std::make_unique<Visitor>());
        visitors_.back()->fd = std::move(fd);
    }
}

bool Server::serve(Visitor& visitor, short events) {
    if ((events & POLLOUT) != 0)
        send_out(visitor);
    if (visitor.leaving)
        return !(visitor.out.empty() && visitor.held.empty()) && (events & (POLLERR | POLLHUP | POLLRDHUP)) == 0;
    return (events & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)) == 0 || listen_to(visitor);
}

bool Server::listen_to(Visitor& visitor) {
    // No byte more than this visitor's greeting is read: what follows on a connection belongs to who takes it.
    while (!visitor.waiting) {
        const std::size_t want = sizeof(Hello) + (visitor.greeted ? visitor.hello.bytes : 0);
        if (visitor.in.size() == want) {
            if (visitor.greeted)
                return act(visitor);
            std::memcpy(static_cast<void*>(&visitor.hello), visitor.in.data(), sizeof(Hello));
            visitor.greeted = true;
            if (visitor.hello.magic != kMagic || visitor.hello.token != service_.token ||
                visitor.hello.bytes > kLargestRecord)
                return false;
            continue;
        }
        char buffer[4096];
        const ssize_t got = recv(visitor.fd.get(), buffer, std::min(sizeof buffer, want - visitor.in.size()), 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (got <= 0)
            return false;
        visitor.in.append(buffer, static_cast<std::size_t>(got));
    }
    char byte;
    const ssize_t got = recv(visitor.fd.get(), &byte, 1, MSG_PEEK);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool Server::act(Visitor& visitor) {
    if (visitor.hello.purpose == HelloPurpose::Connect) {
        const std::lock_guard guard(lock_);
        connections_[visitor.hello.name] = std::move(visitor.fd);
        arrived_.notify_all();
        return false;
    }
    join(visitor);
    return true;
}

void Server::send_out(Visitor& visitor) {
    const ssize_t sent = send(visitor.fd.get(), visitor.out.data(), visitor.out.size(), MSG_NOSIGNAL);
    if (sent > 0)
        visitor.out.erase(0, static_cast<std::size_t>(sent));
    if (visitor.out.empty())
        visitor.unsent.reset();
}

void Server::release_held() {
    for (const auto& visitor : visitors_) {
        if (visitor->held.empty() || !visitor->others.expired())
            continue;
        visitor->out.swap(visitor->held);
        visitor->held.clear();
        send_out(*visitor);
    }
}

void Server::answer(Visitor& visitor, bool accepted, const std::string& text) {
    const Answer head{accepted ? 1u : 0u, static_cast<std::uint32_t>(text.size())};
    visitor.out.assign(reinterpret_cast<const char*>(&head), sizeof head);
    visitor.out += text;
    visitor.waiting = false;
    visitor.leaving = true;
}

void Server::join(Visitor& visitor) {
    const Hello& hello = visitor.hello;
    Meeting& meeting = meetings_[hello.name];
    if (meeting.present.empty())
        meeting.parties = hello.parties;
    std::string objection;
    if (hello.parties != meeting.parties)
        objection = "rank " + std::to_string(hello.index) + " says there are " + std::to_string(hello.parties) +
                    " ranks, others say " + std::to_string(meeting.parties);
    else if (hello.index < 0 || hello.index >= meeting.parties)
        objection = "rank " + std::to_string(hello.index) + " is out of range";
    else if (meeting.present.count(hello.index) != 0)
        objection = "two callers say that they are rank " + std::to_string(hello.index);
    if (!objection.empty()) {
        answer(visitor, false, objection);
        return;
    }
    visitor.waiting = true;
    meeting.present[hello.index] = &visitor;
    if (meeting.present.size() == static_cast<std::size_t>(meeting.parties))
        finish(hello.name, meeting);
}

void Server::finish(const Name& name, Meeting& meeting) {
    std::string records;
    bool alike = true;
    for (const auto& [index, visitor] : meeting.present) {
        records.append(visitor->in, sizeof(Hello));
        alike = alike && visitor->hello.bytes == meeting.present.begin()->second->hello.bytes;
    }
    const auto unsent = std::make_shared<int>();
    for (const auto& [index, visitor] : meeting.present) {
        answer(*visitor, alike, alike ? records : "ranks run different versions of the library");
        if (visitor->hello.from == service_.token) {
            visitor->held.swap(visitor->out);
            visitor->others = unsent;
        } else {
            visitor->unsent = unsent;
            send_out(*visitor);
        }
    }
    meetings_.erase(name);
}

void Server::leave(Visitor& visitor) {
    if (!visitor.waiting)
        return;
    const auto found = meetings_.find(visitor.hello.name);
    if (found == meetings_.end())
        return;
    found->second.present.erase(visitor.hello.index);
    if (found->second.present.empty())
        meetings_.erase(found);
}

ncclResult_t Server::take(const Name& name, Stop stop, Fd& connection) {
    std::unique_lock guard(lock_);
    while (connections_.count(name) == 0) {
        arrived_.wait_for(guard, std::chrono::milliseconds(20));
        if (stop != nullptr && stop->load())
            return ncclInternalError;
    }
    const auto found = connections_.find(name);
    connection = std::move(found->second);
    connections_.erase(found);
    return ncclSuccess;
}

std::mutex g_server_lock;
Server* g_server = nullptr;  // never destroyed: its thread may run until the process is gone

// The thread does not exist in a forked child. Its copy of the listening socket stays open there, unused.
void forget_server_in_child() {
    new (&g_server_lock) std::mutex;
    g_server = nullptr;
}

ncclResult_t server(Server*& out) {
    const std::lock_guard guard(g_server_lock);
    static const int registered = pthread_atfork(nullptr, nullptr, forget_server_in_child);
    (void)registered;
    if (g_server == nullptr) {
        auto fresh = std::make_unique<Server>();
        const ncclResult_t result = fresh->start();
        if (result != ncclSuccess)
            return result;
        g_server = fresh.release();
    }
    out = g_server;
    return ncclSuccess;
}

ncclResult_t greet(const Service& to, Hello hello, const void* record, Stop stop, Fd& connection) {
    ncclResult_t result = connect_to(to.address, stop, connection);
    Service own;
    if (result == ncclSuccess)
        result = own_service(own);
    hello.token = to.token;
    hello.from = own.token;
    if (result == ncclSuccess)
        result = send_all(connection.get(), &hello, sizeof hello, stop);
    if (result == ncclSuccess)
        result = send_all(connection.get(), record, hello.bytes, stop);
    return result;
}

}  // namespace

ncclResult_t own_service(Service& service) {
    Server* here = nullptr;
    const ncclResult_t result = server(here);
    if (result == ncclSuccess)
        service = here->service();
    return result;
}

ncclResult_t meet(const Service& host, const Name& meeting, int parties, int index, const void* record,
                  std::size_t bytes, Stop stop, std::vector<std::byte>& all) {
    Hello hello;
    hello.name = meeting;
    hello.parties = parties;
    hello.index = index;
    hello.bytes = static_cast<std::uint32_t>(bytes);
    Fd connection;
    Answer head;
    ncclResult_t result = greet(host, hello, record, stop, connection);
    if (result == ncclSuccess)
        result = receive_all(connection.get(), &head, sizeof head, stop);
    if (result != ncclSuccess)
        return result;
    all.resize(head.bytes);
    result = receive_all(connection.get(), all.data(), head.bytes, stop);
    if (result != ncclSuccess || head.accepted != 0)
        return result;
    warn("Bootstrap : %.*s", static_cast<int>(all.size()), reinterpret_cast<const char*>(all.data()));
    return ncclInvalidUsage;
}

ncclResult_t open_connection(const Service& to, const Name& name, Stop stop, Fd& connection) {
    Hello hello;
    hello.name = name;
    hello.purpose = HelloPurpose::Connect;
    return greet(to, hello, nullptr, stop, connection);
}

ncclResult_t take_connection(const Name& name, Stop stop, Fd& connection) {
    Server* here = nullptr;
    const ncclResult_t result = server(here);
    return result == ncclSuccess ? here->take(name, stop, connection) : result;
}

}  // namespace vgpu::nccl
