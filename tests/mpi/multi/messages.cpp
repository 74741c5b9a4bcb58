// MPIX_Send_multi and its kin carry all buffers of a process one after the other: between random numbers of buffers in
// memory of any kind, blocking or not, to and from plain calls, in MPI's order; and errors of the arguments are MPI
// errors. Option: --rounds N.
// launch: --relinked -n 2 --gpus 6 -x SWITCHYARD_P2P_THRESHOLD=2K -x VGPU_JITTER=5 -- --rounds 60
// launch: --relinked -n 2 -- --rounds 40
#include <mpi.h>
#include <mpix_switchyard.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "../../random_seed.hpp"
#include "place.hpp"

namespace {

using place::Buffer;
using place::Type;
using place::Value;
using place::Values;

constexpr int kDevices = 3;
int rank = 0, failures = 0;
bool has_gpus = false;
std::mt19937 draws;

int below(int bound) {
    return static_cast<int>(draws() % static_cast<unsigned>(bound));
}

void expect(bool right, const char* what) {
    if (right)
        return;
    std::printf("rank %d: %s\n", rank, what);
    ++failures;
}

// The same on both ranks.
struct Message {
    int sent_buffers = 0, received_buffers = 0;  // 0: a plain call on host memory
    int elements = 0, tag = 0;
    Type type = Type::kInt;
    bool blocking = true, any = false;
    unsigned seed = 0;
};

Message draw(int number) {
    constexpr int kNumbers[] = {0, 1, 2, 3, 4, 6};
    Message m;
    m.sent_buffers = kNumbers[below(6)];
    m.received_buffers = kNumbers[below(6)];
    m.elements = 12 * (below(2) == 0 ? below(5) : below(400));
    m.tag = number % 3;
    m.type = static_cast<Type>(below(place::kTypes));
    m.blocking = below(2) == 0;
    m.any = below(3) == 0;
    m.seed = static_cast<unsigned>(draws());
    return m;
}

class End {
  public:
    End(const Message& message, bool sends) : message_(message), sends_(sends) {
        const int buffers = std::max(1, number());
        const int each = message.elements / buffers;
        for (int i = 0; i < buffers; ++i) {
            Values values;
            for (int at = 0; at < each; ++at)
                values.push_back(sends ? value(i * each + at) : Value{-1, -1});
            const bool device = has_gpus && number() > 0 && (message.seed >> i) % 4 != 0;
            const gpu::Kind kind = device ? gpu::Kind::kDevice : gpu::Kind::kHost;
            buffers_.emplace_back(kind, rank * kDevices + i % kDevices, message.type, values);
            addresses_.push_back(buffers_.back().address());
        }
    }

    void begin() {
        const MPI_Datatype type = place::handle(message_.type);
        const int each = message_.elements / std::max(1, number());
        const int peer = 1 - rank;
        const int from = message_.any ? MPI_ANY_SOURCE : peer;
        const MPI_Comm w = MPI_COMM_WORLD;
        void* const* list = addresses_.data();
        const void* const* constant = list;
        MPI_Request* const r = &request_;
        if (sends_ && number() == 0)
            MPI_Isend(list[0], each, type, peer, message_.tag, w, r);
        else if (sends_ && message_.blocking)
            MPIX_Send_multi(constant, number(), each, type, peer, message_.tag, w);
        else if (sends_)
            MPIX_Isend_multi(constant, number(), each, type, peer, message_.tag, w, r);
        else if (number() == 0)
            MPI_Irecv(list[0], each, type, from, message_.tag, w, r);
        else if (message_.blocking)
            check_blocking(list, each, type, from);
        else
            MPIX_Irecv_multi(list, number(), each, type, from, message_.tag, w, r);
    }
    MPI_Request request() const { return request_; }

    void check(int number_of_message) const {
        const int each = message_.elements / static_cast<int>(buffers_.size());
        for (std::size_t i = 0; i < buffers_.size(); ++i) {
            Values wanted;
            for (int at = 0; at < each; ++at)
                wanted.push_back(value(static_cast<int>(i) * each + at));
            const int wrong = buffers_[i].compare(wanted);
            if (wrong == 0)
                continue;
            std::printf("message %d, rank %d, buffer %zu of %d (%d sent): %d of %d elements are wrong, type %d%s\n",
                        number_of_message, rank, i, number(), message_.sent_buffers, wrong, each,
                        static_cast<int>(message_.type), message_.blocking ? "" : ", begun");
            ++failures;
        }
    }

  private:
    int number() const { return sends_ ? message_.sent_buffers : message_.received_buffers; }
    Value value(int at) const {
        return {static_cast<int>((message_.seed + static_cast<unsigned>(at) * 31u) % 9973u), at};
    }
    void check_blocking(void* const* list, int each, MPI_Datatype type, int from) {
        MPI_Status status;
        MPIX_Recv_multi(list, number(), each, type, from, message_.tag, MPI_COMM_WORLD, &status);
        int bytes = 0, size = 0;
        MPI_Get_elements(&status, MPI_BYTE, &bytes);
        MPI_Type_size(type, &size);
        expect(status.MPI_SOURCE == 1 - rank && status.MPI_TAG == message_.tag, "MPIX_Recv_multi's source and tag");
        expect(bytes == size * message_.elements, "MPIX_Recv_multi's count");
    }

    const Message message_;
    const bool sends_;
    std::vector<Buffer> buffers_;
    std::vector<void*> addresses_;
    MPI_Request request_ = MPI_REQUEST_NULL;
};

void rounds(int number) {
    for (int i = 0; i < number;) {
        // A row of messages in one direction: those with equal tags are in order.
        const bool sends = (below(2) == 0) == (rank == 0);
        std::vector<End> row;
        const int length = 1 + below(4);
        row.reserve(static_cast<std::size_t>(length));
        for (int k = 0; k < length; ++k) {
            row.emplace_back(draw(i + k), sends);
            row.back().begin();
        }
        std::vector<MPI_Request> requests;
        for (const End& end : row)
            requests.push_back(end.request());
        MPI_Waitall(length, requests.data(), MPI_STATUSES_IGNORE);
        for (int k = 0; k < length; ++k)
            row[static_cast<std::size_t>(k)].check(i + k);
        i += length;
    }
}

// More than the receiver has room for is MPI's truncation, whatever the numbers of buffers.
void truncation() {
    const Values three(900, Value{3, 3});
    std::vector<Buffer> buffers;
    std::vector<void*> list;
    for (int i = 0; i < 2 + rank; ++i) {
        buffers.emplace_back(has_gpus ? gpu::Kind::kDevice : gpu::Kind::kHost, rank * kDevices + i, Type::kInt, three);
        list.push_back(buffers.back().address());
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_SUCCESS, mpi_class = MPI_SUCCESS;
    if (rank == 1) {
        MPIX_Send_multi(list.data(), 3, 900, MPI_INT, 0, 5, MPI_COMM_WORLD);
    } else {
        code = MPIX_Recv_multi(list.data(), 2, 900, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &mpi_class);
        expect(mpi_class == MPI_ERR_TRUNCATE, "three buffers into two are not MPI_ERR_TRUNCATE");
    }
}

void arguments() {
    int value = 0, code = MPI_SUCCESS;
    void* list[] = {&value, nullptr};
    const auto is = [&](int mpi_class, const char* part, const char* what) {
        int found = MPI_SUCCESS, length = 0;
        char text[MPI_MAX_ERROR_STRING] = "";
        MPI_Error_class(code, &found);
        MPI_Error_string(code, text, &length);
        if (found == mpi_class && std::strstr(text, part) != nullptr)
            return;
        std::printf("rank %d: %s: class %d, %s\n", rank, what, found, text);
        ++failures;
    };
    const MPI_Comm w = MPI_COMM_WORLD;
    const std::string of = has_gpus ? " on rank " + std::to_string(rank) + " of MPI_COMM_WORLD (2 ranks)" : "";
    code = MPIX_Send_multi(list, -1, 1, MPI_INT, 0, 0, w);
    is(MPI_ERR_COUNT, ("MPIX_Send_multi" + of + ": nbufs is -1").c_str(), "a negative number of buffers");
    code = MPIX_Send_multi(nullptr, 1, 1, MPI_INT, 0, 0, w);
    is(MPI_ERR_BUFFER, "MPIX_Send_multi", "no list of buffers");
    code = MPIX_Recv_multi(list, 2, 1, MPI_INT, 0, 0, w, MPI_STATUS_IGNORE);
    is(MPI_ERR_BUFFER, "buffer 1 of 2 is NULL", "a buffer that is NULL");
    code = MPIX_Allreduce_multi(nullptr, list, 1, 1, MPI_INT, MPI_SUM, w);
    is(MPI_ERR_BUFFER, "MPIX_Allreduce_multi", "no list of send buffers");
    code = MPIX_Allreduce_multi(list, list, 2, 1, MPI_INT, MPI_SUM, w);
    is(MPI_ERR_BUFFER, "buffer 1", "a send buffer that is NULL");
    code = MPIX_Allreduce_multi(list, list, -2, 1, MPI_INT, MPI_SUM, w);
    is(MPI_ERR_COUNT, "nbufs is -2", "a negative number of buffers of a collective");
    code = MPIX_Allreduce_multi(list, list, 1, -1, MPI_INT, MPI_SUM, w);
    is(MPI_ERR_COUNT, "a count is -1", "a negative count");
    code = MPIX_Allreduce_multi(list, list, 1, 1, MPI_INT, MPI_OP_NULL, w);
    is(MPI_ERR_OP, "MPI_OP_NULL", "no operator");
    code = MPIX_Bcast_multi(list, 1, 1, MPI_DATATYPE_NULL, 0, w);
    is(MPI_ERR_TYPE, "MPI_DATATYPE_NULL", "no datatype");
    code = MPIX_Bcast_multi(list, 1, 1, MPI_INT, -3, w);
    is(MPI_ERR_ROOT, "root -3", "a root that is no place");
    MPI_Request early = MPI_REQUEST_NULL;
    if (!has_gpus) {
        code = MPIX_Ibcast_multi(list, 1, 1, MPI_INT, 0, w, &early);
        is(MPI_ERR_OTHER, "must be one that blocks", "a first call that does not block");
    }
    // What only all ranks together can find out is an error on each.
    code = MPIX_Bcast_multi(list, 1, 1, MPI_INT, 2, w);
    is(MPI_ERR_ROOT, "root 2 of 2 places", "a root beyond the places");
    code = MPIX_Bcast_multi(list, 1, 1 + rank, MPI_INT, 0, w);
    is(MPI_ERR_OTHER, "rank 1: MPIX_Bcast_multi number 2 of 8 bytes", "calls that do not match");
    MPI_Request request = MPI_REQUEST_NULL;
    MPIX_Ibcast_multi(list, 1, 1, MPI_INT, rank, w, &request);
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    is(MPI_ERR_OTHER, "root 1", "calls that do not block and do not match");
    void* nothing[] = {nullptr};
    void* const* const lands = rank == 1 ? nothing : list;
    code = MPIX_Reduce_multi(list, lands, 1, 1, MPI_INT, MPI_SUM, 1, w);
    if (rank == 1)
        is(MPI_ERR_BUFFER, "place 1, is NULL", "a root's receive buffer that is NULL");
    value = rank + 1;
    int sum = 0;
    void* to[] = {&sum};
    code = MPIX_Allreduce_multi(list, to, 1, 1, MPI_INT, MPI_SUM, w);
    expect(code == MPI_SUCCESS && sum == 3, "MPIX_Allreduce_multi after the errors");
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Intercomm_create(MPI_COMM_SELF, 0, w, 1 - rank, 9, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    code = MPIX_Allreduce_multi(list, to, 1, 1, MPI_INT, MPI_SUM, inter);
    is(MPI_ERR_COMM, "intercommunicator", "an intercommunicator");
    MPI_Comm_free(&inter);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int number = 40;
    for (int i = 1; i + 1 < argc; ++i)
        if (std::string_view(argv[i]) == "--rounds")
            number = std::atoi(argv[i + 1]);
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("SWY_RANDOM_SEED=%u\n", seed);
    draws.seed(seed);
    has_gpus = std::getenv("VGPU_COUNT") != nullptr;
    rounds(number);
    truncation();
    arguments();
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
