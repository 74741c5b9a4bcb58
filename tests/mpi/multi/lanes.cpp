// Messages of several buffers on devices, which NCCL carries where it can: whatever the numbers and sizes of the
// buffers at both ends, around rings of ranks with big blocking sends, by wildcards, after probes, too long for the
// receiver, and within a process. Every byte is compared with arithmetic. Option: --rounds N. Ranks share GPUs where
// there are fewer than three for each.
// launch: --relinked -n 3 --gpus 9 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_P2P_THRESHOLD=2K -x VGPU_JITTER=3 -- --rounds 40
// launch: --relinked -n 2 --gpus 6 -x SWITCHYARD_P2P_PAIR_COMM_AFTER=16K -x SWITCHYARD_P2P_THRESHOLD=2K -x VGPU_NCCL_VERSION=2.18 -- --rounds 40
// launch: --relinked -n 2 --gpus 3 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_P2P_THRESHOLD=2K -- --rounds 20
// launch: --relinked -n 2 --gpus 6 -x SWITCHYARD_NCCL=0 -x SWITCHYARD_P2P_THRESHOLD=2K -- --rounds 10
// launch: --relinked -n 2 --gpus 6 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_P2P_THRESHOLD=2K -x VGPU_FAULTS=ncclCommInitRankConfig[1]@2=ncclSystemError -- --rounds 10
// launch: --relinked -n 3 --gpus 9 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_P2P_PAIR_COMMS=3 -x SWITCHYARD_P2P_THRESHOLD=2K -- --rounds 20
#include <mpi.h>
#include <mpix_switchyard.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "../../random_seed.hpp"
#include "../gpu.hpp"

namespace {

constexpr int kDevices = 3, kTag = 11;
constexpr std::byte kUntouched{0xa5};
int rank = 0, size = 0, gpus = 1, failures = 0;
std::mt19937 draws;  // the same on all ranks

int below(int bound) {
    return static_cast<int>(draws() % static_cast<unsigned>(bound));
}

void expect(bool right, const char* what, int round) {
    if (right)
        return;
    std::printf("rank %d, round %d: %s\n", rank, round, what);
    ++failures;
}

std::byte value(unsigned seed, std::size_t at) {
    return static_cast<std::byte>((seed + at * 7 + at / 251) % 253);
}

// The buffers of one message at one end, each on a device of this process.
class Buffers {
  public:
    Buffers(int number, int each) : each_(static_cast<std::size_t>(each)) {
        for (int i = 0; i < number; ++i) {
            gpu::Driver::get().use((rank * kDevices + i) % gpus);
            memory_.push_back(std::make_unique<gpu::Memory>(gpu::Kind::kDevice, each_));
            list_.push_back(memory_.back()->address());
        }
    }
    void fill(unsigned seed) {
        for (std::size_t i = 0; i < memory_.size(); ++i) {
            std::vector<std::byte> bytes(each_);
            for (std::size_t at = 0; at < each_; ++at)
                bytes[at] = value(seed, i * each_ + at);
            memory_[i]->write(bytes);
        }
    }
    void clear() {
        for (const auto& memory : memory_)
            memory->write(std::vector<std::byte>(each_, kUntouched));
    }
    // The first bytes are the message's, the rest is as it was.
    bool holds(unsigned seed, std::size_t bytes) const {
        for (std::size_t i = 0; i < memory_.size(); ++i) {
            const std::vector<std::byte> found = memory_[i]->read();
            for (std::size_t at = 0; at < each_; ++at)
                if (found[at] != (i * each_ + at < bytes ? value(seed, i * each_ + at) : kUntouched))
                    return false;
        }
        return true;
    }
    void* const* list() const { return list_.data(); }
    int number() const { return static_cast<int>(list_.size()); }
    int each() const { return static_cast<int>(each_); }

  private:
    std::size_t each_;
    std::vector<std::unique_ptr<gpu::Memory>> memory_;
    std::vector<void*> list_;
};

// How a message is cut at both ends, in bytes. One buffer is a plain call in half of the cases.
struct Cut {
    int sent, sent_each, received, received_each;
    bool plain_send, plain_receive;
    int bytes() const { return sent * sent_each; }
};

Cut draw_cut() {
    Cut cut{};
    cut.sent = 1 + below(kDevices);
    cut.received = 1 + below(kDevices);
    cut.sent_each = below(8) == 0 ? 1 + below(600) : 2048 + below(30000);
    cut.received_each = (cut.bytes() + cut.received - 1) / cut.received + (below(2) == 0 ? 0 : below(5000));
    if (cut.sent == cut.received && below(2) == 0)
        cut.received_each = cut.sent_each;
    cut.plain_send = cut.sent == 1 && below(2) == 0;
    cut.plain_receive = cut.received == 1 && below(2) == 0;
    return cut;
}

void begin_receive(const Cut& cut, const Buffers& into, int from, int tag, MPI_Request* request) {
    if (cut.plain_receive)
        MPI_Irecv(into.list()[0], into.each(), MPI_BYTE, from, tag, MPI_COMM_WORLD, request);
    else
        MPIX_Irecv_multi(into.list(), into.number(), into.each(), MPI_BYTE, from, tag, MPI_COMM_WORLD, request);
}

void send(const Cut& cut, const Buffers& from, int to, int tag) {
    if (cut.plain_send)
        MPI_Send(from.list()[0], from.each(), MPI_BYTE, to, tag, MPI_COMM_WORLD);
    else
        MPIX_Send_multi(from.list(), from.number(), from.each(), MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

// All ranks send to the next one but `shift`, with blocking sends after receives that do not block; several messages
// with one tag stay in order.
void ring(int round) {
    const int shift = below(size), messages = 1 + below(3);
    const int to = (rank + shift) % size, from = (rank + size - shift) % size;
    const bool any_source = below(2) == 0, any_tag = below(2) == 0;
    std::vector<Cut> cuts;
    std::vector<Buffers> sent, received;
    std::vector<MPI_Request> requests(static_cast<std::size_t>(messages), MPI_REQUEST_NULL);
    const unsigned seed = draws();
    const auto seed_of = [&](int source, int message) {
        return seed % 1000 + static_cast<unsigned>(source * 31 + message * 17);
    };
    for (int i = 0; i < messages; ++i) {
        const Cut cut = draw_cut();
        cuts.push_back(cut);
        sent.emplace_back(cut.sent, cut.sent_each);
        sent.back().fill(seed_of(rank, i));
        received.emplace_back(cut.received, cut.received_each);
        received.back().clear();
    }
    for (std::size_t i = 0; i < cuts.size(); ++i)
        begin_receive(cuts[i], received[i], any_source ? MPI_ANY_SOURCE : from, any_tag ? MPI_ANY_TAG : kTag,
                      &requests[i]);
    for (std::size_t i = 0; i < cuts.size(); ++i)
        send(cuts[i], sent[i], to, kTag);
    std::vector<MPI_Status> statuses(requests.size());
    MPI_Waitall(messages, requests.data(), statuses.data());
    for (int i = 0; i < messages; ++i) {
        const auto at = static_cast<std::size_t>(i);
        int bytes = 0;
        MPI_Get_count(&statuses[at], MPI_BYTE, &bytes);
        expect(statuses[at].MPI_SOURCE == from && statuses[at].MPI_TAG == kTag, "the status's source and tag", round);
        expect(bytes == cuts[at].bytes(), "the status's count", round);
        expect(received[at].holds(seed_of(from, i), static_cast<std::size_t>(bytes)), "the received bytes", round);
    }
    MPI_Barrier(MPI_COMM_WORLD);  // a wildcard is for this round's messages
}

// A probe sees the message's size; who receives with too little room gets MPI_ERR_TRUNCATE and the sender goes on.
void probed(int round) {
    const Cut cut = draw_cut();
    const bool too_short = below(3) == 0;
    const unsigned seed = draws() % 1000;
    if (rank == 0) {
        Buffers sent(cut.sent, cut.sent_each);
        sent.fill(seed);
        send(cut, sent, 1, kTag + 1);
    } else if (rank == 1) {
        MPI_Status status;
        int bytes = 0;
        MPI_Probe(MPI_ANY_SOURCE, kTag + 1, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        expect(bytes == cut.bytes() && status.MPI_SOURCE == 0, "what a probe sees", round);
        const int each = too_short ? (bytes - 1) / cut.received : cut.received_each;
        Buffers received(cut.received, each);
        received.clear();
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        const int code = MPIX_Recv_multi(received.list(), received.number(), each, MPI_BYTE, 0, kTag + 1,
                                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        int mpi_class = MPI_SUCCESS;
        MPI_Error_class(code, &mpi_class);
        expect(mpi_class == (too_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "the class of error", round);
        if (!too_short)
            expect(received.holds(seed, static_cast<std::size_t>(bytes)), "what was received after a probe", round);
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = 10;
    for (int i = 1; i + 1 < argc; ++i)
        if (std::string_view(argv[i]) == "--rounds")
            rounds = std::atoi(argv[i + 1]);
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("SWY_RANDOM_SEED=%u\n", seed);
    draws.seed(seed);
    gpus = std::atoi(std::getenv("VGPU_COUNT"));
    for (int i = 0; i < rounds; ++i) {
        ring(i);
        probed(i);
    }
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
