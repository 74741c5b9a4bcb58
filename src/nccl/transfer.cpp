#include "nccl/transfer.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "nccl/communicator.hpp"
#include "nccl/group_call.hpp"
#include "nccl/library.hpp"

namespace swy::nccl {
namespace {

class Transfer final : public Job {
  public:
    Transfer(std::vector<Piece> pieces, bool has_data, std::shared_ptr<const pack::Packed> packed)
        : pieces_(std::move(pieces)), has_data_(has_data), packed_(std::move(packed)) {}

    bool takes_part(std::size_t member) const override {
        return std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.member == member; });
    }
    bool uses_programs_memory() const override { return has_data_; }
    std::uint64_t shape(const Communicator& /*communicator*/) const override { return 0; }

    void add_peers(std::size_t /*launch*/, std::size_t member, const Communicator& /*communicator*/,
                   Peers& peers) const override {
        for (const Piece& piece : pieces_)
            if (piece.member == member)
                (piece.send ? peers.sends : peers.receives).push_back(piece.peer);
    }

    std::string before(std::size_t, std::size_t, const Communicator&, device::Stream& stream) override {
        return packed_ != nullptr && pieces_.front().send ? packed_->pack(stream) : std::string{};
    }
    std::string after(std::size_t, device::Stream& stream) override {
        return packed_ != nullptr && !pieces_.front().send ? packed_->unpack(stream) : std::string{};
    }

    Called call(std::size_t /*launch*/, std::size_t member, const Communicator& communicator,
                device::StreamHandle stream) override {
        const Entries& nccl = *load();
        ncclComm_t comm = communicator.handle(member);
        std::optional<GroupCall> group;
        if (pieces_.size() > 1)
            group.emplace(nccl);
        Called called;
        ncclResult_t last = ncclSuccess;
        for (const Piece& piece : pieces_) {
            if (piece.member != member)
                continue;
            last = piece.send ? nccl.Send(piece.data, piece.bytes, ncclInt8, piece.peer, comm, stream)
                              : nccl.Recv(piece.data, piece.bytes, ncclInt8, piece.peer, comm, stream);
            if (group)
                group->add(last);
            called.bytes += piece.bytes;
            if (has_data_)
                called.name = piece.send ? "ncclSend" : "ncclRecv";
        }
        called.result = group ? group->end() : last;
        return called;
    }

  private:
    const std::vector<Piece> pieces_;
    const bool has_data_;
    const std::shared_ptr<const pack::Packed> packed_;
};

}  // namespace

std::unique_ptr<Job> transfer(std::vector<Piece> pieces, std::shared_ptr<const pack::Packed> packed) {
    return std::make_unique<Transfer>(std::move(pieces), true, std::move(packed));
}

std::unique_ptr<Job> greeting(const std::vector<Piece>& pieces) {
    std::vector<Piece> both;
    for (const Piece& piece : pieces)
        for (const bool send : {true, false})
            both.push_back({.send = send, .member = piece.member, .peer = piece.peer});
    return std::make_unique<Transfer>(std::move(both), false, nullptr);
}

}  // namespace swy::nccl
