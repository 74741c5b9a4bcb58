#include "window/direct.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "call/private_comm.hpp"
#include "comm/state.hpp"
#include "comm/where.hpp"
#include "datatype/layout.hpp"
#include "datatype/prefix.hpp"
#include "device/device.hpp"
#include "error/error.hpp"
#include "pack/reduce.hpp"
#include "progress/engine.hpp"
#include "real.hpp"
#include "settings/settings.hpp"
#include "staging/limited_transfer.hpp"
#include "staging/pipeline.hpp"

namespace swy::window {

struct Direct::Exposed {
    device::MemoryHandle handle{};
    std::uint64_t offset = 0;  // in the allocation
    MPI_Aint bytes = 0, disp_unit = 1;
};

namespace {

using Bytes = std::vector<std::byte>;

// This rank's memory, as it can be exposed.
struct Memory {
    bool any = false;       // some of it is on a device
    bool possible = false;  // it can be mapped, or there is none, and this rank can map the others'
    device::Context context = nullptr;
    device::MemoryHandle handle{};
    std::uint64_t offset = 0;
};

Memory examine(const Operand& memory) {
    Memory found;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.address);
    const auto bytes = static_cast<std::uintptr_t>(memory.count);
    const bool works = progress::engine_runs() && device::can_map() && !settings::values().cuda_aware_mpi;
    if (bytes == 0) {
        found.context = device::current_device().context;
        found.possible = works && found.context != nullptr;
        return found;
    }
    const device::Location location = device::locate(memory.address);
    found.any = location.on_device() || device::on_device(static_cast<std::byte*>(memory.address) + bytes - 1);
    found.context = location.context;
    found.offset = begin - location.begin;
    found.possible = works && location.kind == device::Kind::kDevice && location.begin <= begin &&
                     begin + bytes <= location.end && device::name_allocation(location, found.handle) == 0;
    return found;
}

std::shared_ptr<Bytes> memory_of(std::size_t bytes) {
    return std::make_shared<Bytes>(bytes);
}

// These copy with MPI's progress, and return "" or the error.
std::string read(const pack::Payload& from, const std::shared_ptr<Bytes>& into) {
    return staging::complete(staging::pack(from, into->data(), false), into);
}

std::string write(const pack::Payload& to, const std::shared_ptr<Bytes>& from) {
    return staging::complete(staging::unpack(to, std::min(to.bytes, from->size()), from->data(), false), from);
}

std::string copy(const pack::Payload& to, const pack::Payload& from) {
    if (to.in_runs() && from.in_runs())
        return staging::complete(staging::copy(to, from, from.bytes), nullptr);
    const auto packed = memory_of(from.bytes);
    const std::string failure = read(from, packed);
    return failure.empty() ? write(to, packed) : failure;
}

// Combines elements of a predefined type, packed, as MPI_Reduce_local does.
int reduce(const std::byte* with, std::byte* into, std::size_t count, const datatype::Layout& layout, MPI_Op op) {
    if (layout.contiguous)
        return real::Reduce_local(with, into, static_cast<int>(count), layout.element, op);
    // A type with a gap, of those for MPI_MINLOC and MPI_MAXLOC.
    const auto extent = static_cast<std::size_t>(layout.extent);
    Bytes one(count * extent), other(count * extent);
    datatype::set_first_bytes(layout, one.data(), count, {with, count * layout.size});
    datatype::set_first_bytes(layout, other.data(), count, {into, count * layout.size});
    const int code = real::Reduce_local(one.data(), other.data(), static_cast<int>(count), layout.element, op);
    datatype::first_bytes(layout, other.data(), count, {into, count * layout.size});
    return code;
}

// Combines the target's elements with packed ones, on the host.
std::string reduce(const Bytes& with, const pack::Payload& target, MPI_Op op) {
    const auto layout = datatype::layout_of(target.layout->element);
    const std::size_t all = with.size() / layout->size;
    constexpr std::size_t kAtOnce = std::size_t{1} << 20;
    const auto elements = memory_of(with.size());
    std::string failure = read(target, elements);
    for (std::size_t done = 0; done < all && failure.empty(); done += kAtOnce)
        if (reduce(with.data() + done * layout->size, elements->data() + done * layout->size,
                   std::min(kAtOnce, all - done), *layout, op) != MPI_SUCCESS)
            failure = "MPI cannot combine these elements";
    return failure.empty() ? write(target, elements) : failure;
}

// Finds the kernel that combines the target's elements with the origin's on a device. Returns false where none does.
bool find_kernel(const Call& call, const pack::Payload& origin, const pack::Payload& target, pack::Reducing& kernel) {
    const MPI_Datatype element = target.layout->element;
    if (!origin.contiguous || !target.contiguous || element == MPI_DATATYPE_NULL)
        return false;
    const auto count = static_cast<MPI_Count>(target.bytes / datatype::size_of(element));
    const Operand operands[] = {
        {.address = origin.data, .count = count, .type = element, .access = Access::kIn, .shape = Shape::kOne},
        {.address = target.data, .count = count, .type = element, .access = Access::kInOut, .shape = Shape::kOne}};
    const Call local{.id = CallId::kReduceLocal, .owner = call.owner, .operands = operands, .op = call.op};
    return pack::prepare(local, kernel) == Reason::kNone;
}

std::string swap(const pack::Payload& target, const Bytes& compared, const std::shared_ptr<Bytes>& given,
                 const pack::Payload& result) {
    const auto seen = memory_of(target.bytes);
    std::string failure = read(target, seen);
    if (failure.empty() && *seen == compared)
        failure = write(target, given);
    return failure.empty() ? write(result, seen) : failure;
}

// Keeps the accumulates of other ranks to the target away while it lives.
class Exclusive {
  public:
    Exclusive(MPI_Win win, int target)
        : win_(win), target_(target), held_(real::Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win) == MPI_SUCCESS) {}
    ~Exclusive() {
        if (held_)
            real::Win_unlock(target_, win_);
    }
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;
    explicit operator bool() const { return held_; }

  private:
    const MPI_Win win_;
    const int target_;
    const bool held_;
};

// Tells whether the target's data lies within its window, relative to which `disp` is in bytes.
bool lies_within(const datatype::Layout& layout, MPI_Count count, MPI_Aint disp, MPI_Aint bytes) {
    MPI_Aint last = 0, begin = 0, end = 0;
    if (__builtin_mul_overflow(static_cast<MPI_Aint>(count - 1), layout.extent, &last) ||
        __builtin_add_overflow(disp, layout.true_lb + std::min<MPI_Aint>(last, 0), &begin) ||
        __builtin_add_overflow(begin, layout.true_extent + std::max(last, -last), &end))
        return false;
    return begin >= 0 && end <= bytes;
}

// MPI finds what is wrong with the arguments, in a call without data on its own window. It ignores the origin's with
// MPI_NO_OP.
int check(const Call& call) {
    const auto without_data = [](MPI_Count count) { return static_cast<int>(std::min<MPI_Count>(count, 0)); };
    const Target& target = *call.target;
    const int there = without_data(target.count);
    const bool ignored = call.op == MPI_NO_OP;
    const Operand& first = call.operands.front();
    const int count = ignored ? 0 : without_data(first.count);
    const MPI_Datatype type = ignored ? target.type : first.type;
    const MPI_Win win = call.owner.win;
    if (call.op == MPI_OP_NULL)
        return real::Put(nullptr, count, type, call.root, target.disp, there, target.type, win);
    if (call.operands.size() == 1)
        return real::Accumulate(nullptr, count, type, call.root, target.disp, there, target.type, call.op, win);
    const Operand& result = call.operands.back();
    return real::Get_accumulate(nullptr, count, type, nullptr, without_data(result.count), result.type, call.root,
                                target.disp, there, target.type, call.op, win);
}

bool gets(CallId id) {
    return id == CallId::kGet || id == CallId::kRget;
}

bool moves(CallId id) {
    return gets(id) || id == CallId::kPut || id == CallId::kRput;
}

}  // namespace

std::shared_ptr<Direct> Direct::make(const Call& call, int& code) {
    code = MPI_SUCCESS;
    const MPI_Comm comm = call.owner.comm;
    const Operand& memory = call.operands.front();
    const bool valid = comm != MPI_COMM_NULL && memory.count >= 0 && call.made->disp_unit > 0;  // else MPI tells
    comm::State* const state = valid ? comm::of(comm) : nullptr;
    if (state == nullptr || state->inter || state->spans_jobs)
        return nullptr;
    const Memory mine = examine(memory);
    const bool together = state->one_host || state->size == 1;
    const std::array<int, 2> facts{mine.any ? 0 : 1, mine.possible && together ? 1 : 0};
    std::array<int, 2> least{};
    code = real::Allreduce(facts.data(), least.data(), 2, MPI_INT, MPI_MIN, comm);
    if (code != MPI_SUCCESS || least[0] == 1 || least[1] == 0)
        return nullptr;
    std::shared_ptr<Direct> made(new Direct);
    if (call::make_private_comm(comm, &made->comm_) != MPI_SUCCESS)
        return nullptr;
    made->rank_ = state->rank;
    made->own_ = {static_cast<std::byte*>(memory.address), static_cast<MPI_Aint>(memory.count), call.made->disp_unit};
    made->own_unit_ = static_cast<int>(call.made->disp_unit);
    const Exposed told{mine.handle, mine.offset, made->own_.bytes, made->own_.disp_unit};
    std::vector<Exposed> all(static_cast<std::size_t>(state->size));
    code = real::Allgather(&told, sizeof told, MPI_BYTE, all.data(), sizeof told, MPI_BYTE, made->comm_);
    const bool works = code == MPI_SUCCESS && !made->await_program() && made->map(mine.context, all);
    const int mapped = works ? 1 : 0;
    int all_mapped = 0;
    const int agreed = real::Allreduce(&mapped, &all_mapped, 1, MPI_INT, MPI_MIN, made->comm_);
    if (code != MPI_SUCCESS || agreed != MPI_SUCCESS || all_mapped == 0)
        return nullptr;
    // Memory that ranks share, of which Open MPI's one-sided communication has locks and counters that do not wait for
    // the target, and an MPI_Win_start that returns when all have posted.
    void* shared = nullptr;
    code = real::Win_allocate_shared(sizeof(int), 1, MPI_INFO_NULL, made->comm_, &shared, &made->exclusive_);
    if (code == MPI_SUCCESS)
        code = real::Win_allocate_shared(sizeof(int), 1, call.made->info, made->comm_, &shared, call.made->win);
    if (code == MPI_SUCCESS)
        return made;
    code = MPI_SUCCESS;  // this MPI has none, on no rank
    return nullptr;
}

bool Direct::map(device::Context context, const std::vector<Exposed>& all) {
    for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
        const Exposed& other = all[static_cast<std::size_t>(rank)];
        Place& place = places_.emplace_back(Place{own_.data, other.bytes, other.disp_unit});
        if (rank == rank_ || other.bytes == 0)
            continue;
        if (device::Mapping::open(context, other.handle, maps_.emplace_back()) != 0)
            return false;
        place.data = maps_.back().data() + other.offset;
    }
    return true;
}

void Direct::close() {
    if (comm_ == MPI_COMM_NULL)
        return;
    places_.clear();
    int down = 0;
    real::Finalized(&down);
    if (down)
        return;
    device::unmap(std::move(maps_), progress::progress);
    if (exclusive_ != MPI_WIN_NULL)
        real::Win_free(&exclusive_);  // waits for all ranks
    real::Comm_free(&comm_);
}

staging::Failure Direct::await_program() const {
    if (own_.bytes == 0)
        return {};
    pack::Copies copies(pack::Copies::After::kProgram);
    pack::MemoryRanges ranges;
    device::Result result = copies.await_program(ranges.at(reinterpret_cast<std::uintptr_t>(own_.data)));
    if (result == 0)
        result = copies.finish();
    if (result == 0)
        return {};
    return {MPI_ERR_OTHER, fmt::format("waiting for the program's work on the window's device memory failed: {}",
                                       pack::Copies::describe(result))};
}

bool Direct::attribute(int keyval, void*& value) {
    static int created = MPI_WIN_FLAVOR_CREATE, unified = MPI_WIN_UNIFIED;
    if (keyval == MPI_WIN_BASE)
        value = own_.data;
    else if (keyval == MPI_WIN_SIZE)
        value = &own_.bytes;
    else if (keyval == MPI_WIN_DISP_UNIT)
        value = &own_unit_;
    else if (keyval == MPI_WIN_CREATE_FLAVOR)
        value = &created;
    else if (keyval == MPI_WIN_MODEL)
        value = &unified;
    else
        return false;
    return true;
}

int Direct::perform(const Call& call) {
    if (const int code = check(call); code != MPI_SUCCESS)
        return code;
    if (call.root != MPI_PROC_NULL) {
        const Place& place = places_[static_cast<std::size_t>(call.root)];
        const Target& target = *call.target;
        const auto layout = datatype::layout_of(target.type);
        MPI_Aint disp = 0;
        const bool empty = layout->size == 0 || target.count == 0;
        if (!empty && (__builtin_mul_overflow(target.disp, place.disp_unit, &disp) ||
                       !lies_within(*layout, target.count, disp, place.bytes)))
            return error::raise(
                call, MPI_ERR_RMA_RANGE,
                fmt::format("{}: displacement {} with {} elements lies outside the window of rank {}, "
                            "which has {} bytes",
                            comm::where(call.id, call.owner), target.disp, target.count, call.root, place.bytes));
        const Operand operand{.address = place.data + disp,
                              .count = target.count,
                              .type = target.type,
                              .access = Access::kInOut,
                              .shape = Shape::kOne};
        const pack::Payload there = pack::payload_of(call, operand);
        const std::string failure = moves(plain(call.id)) ? move(call, there) : combine(call, there);
        if (!failure.empty())
            return error::raise(call, MPI_ERR_OTHER, comm::where(call.id, call.owner) + ": " + failure);
    }
    if (call.request == nullptr)
        return MPI_SUCCESS;
    return real::Irecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, call.request);  // complete
}

std::string Direct::move(const Call& call, const pack::Payload& target) {
    const pack::Payload origin = pack::payload_of(call, call.operands.front());
    if (origin.bytes != target.bytes)
        return fmt::format("{} bytes at the origin, {} at the target", origin.bytes, target.bytes);
    if (origin.bytes == 0)
        return {};
    return gets(plain(call.id)) ? copy(origin, target) : copy(target, origin);
}

// The calls that read and change their target at once, of which MPI makes each element's one after the other.
std::string Direct::combine(const Call& call, const pack::Payload& target) {
    const bool swaps = plain(call.id) == CallId::kCompareAndSwap, ignores_origin = call.op == MPI_NO_OP;
    const bool reduces = !swaps && !ignores_origin && call.op != MPI_REPLACE;
    pack::Payload origin, result;
    if (!ignores_origin)
        origin = pack::payload_of(call, call.operands.front());
    if (call.operands.size() > 1)
        result = pack::payload_of(call, call.operands.back());
    for (const pack::Payload* other :
         {ignores_origin ? nullptr : &origin, call.operands.size() > 1 ? &result : nullptr})
        if (other != nullptr && other->bytes != target.bytes)
            return fmt::format("{} bytes at the origin, {} at the target", other->bytes, target.bytes);
    if (target.bytes == 0)
        return {};
    pack::Reducing kernel;
    const bool by_kernel = reduces && find_kernel(call, origin, target, kernel);
    const auto given = memory_of((reduces && !by_kernel) || swaps ? target.bytes : 0);
    const auto compared = memory_of(swaps ? target.bytes : 0);
    std::string failure = given->empty() ? "" : read(origin, given);
    if (failure.empty() && swaps)
        failure = read(pack::payload_of(call, call.operands[1]), compared);
    if (!failure.empty())
        return failure;
    const std::scoped_lock one_at_a_time(accumulates_);
    const Exclusive alone(exclusive_, call.root);
    if (!alone)
        return "MPI cannot lock the target";
    if (swaps)
        return swap(target, *compared, given, result);
    if (result.bytes != 0)
        failure = copy(result, target);
    if (!failure.empty() || ignores_origin)
        return failure;
    return !reduces ? copy(target, origin) : by_kernel ? pack::run(kernel) : reduce(*given, target, call.op);
}

}  // namespace swy::window
