// Payloads that look like envelopes: as long as one, or made like one but for the job's secret, which no program knows.
// They arrive as what they are, in memory of every kind, probed or not, between large messages and alone.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1 -x SWITCHYARD_P2P_THRESHOLD=1K -x VGPU_JITTER=2
// launch: -n 2 --gpus 2 -x SWITCHYARD_NCCL=0
// test-timeout: 60
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../../random_seed.hpp"
#include "buffer.hpp"
#include "call/envelope.hpp"

namespace {

using gpu::Kind;
using p2p_test::Bytes;
using swy::call::kEnvelopeBytes;

int rank = 0, failures = 0;
constexpr int kTag = 4;
constexpr int kLarge = 100000;

enum Content { kNoise, kOtherSecret, kNoSecret, kContents };
constexpr const char* kContentNames[] = {"random bytes", "an envelope of another job", "an envelope without a secret"};
enum Way { kRecv, kIrecv, kPersistent, kProbe, kIprobe, kMprobe, kImprobe, kWays };
constexpr const char* kWayNames[] = {"Recv", "Irecv", "Recv_init", "Probe", "Iprobe", "Mprobe", "Improbe"};

// The bytes of the message number `which`, the same on both ranks.
Bytes make(Content content, unsigned which) {
    const Bytes noise = p2p_test::noise(which, kEnvelopeBytes);
    if (content == kNoise)
        return noise;
    swy::call::Secret secret{};
    swy::call::Envelope envelope;
    std::memcpy(&envelope.id, noise.data(), sizeof envelope.id);
    envelope.id %= 4;  // ids of transfers that there are
    envelope.bytes = kLarge;
    envelope.contiguous = envelope.nccl = true;
    if (content == kOtherSecret)
        std::memcpy(secret.data(), &noise[20], sizeof secret);
    const swy::call::EnvelopeBytes bytes = swy::call::write(envelope, secret);
    return {bytes.begin(), bytes.end()};
}

void expect(bool good, const std::string& what) {
    if (good)
        return;
    std::fprintf(stderr, "%s\n", what.c_str());
    ++failures;
}

void expect_count(const MPI_Status& status, const std::string& what) {
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    expect(count == static_cast<int>(kEnvelopeBytes) && status.MPI_SOURCE == 0 && status.MPI_TAG == kTag,
           what + ": status with count " + std::to_string(count));
}

// Receives into `room` bytes at `memory`; what probes say is checked here.
MPI_Status receive(Way way, void* memory, int room, const std::string& what) {
    MPI_Status status{}, probed{};
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    int found = way < kProbe ? 1 : 0;
    if (way == kProbe)
        MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &probed);
    if (way == kMprobe)
        MPI_Mprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &message, &probed);
    while (way == kIprobe && found == 0)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &probed);
    while (way == kImprobe && found == 0)
        MPI_Improbe(0, kTag, MPI_COMM_WORLD, &found, &message, &probed);
    if (way >= kProbe)
        expect_count(probed, what + ", probed");
    if (message != MPI_MESSAGE_NULL) {
        MPI_Mrecv(memory, room, MPI_BYTE, &message, &status);
    } else if (way == kIrecv || way == kPersistent) {
        (way == kIrecv ? MPI_Irecv : MPI_Recv_init)(memory, room, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
        if (way == kPersistent)
            MPI_Start(&request);
        MPI_Wait(&request, &status);
        if (way == kPersistent)
            MPI_Request_free(&request);
    } else {
        MPI_Recv(memory, room, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &status);
    }
    return status;
}

// One payload, with a large message before and after it that does come by envelope when it lies in device memory.
void one(Kind from, Kind to, Content content, Way way, int room, unsigned which) {
    const std::string what = std::string(kContentNames[content]) + " from " + gpu::name(from) + " memory by " +
                             kWayNames[way] + " into " + std::to_string(room) + " bytes of " + gpu::name(to) +
                             " memory";
    const Bytes payload = make(content, which), large = p2p_test::noise(which + 1, kLarge);
    const bool between = which % 3 == 0;
    if (rank == 0) {
        const gpu::Memory small(from, payload), big(from, large);
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        if (between)
            MPI_Isend(big.at(0), kLarge, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &requests[0]);
        MPI_Send(small.at(0), kEnvelopeBytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
        if (between)
            MPI_Isend(big.at(0), kLarge, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        return;
    }
    Bytes before = p2p_test::noise(which + 2, static_cast<std::size_t>(room));
    const gpu::Memory memory(to, before), big(to, kLarge);
    if (between) {
        MPI_Recv(big.at(0), kLarge, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(big.read() == large, what + ": the large message before it");
    }
    expect_count(receive(way, memory.at(0), room, what), what);
    std::copy(payload.begin(), payload.end(), before.begin());
    expect(memory.read() == before, what + ": wrong data");
    if (between) {
        MPI_Recv(big.at(0), kLarge, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(big.read() == large, what + ": the large message after it");
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    unsigned which = random_seed();
    MPI_Bcast(&which, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("SWY_RANDOM_SEED=%u\n", which);
    for (const Kind from : {Kind::kHost, Kind::kDevice, Kind::kManaged})
        for (const Kind to : {Kind::kHost, Kind::kDevice, Kind::kPinned})
            for (int content = 0; content < kContents; ++content)
                for (int way = 0; way < kWays; ++way)
                    for (const int room : {static_cast<int>(kEnvelopeBytes), 1000, 2 * kLarge})
                        one(from, to, static_cast<Content>(content), static_cast<Way>(way), room, ++which);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
