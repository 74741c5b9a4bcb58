// Messages on host memory that the waiter waits for: to send them or to receive them. The other rank sends or receives
// when it has had its large message.
#include "progress.hpp"

namespace progress_test {
namespace {

constexpr int kTag = 7;
constexpr int kMany = 50000;  // integers: too many for an eager message

int* room(Scene& s) {
    s.in.resize(kMany);
    s.out.resize(kMany);
    return s.in.data();
}

// The waiter receives by `wait`, what the other sends.
template <typename Wait>
void receive_by(Scene& s, Wait wait) {
    int* in = room(s);
    if (s.is_other())
        MPI_Send(s.out.data(), 4, MPI_INT, s.waiter, kTag, s.comm);
    if (!s.waits())
        return;
    MPI_Request request[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Irecv(in, 4, MPI_INT, s.other, kTag, s.comm, &request[1]);
    wait(request);
}

// The waiter looks for the message by `look` first.
template <typename Look>
void probe_by(Scene& s, Look look) {
    int* in = room(s);
    if (s.is_other())
        MPI_Send(s.out.data(), 4, MPI_INT, s.waiter, kTag, s.comm);
    if (!s.waits())
        return;
    MPI_Message message = MPI_MESSAGE_NULL;
    look(message);
    if (message == MPI_MESSAGE_NULL)
        MPI_Recv(in, 4, MPI_INT, s.other, kTag, s.comm, MPI_STATUS_IGNORE);
    else
        MPI_Mrecv(in, 4, MPI_INT, &message, MPI_STATUS_IGNORE);
}

// The waiter sends by `send`, what the other receives.
template <typename Send>
void send_by(Scene& s, Send send) {
    int* in = room(s);
    if (s.waits())
        send(s.out.data());
    if (s.is_other())
        MPI_Recv(in, kMany, MPI_INT, s.waiter, kTag, s.comm, MPI_STATUS_IGNORE);
}

void sendrecv(Scene& s) {
    int* in = room(s);
    if (s.waits() || s.is_other())
        MPI_Sendrecv(s.out.data(), kMany, MPI_INT, s.waiter + s.other - s.rank, kTag, in, kMany, MPI_INT,
                     s.waiter + s.other - s.rank, kTag, s.comm, MPI_STATUS_IGNORE);
}
void sendrecv_replace(Scene& s) {
    int* in = room(s);
    if (s.waits() || s.is_other())
        MPI_Sendrecv_replace(in, kMany, MPI_INT, s.waiter + s.other - s.rank, kTag, s.waiter + s.other - s.rank, kTag,
                             s.comm, MPI_STATUS_IGNORE);
}

void detach(Scene& s) {
    send_by(s, [&](const int* out) {
        std::vector<char> buffer(kMany * sizeof(int) + 10000);
        void* back;
        int size;
        MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size()));
        MPI_Bsend(out, kMany, MPI_INT, s.other, kTag, s.comm);
        MPI_Buffer_detach(&back, &size);
    });
}

void persistent(Scene& s) {
    int* in = room(s);
    if (s.is_other())
        MPI_Send(s.out.data(), kMany, MPI_INT, s.waiter, kTag, s.comm);
    if (!s.waits())
        return;
    MPI_Request request;
    MPI_Recv_init(in, kMany, MPI_INT, s.other, kTag, s.comm, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

const Row kRows[] = {
    {"Recv", [](Scene& s) { probe_by(s, [](MPI_Message&) {}); }},
    {"Probe",
     [](Scene& s) { probe_by(s, [&](MPI_Message&) { MPI_Probe(s.other, kTag, s.comm, MPI_STATUS_IGNORE); }); }},
    {"Probe of any source",
     [](Scene& s) { probe_by(s, [&](MPI_Message&) { MPI_Probe(MPI_ANY_SOURCE, kTag, s.comm, MPI_STATUS_IGNORE); }); }},
    {"Mprobe",
     [](Scene& s) { probe_by(s, [&](MPI_Message& m) { MPI_Mprobe(s.other, kTag, s.comm, &m, MPI_STATUS_IGNORE); }); }},
    {"Iprobe in a loop",
     [](Scene& s) {
         probe_by(s, [&](MPI_Message&) {
             for (int found = 0; found == 0;)
                 MPI_Iprobe(s.other, kTag, s.comm, &found, MPI_STATUS_IGNORE);
         });
     }},
    {"Improbe in a loop",
     [](Scene& s) {
         probe_by(s, [&](MPI_Message& m) {
             for (int found = 0; found == 0;)
                 MPI_Improbe(s.other, kTag, s.comm, &found, &m, MPI_STATUS_IGNORE);
         });
     }},
    {"Send",
     [](Scene& s) { send_by(s, [&](const int* out) { MPI_Send(out, kMany, MPI_INT, s.other, kTag, s.comm); }); }},
    {"Ssend", [](Scene& s) { send_by(s, [&](const int* out) { MPI_Ssend(out, 1, MPI_INT, s.other, kTag, s.comm); }); }},
    {"Buffer_detach", detach, nullptr, nullptr, false},
    {"Sendrecv", sendrecv},
    {"Sendrecv_replace", sendrecv_replace},
    {"Start and Wait", persistent},
    {"Wait", [](Scene& s) { receive_by(s, [](MPI_Request* r) { MPI_Wait(&r[1], MPI_STATUS_IGNORE); }); }},
    {"Waitall", [](Scene& s) { receive_by(s, [](MPI_Request* r) { MPI_Waitall(3, r, MPI_STATUSES_IGNORE); }); }},
    {"Waitany",
     [](Scene& s) {
         receive_by(s, [](MPI_Request* r) {
             int index;
             MPI_Waitany(3, r, &index, MPI_STATUS_IGNORE);
         });
     }},
    {"Waitsome",
     [](Scene& s) {
         receive_by(s, [](MPI_Request* r) {
             int indices[3], found;
             MPI_Waitsome(3, r, &found, indices, MPI_STATUSES_IGNORE);
         });
     }},
    {"Test in a loop",
     [](Scene& s) {
         receive_by(s, [](MPI_Request* r) {
             for (int done = 0; done == 0;)
                 MPI_Test(&r[1], &done, MPI_STATUS_IGNORE);
         });
     }},
    {"Testall in a loop",
     [](Scene& s) {
         receive_by(s, [](MPI_Request* r) {
             for (int done = 0; done == 0;)
                 MPI_Testall(3, r, &done, MPI_STATUSES_IGNORE);
         });
     }},
    {"Testany in a loop",
     [](Scene& s) {
         receive_by(s, [](MPI_Request* r) {
             for (int done = 0, index = 0; done == 0;)
                 MPI_Testany(3, r, &index, &done, MPI_STATUS_IGNORE);
         });
     }},
    {"Testsome in a loop",
     [](Scene& s) {
         receive_by(s, [](MPI_Request* r) {
             for (int found = 0, indices[3]; found == 0;)
                 MPI_Testsome(3, r, &found, indices, MPI_STATUSES_IGNORE);
         });
     }},
    {"Request_get_status in a loop",
     [](Scene& s) {
         receive_by(s, [](MPI_Request* r) {
             for (int done = 0; done == 0;)
                 MPI_Request_get_status(r[1], &done, MPI_STATUS_IGNORE);
             MPI_Wait(&r[1], MPI_STATUS_IGNORE);
         });
     }},
};

}  // namespace

std::span<const Row> message_rows() {
    return kRows;
}

}  // namespace progress_test
