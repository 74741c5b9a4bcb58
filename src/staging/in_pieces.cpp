#include "staging/in_pieces.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

#include "comm/where.hpp"
#include "datatype/layout.hpp"
#include "error/error.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "staging/file_ranks.hpp"
#include "staging/staged.hpp"
#include "staging/staging.hpp"

namespace swy::staging {
namespace {

constexpr MPI_Count kPiece = MPI_Count{8} << 20;  // bytes

// The size of the elementary type of the file's view in bytes; 0 where MPI does not tell, or the file has it in another
// size than memory.
MPI_Count elementary_size(MPI_File file) {
    MPI_Offset disp = 0;
    MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_Count size = 0;
    if (real::File_get_view(file, &disp, &types[0], &types[1], representation) != MPI_SUCCESS ||
        real::Type_size_x(types[0], &size) != MPI_SUCCESS)
        return 0;
    for (MPI_Datatype& type : types) {
        int integers = 0, addresses = 0, of = 0, combiner = MPI_COMBINER_NAMED;
        real::Type_get_envelope(type, &integers, &addresses, &of, &combiner);
        if (combiner != MPI_COMBINER_NAMED)
            real::Type_free(&type);
    }
    return std::strcmp(representation, "native") == 0 ? size : 0;
}

// With the file's pointer, a call of another thread might come between two pieces.
bool may_be_interrupted(CallId id) {
    const CallId call = plain(id);
    const bool by_pointer = call == CallId::kFileRead || call == CallId::kFileWrite || call == CallId::kFileReadAll ||
                            call == CallId::kFileWriteAll;
    int level = MPI_THREAD_MULTIPLE;
    real::Query_thread(&level);
    return by_pointer && level == MPI_THREAD_MULTIPLE;
}

bool is_atomic(MPI_File file) {
    int atomic = 1;
    return real::File_get_atomicity(file, &atomic) != MPI_SUCCESS || atomic != 0;
}

// One piece, from the copy of its data to host memory to the copy back.
class Piece {
  public:
    Piece(const Call& call, MPI_Count first, MPI_Count count)
        : operand_(call.operands.front()), staging_(call.id, call.owner) {
        const MPI_Aint extent = datatype::layout_of(operand_.type)->extent;
        operand_.address = static_cast<std::byte*>(operand_.address) + first * extent;
        operand_.count = count;
        Call part = call;
        part.operands = {&operand_, 1};
        failure_ = staging_.prepare(part);
        if (!failure_ && !staging_.none())
            failure_ = staging_.begin_copy_in();
    }

    void await_copy_in() { await(pack::Direction::kToHost); }
    int call(Real real) const { return real(staging_.operands()); }
    void begin_copy_out(bool all) {
        if (!failure_ && !staging_.none())
            failure_ = staging_.begin_copy_out(all);
    }
    void await_copy_out() { await(pack::Direction::kToDevice); }
    const Failure& failure() const { return failure_; }

  private:
    // A copy that has failed is waited for too: the device may use the memory until then.
    void await(pack::Direction direction) {
        for (bool done = staging_.none() || failure_; !done;) {
            const Failure failure = staging_.query(done, direction);
            if (!failure_)
                failure_ = failure;
            if (!done)
                progress::progress();
        }
    }

    Operand operand_;
    Staging staging_;
    Failure failure_;
};

MPI_Count bytes_in(const MPI_Status& status) {
    MPI_Count bytes = 0;
    return real::Get_elements_x(&status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes > 0 ? bytes : 0;
}

// Has the call data, by arguments that MPI accepts?
bool has_data(const Operand& data) {
    return data.count > 0 && data.type != MPI_DATATYPE_NULL && datatype::layout_of(data.type)->size > 0;
}

MPI_Count number_of(const Pieces& pieces, const Operand& data) {
    return (data.count + pieces.elements - 1) / pieces.elements;
}

// Real calls that move nothing, which other ranks wait for. Returns the code of the first that MPI refuses.
int take_part(const Call& call, Real real, MPI_Count rounds) {
    Operand nothing = call.operands.front();
    nothing.address = nullptr;
    nothing.count = 0;
    nothing.type = MPI_BYTE;
    MPI_Status* const programs = std::exchange(call.file->status, MPI_STATUS_IGNORE);
    const MPI_Offset offset = std::exchange(call.file->offset, 0);
    int code = MPI_SUCCESS;
    for (; rounds > 0; --rounds)
        if (const int refused = real(&nothing); code == MPI_SUCCESS)
            code = refused;
    call.file->status = programs;
    call.file->offset = offset;
    return code;
}

}  // namespace

std::optional<Pieces> pieces_of(const Call& call) {
    if (call.file == nullptr || call.owner.file == MPI_FILE_NULL)
        return std::nullopt;
    const Operand& data = call.operands.front();
    if (!has_data(data))  // what is wrong MPI tells
        return std::nullopt;
    const auto size = static_cast<MPI_Count>(datatype::layout_of(data.type)->size);
    if (data.count <= kPiece / size || may_be_interrupted(call.id) || is_atomic(call.owner.file))
        return std::nullopt;
    // A call moves whole elementary types.
    const MPI_Count elementary = elementary_size(call.owner.file);
    if (elementary == 0)
        return std::nullopt;
    const MPI_Count least = elementary / std::gcd(size, elementary);
    const MPI_Count elements = std::max(kPiece / size / least, MPI_Count{1}) * least;
    if (elements >= data.count)
        return std::nullopt;
    return Pieces{elements, elements * size / elementary};
}

int run_in_pieces(const Call& call, Real real, const Pieces& pieces, MPI_Count rounds) {
    const MPI_Count count = call.operands.front().count;
    const auto size = static_cast<MPI_Count>(datatype::layout_of(call.operands.front().type)->size);
    const bool reads = call.operands.front().access == Access::kOut;
    FileAccess& file = *call.file;
    MPI_Status* const programs = file.status;
    MPI_Status own;
    if (programs == MPI_STATUS_IGNORE)
        file.status = &own;
    Failure failure;
    const auto piece_at = [&](MPI_Count first) {
        std::unique_ptr<Piece> made;
        if (first < count)
            try {
                made = std::make_unique<Piece>(call, first, std::min(pieces.elements, count - first));
            } catch (const std::bad_alloc&) {
                failure = {MPI_ERR_NO_MEM, "no host memory to stage device memory with",
                           comm::where(call.id, call.owner)};
            }
        return made;
    };
    int code = MPI_SUCCESS;
    MPI_Count moved = 0, made = 0;
    std::unique_ptr<Piece> last, now = piece_at(0);
    for (MPI_Count first = 0; now != nullptr; first += pieces.elements) {
        now->await_copy_in();
        failure = now->failure();
        if (failure)
            break;
        auto next = piece_at(first + pieces.elements);
        code = now->call(real);
        ++made;
        const MPI_Count here = code == MPI_SUCCESS ? bytes_in(*file.status) : 0;
        moved += here;
        file.offset += pieces.offsets;
        now->begin_copy_out(code == MPI_SUCCESS);
        if (last != nullptr) {
            last->await_copy_out();
            if (!failure)
                failure = last->failure();
        }
        // At a file's end all pieces are read: MPI's pointer moves by what was asked for (MPI 4.0 section 14.4.3).
        const bool goes_on =
            code == MPI_SUCCESS && !failure && (reads || here == std::min(pieces.elements, count - first) * size);
        last = std::exchange(now, goes_on ? std::move(next) : nullptr);
    }
    const int refused = take_part(call, real, rounds - made);
    if (last != nullptr) {
        last->await_copy_out();
        if (!failure)
            failure = last->failure();
    }
    if (code == MPI_SUCCESS)
        code = refused;
    if (code == MPI_SUCCESS)
        real::Status_set_elements_x(file.status, MPI_BYTE, moved);
    file.status = programs;
    return failure && code == MPI_SUCCESS ? error::raise(call, failure.mpi_class, failure.text()) : code;
}

int run_together(const Call& call, Real real, bool staged) {
    const Operand& data = call.operands.front();
    std::optional<Pieces> pieces = staged ? pieces_of(call) : std::nullopt;
    const MPI_Count rounds = greatest_of_ranks(call.owner.file, pieces ? number_of(*pieces, data) : 1);
    if (staged && has_data(data))
        return run_in_pieces(call, real, pieces && rounds > 1 ? *pieces : Pieces{data.count, 0}, rounds);
    const int code = staged ? run(call, real) : real(call);
    const int refused = take_part(call, real, rounds - 1);
    return code == MPI_SUCCESS ? refused : code;
}

}  // namespace swy::staging
