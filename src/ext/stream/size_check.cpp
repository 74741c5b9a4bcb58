#include "ext/stream/size_check.hpp"

#include <fmt/format.h>

#include "real.hpp"

namespace swy::stream {
namespace {

constexpr int kTag = 1;

std::string tag_in_words(int tag) {
    return tag == MPI_ANY_TAG ? "any tag" : fmt::format("tag {}", tag);
}

}  // namespace

int SizeCheck::tell(int peer, int tag, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    int done = 1;
    while (!sent_.empty() && done != 0) {
        real::Test(&sent_.front().request, &done, MPI_STATUS_IGNORE);
        if (done != 0)
            sent_.pop_front();
    }
    Sent& sent = sent_.emplace_back();
    sent.word = {bytes, tag, 0};
    return real::Isend(&sent.word, sizeof sent.word, MPI_BYTE, peer, kTag, comm_, &sent.request);
}

void SizeCheck::expect(int peer, int tag, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    peers_[peer].expected.push_back({bytes, tag, 0});
    ++expected_;
}

bool SizeCheck::quiet() {
    const std::scoped_lock lock(mutex_);
    return expected_ == 0;
}

std::string SizeCheck::receive(int rank) {
    const std::scoped_lock lock(mutex_);
    if (expected_ == 0)
        return {};  // records that come early are received when they are expected
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    while (real::Improbe(MPI_ANY_SOURCE, kTag, comm_, &there, &message, &status) == MPI_SUCCESS && there != 0) {
        const int source = status.MPI_SOURCE;
        Word word;
        real::Mrecv(&word, sizeof word, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        peers_[source].received.push_back(word);
    }
    for (auto& [source, peer] : peers_)
        while (!peer.received.empty() && !peer.expected.empty()) {
            --expected_;
            if (std::string difference = compare(source, rank, peer); !difference.empty())
                return difference;
        }
    return {};
}

std::string SizeCheck::compare(int source, int rank, Peer& peer) {
    const Word sent = peer.received.front(), wanted = peer.expected.front();
    peer.received.pop_front();
    peer.expected.pop_front();
    ++peer.compared;
    if (sent.bytes == wanted.bytes && (wanted.tag == sent.tag || wanted.tag == MPI_ANY_TAG))
        return {};
    return fmt::format(
        "message {} from rank {} to rank {} is sent with {} and {} bytes, and received with {} and {} bytes: messages "
        "between two ranks match in the order in which they are enqueued, and have the same tag and size on both ends",
        peer.compared, source, rank, tag_in_words(sent.tag), sent.bytes, tag_in_words(wanted.tag), wanted.bytes);
}

void SizeCheck::finish() {
    const std::scoped_lock lock(mutex_);
    for (Sent& sent : sent_) {
        int done = 0;
        real::Test(&sent.request, &done, MPI_STATUS_IGNORE);
        if (done == 0) {  // a receiver that has failed does not receive it
            real::Cancel(&sent.request);
            real::Wait(&sent.request, MPI_STATUS_IGNORE);
        }
    }
    sent_.clear();
    expected_ = 0;
}

}  // namespace swy::stream
