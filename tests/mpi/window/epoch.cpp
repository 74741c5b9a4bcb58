#include "epoch.hpp"

#include <algorithm>
#include <numeric>

#include "../pml.hpp"

namespace window_test {
namespace {

// What MPI_Compare_and_swap mostly expects, and finds.
constexpr int kSwapped = 7;

gpu::Kind window_kind(Dice& own, Windows::Where where) {
    const bool any = where == Windows::Where::kAnywhere || where == Windows::Where::kDynamic;
    if (where == Windows::Where::kDevice)
        return gpu::Kind::kDevice;
    return any ? staged_test::draw_kind(own) : gpu::Kind::kHost;
}

std::vector<std::byte> first_content(int rank) {
    std::vector<std::byte> content(kWindowBytes);
    for (std::size_t i = 0; i < content.size(); ++i)
        content[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank) * 31);
    return content;
}

MPI_Group group_of(const std::vector<int>& ranks) {
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
    MPI_Group_free(&all);
    return some;
}

void copy_from_host(void* to, const void* from, std::size_t bytes) {
    gpu::Driver::get().copy(to, from, bytes);
    gpu::Driver::get().synchronize();
}

}  // namespace

Windows::Windows(Dice& own, Where where) : own_(own), where_(where) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memory_[kReference].emplace_back(gpu::Kind::kHost, first_content(rank));
    create(kReference);
    if (where == Where::kDynamic) {
        create_dynamic();
    } else {
        memory_[kTested].emplace_back(window_kind(own, where), first_content(rank));
        create(kTested);
    }
}

void Windows::create(Side side) {
    void* base = memory_[side].front().address();
    gpu::Driver::get().synchronize();
    if (!allocated()) {
        MPI_Win_create(base, kWindowBytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win[side]);
        return;
    }
    MPI_Win_allocate(kWindowBytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, static_cast<void*>(&base), &win[side]);
    std::memcpy(base, memory_[side].front().address(), kWindowBytes);
    allocated_[side] = base;
    MPI_Barrier(MPI_COMM_WORLD);
}

void Windows::create_dynamic() {
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win[kTested]);
    const std::vector<std::byte> all = first_content(rank);
    for (std::size_t at = 0; at < kWindowBytes; at += kRegionBytes) {
        const auto from = all.begin() + static_cast<std::ptrdiff_t>(at);
        memory_[kTested].emplace_back(window_kind(own_, where_),
                                      std::vector<std::byte>(from, from + static_cast<std::ptrdiff_t>(kRegionBytes)));
        gpu::Driver::get().synchronize();
        MPI_Win_attach(win[kTested], memory_[kTested].back().address(), kRegionBytes);
    }
    exchange_addresses();
}

void Windows::exchange_addresses() {
    std::vector<MPI_Aint> mine(kRegions);
    for (std::size_t i = 0; i < mine.size(); ++i)
        MPI_Get_address(memory_[kTested][i].address(), &mine[i]);
    addresses_.resize(static_cast<std::size_t>(size) * kRegions);
    MPI_Allgather(mine.data(), kRegions, MPI_AINT, addresses_.data(), kRegions, MPI_AINT, MPI_COMM_WORLD);
}

void Windows::reattach() {
    if (where_ != Where::kDynamic)
        return;
    std::vector<gpu::Memory> regions;
    for (gpu::Memory& region : memory_[kTested]) {
        if (!own_.one_in(3)) {
            regions.push_back(std::move(region));
            continue;
        }
        MPI_Win_detach(win[kTested], region.address());
        if (own_.one_in(2)) {
            regions.push_back(std::move(region));
        } else {
            const std::vector<std::byte> content = region.read();
            { const gpu::Memory freed = std::move(region); }  // the next region may have its address
            regions.emplace_back(window_kind(own_, where_), content);
        }
        gpu::Driver::get().synchronize();
        MPI_Win_attach(win[kTested], regions.back().address(), kRegionBytes);
    }
    memory_[kTested] = std::move(regions);
    exchange_addresses();
}

Windows::~Windows() {
    for (MPI_Win& one : win)
        MPI_Win_free(&one);
}

MPI_Aint Windows::displacement(Side side, int target, int slot) const {
    if (target == MPI_PROC_NULL)
        return 0;
    if (side == kReference || where_ != Where::kDynamic)
        return MPI_Aint{slot} * kInts;
    return MPI_Aint_add(addresses_[static_cast<std::size_t>(target * kRegions + slot / kSlotsOfRegion)],
                        slot % kSlotsOfRegion * static_cast<MPI_Aint>(kSlotBytes));
}

void Windows::store(Side side, int slot, const std::vector<int>& values) {
    const std::size_t at = static_cast<std::size_t>(slot) * kSlotBytes, bytes = values.size() * sizeof(int);
    if (allocated()) {
        std::memcpy(static_cast<std::byte*>(allocated_[side]) + at, values.data(), bytes);
        return;
    }
    const std::size_t size_of_one = memory_[side].front().size();
    const gpu::Memory& memory = memory_[side][at / size_of_one];
    if (memory.kind() == gpu::Kind::kHost)
        std::memcpy(memory.at(at % size_of_one), values.data(), bytes);
    else
        copy_from_host(memory.at(at % size_of_one), values.data(), bytes);
}

std::vector<std::byte> Windows::content(Side side) const {
    if (allocated()) {
        const auto* const bytes = static_cast<const std::byte*>(allocated_[side]);
        return {bytes, bytes + kWindowBytes};
    }
    std::vector<std::byte> all;
    for (const gpu::Memory& memory : memory_[side]) {
        const std::vector<std::byte> content = memory.read();
        all.insert(all.end(), content.begin(), content.end());
    }
    return all;
}

std::string Windows::difference() const {
    const std::vector<std::byte> reference = content(kReference), tested = content(kTested);
    for (std::size_t i = 0; i < reference.size(); ++i)
        if (reference[i] != tested[i])
            return std::string("a window of ") +
                   gpu::name(memory_[kTested][i / memory_[kTested].front().size()].kind()) + " memory, byte " +
                   std::to_string(i % kSlotBytes) + " of slot " + std::to_string(i / kSlotBytes) + ": reference " +
                   std::to_string(static_cast<int>(reference[i])) + ", tested " +
                   std::to_string(static_cast<int>(tested[i]));
    return "";
}

Epoch::Epoch(Dice& common, Dice& own, Windows& windows)
    : common_(common), own_(own), windows_(windows), form_(static_cast<Form>(common.below(4))) {
    draw();
}

void Epoch::draw() {
    const auto ranks = static_cast<std::size_t>(windows_.size);
    use_.assign(ranks, std::vector<Use>(kSlots, Use::kFree));
    exposed_.assign(ranks, std::vector<bool>(ranks, true));
    assertions_ = common_.one_in(2);
    shared_ = common_.one_in(2);
    if (form_ == Form::kGroups)
        for (std::vector<bool>& origins : exposed_)
            for (std::size_t o = 0; o < ranks; ++o)
                origins[o] = !common_.one_in(3);
    // What the owners store before others look: slots of their own, and those that will be read or summed into.
    for (int target = 0; target < windows_.size; ++target)
        for (int i = common_.below(4); i > 0; --i) {
            const int slot = common_.below(kSlots);
            std::vector<int> values(static_cast<std::size_t>(1 + common_.below(kInts)));
            for (int& value : values)
                value = common_.below(1000);
            if (target == windows_.rank)
                stores_.emplace_back(slot, std::move(values));
        }
    for (int i = common_.below(14); i > 0; --i)
        draw_action();
    made_.resize(actions_.size());
    for (std::size_t i = 0; i < actions_.size(); ++i)
        if (actions_[i].origin == windows_.rank)
            make_buffers(i);
}

bool Epoch::draw_action() {
    Action a{};
    a.kind = static_cast<Kind>(common_.below(6));
    // Over UCX Open MPI 4.1.4's pt2pt completes neither, with host memory too (docs/debugging.md).
    if ((a.kind == Kind::kGetAccumulate || a.kind == Kind::kFetchAndOp) && mpi_test::over("ucx"))
        return false;
    a.origin = common_.below(windows_.size);
    a.target = common_.below(windows_.size);
    a.slot = common_.below(kSlots);
    const bool one = a.kind == Kind::kFetchAndOp || a.kind == Kind::kCompareAndSwap;
    a.ints = one ? 1 : 1 + common_.below(5);
    a.elements = one ? 1 : common_.one_in(9) ? 0 : 1 + common_.below(kInts / a.ints);
    a.vector = common_.one_in(3) && a.ints * a.elements <= kInts / 2;
    a.request = common_.one_in(2) && !one;
    a.flushed = common_.one_in(2);
    const MPI_Op ops[] = {MPI_SUM, MPI_BXOR, MPI_REPLACE, MPI_NO_OP};
    a.op = ops[common_.below(a.kind == Kind::kAccumulate ? 3 : 4)];
    const bool fetches = a.kind == Kind::kGetAccumulate || a.kind == Kind::kFetchAndOp;
    a.no_origin = fetches && a.op == MPI_NO_OP && common_.one_in(2);
    const bool nobody = common_.one_in(12);
    if (!nobody && !takes(a))
        return false;
    if (nobody)
        a.target = MPI_PROC_NULL;
    else if (a.kind == Kind::kCompareAndSwap && a.target == windows_.rank)
        stores_.emplace_back(a.slot, std::vector<int>{kSwapped});
    actions_.push_back(a);
    return true;
}

// A slot is for one call, for calls that read it, or for calls that add to it.
bool Epoch::takes(const Action& a) {
    const auto target = static_cast<std::size_t>(a.target);
    if (!exposed_[target][static_cast<std::size_t>(a.origin)])
        return false;
    Use& use = use_[target][static_cast<std::size_t>(a.slot)];
    const Use wanted = a.kind == Kind::kGet                             ? Use::kRead
                       : a.kind == Kind::kAccumulate && a.op == MPI_SUM ? Use::kSummed
                                                                        : Use::kExclusive;
    if (use != Use::kFree && (use != wanted || wanted == Use::kExclusive))
        return false;
    use = wanted;
    return true;
}

void Epoch::make_buffers(std::size_t i) {
    const Action& a = actions_[i];
    Made& made = made_[i];
    const bool one = a.kind == Kind::kFetchAndOp || a.kind == Kind::kCompareAndSwap;
    made.view = std::make_unique<View>(one ? View(MPI_INT, false) : staged_test::make_view(own_, a.ints, a.elements));
    const std::vector<staged_test::Segment> segments = {{made.view.get(), 0, a.elements}};
    made.origin = std::make_unique<Buffer>(own_, segments);
    if (a.kind >= Kind::kGetAccumulate)
        made.result = std::make_unique<Buffer>(own_, segments);
    if (a.kind != Kind::kCompareAndSwap)
        return;
    made.compare = std::make_unique<Buffer>(own_, segments);
    if (own_.one_in(3))
        return;
    std::memcpy(made.compare->at(kReference), &kSwapped, sizeof kSwapped);
    copy_from_host(made.compare->at(kTested), &kSwapped, sizeof kSwapped);
}

bool Epoch::touched(int target) const {
    return std::any_of(actions_.begin(), actions_.end(),
                       [target](const Action& a) { return a.target == target && a.kind != Kind::kGet; });
}

void Epoch::expect(bool right, const std::string& what) {
    constexpr const char* kForms[] = {"fence", "post and start", "lock", "lock_all"};
    if (right)
        return;
    std::fprintf(stderr, "rank %d of %d, %s: %s\n", windows_.rank, windows_.size, kForms[static_cast<int>(form_)],
                 what.c_str());
    ++failures;
}

void Epoch::run() {
    for (const Side side : {kReference, kTested})
        run(side);
    for (std::size_t i = 0; i < actions_.size(); ++i)
        expect_results(i, "the epoch");
}

void Epoch::run(Side side) {
    switch (form_) {
        case Form::kFence:
            return run_fence(side);
        case Form::kGroups:
            return run_groups(side);
        case Form::kLocks:
            return run_locks(side);
        case Form::kLockAll:
            return run_lock_all(side);
    }
}

void Epoch::store(Side side) {
    for (const auto& [slot, values] : stores_)
        windows_.store(side, slot, values);
}

void Epoch::run_fence(Side side) {
    MPI_Win win = windows_.win[side];
    store(side);
    int before = 0, after = 0;
    if (assertions_) {
        before = MPI_MODE_NOPRECEDE | (stores_.empty() ? MPI_MODE_NOSTORE : 0) |
                 (touched(windows_.rank) ? 0 : MPI_MODE_NOPUT);
        after = MPI_MODE_NOSUCCEED | MPI_MODE_NOSTORE;
    }
    MPI_Win_fence(before, win);
    for (std::size_t i = 0; i < actions_.size(); ++i)
        call(side, i, false);
    MPI_Win_fence(after, win);
    expect(side == kReference || windows_.difference().empty(), windows_.difference());
}

void Epoch::run_groups(Side side) {
    MPI_Win win = windows_.win[side];
    std::vector<int> origins, targets;
    const auto own = static_cast<std::size_t>(windows_.rank);
    for (int r = 0; r < windows_.size; ++r) {
        if (exposed_[own][static_cast<std::size_t>(r)])
            origins.push_back(r);
        if (exposed_[static_cast<std::size_t>(r)][own])
            targets.push_back(r);
    }
    MPI_Group to = group_of(origins), at = group_of(targets);
    store(side);
    int assertion = 0;
    if (assertions_)
        assertion = (stores_.empty() ? MPI_MODE_NOSTORE : 0) | (touched(windows_.rank) ? 0 : MPI_MODE_NOPUT);
    if (!origins.empty())
        MPI_Win_post(to, assertion, win);
    if (!targets.empty())
        MPI_Win_start(at, 0, win);
    for (std::size_t i = 0; i < actions_.size(); ++i)
        if (!targets.empty())
            call(side, i, false);
    if (!targets.empty())
        MPI_Win_complete(win);
    if (!origins.empty() && shared_) {
        for (int done = 0; done == 0;)
            MPI_Win_test(win, &done);
    } else if (!origins.empty()) {
        MPI_Win_wait(win);
    } else {
        // Stores that no epoch has shown to anybody become visible with the next one.
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, windows_.rank, 0, win);
        MPI_Win_unlock(windows_.rank, win);
    }
    expect(side == kReference || windows_.difference().empty(), windows_.difference());
    MPI_Group_free(&to);
    MPI_Group_free(&at);
    MPI_Barrier(MPI_COMM_WORLD);
}

void Epoch::run_locks(Side side) {
    MPI_Win win = windows_.win[side];
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, windows_.rank, 0, win);
    store(side);
    MPI_Win_unlock(windows_.rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (std::size_t i = 0; i < actions_.size(); ++i)
        if (const Action& a = actions_[i]; a.origin == windows_.rank) {
            const int locked = a.target == MPI_PROC_NULL ? windows_.rank : a.target;
            MPI_Win_lock(shared_ ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, locked, 0, win);
            call(side, i, true);
            MPI_Win_unlock(locked, win);
            if (side == kTested)
                expect_results(i, "MPI_Win_unlock");
        }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, windows_.rank, 0, win);
    expect(side == kReference || windows_.difference().empty(), windows_.difference());
    MPI_Win_unlock(windows_.rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

void Epoch::run_lock_all(Side side) {
    MPI_Win win = windows_.win[side];
    MPI_Win_lock_all(0, win);
    store(side);
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (std::size_t i = 0; i < actions_.size(); ++i)
        if (actions_[i].origin == windows_.rank)
            call(side, i, true);
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    expect(side == kReference || windows_.difference().empty(), windows_.difference());
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
}

void Epoch::call(Side side, std::size_t i, bool passive) {
    const Action& a = actions_[i];
    if (a.origin != windows_.rank)
        return;
    const int ints = a.ints * a.elements;
    MPI_Datatype target_type = MPI_INT;
    if (a.vector) {
        MPI_Type_vector(std::max(ints, 1), 1, 2, MPI_INT, &target_type);
        MPI_Type_commit(&target_type);
    }
    MPI_Request request = MPI_REQUEST_NULL;
    const bool requested = passive && a.request;
    const int code = make(a, made_[i], side, requested ? &request : nullptr, target_type);
    expect(code == MPI_SUCCESS, "the call fails");
    if (requested) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (side == kTested && a.kind != Kind::kPut && a.kind != Kind::kAccumulate)
            expect_results(i, "MPI_Wait");
    } else if (passive && form_ == Form::kLockAll && a.flushed && a.target != MPI_PROC_NULL) {
        flush(a.target, windows_.win[side]);
        if (side == kTested)
            expect_results(i, "a flush");
    }
    if (a.vector)
        MPI_Type_free(&target_type);
}

void Epoch::flush(int target, MPI_Win win) {
    if (!shared_)
        MPI_Win_flush(target, win);
    else if (windows_.allocated())
        MPI_Win_flush_local(target, win);
    else  // Open MPI 4.1.4's "pt2pt" waits for ever in MPI_Win_flush_local where it has calls to other ranks in hand
        MPI_Win_flush_local_all(win);
}

// Makes the call: `elements` of the origin's type, and as many ints at the start of the target's slot.
int Epoch::make(const Action& a, const Made& made, Side side, MPI_Request* request, MPI_Datatype target_type) {
    MPI_Win win = windows_.win[side];
    void* const origin = a.no_origin ? nullptr : made.origin->at(side);
    void* const result = made.result != nullptr ? made.result->at(side) : nullptr;
    const int n = a.elements, count = a.vector ? (n > 0 ? 1 : 0) : n * a.ints;
    const MPI_Datatype type = made.view->type;
    const MPI_Aint at = windows_.displacement(side, a.target, a.slot);
    switch (a.kind) {
        case Kind::kPut:
            return request != nullptr ? MPI_Rput(origin, n, type, a.target, at, count, target_type, win, request)
                                      : MPI_Put(origin, n, type, a.target, at, count, target_type, win);
        case Kind::kGet:
            return request != nullptr ? MPI_Rget(origin, n, type, a.target, at, count, target_type, win, request)
                                      : MPI_Get(origin, n, type, a.target, at, count, target_type, win);
        case Kind::kAccumulate:
            return request != nullptr
                       ? MPI_Raccumulate(origin, n, type, a.target, at, count, target_type, a.op, win, request)
                       : MPI_Accumulate(origin, n, type, a.target, at, count, target_type, a.op, win);
        case Kind::kGetAccumulate:
            return request != nullptr ? MPI_Rget_accumulate(origin, n, type, result, n, type, a.target, at, count,
                                                            target_type, a.op, win, request)
                                      : MPI_Get_accumulate(origin, n, type, result, n, type, a.target, at, count,
                                                           target_type, a.op, win);
        case Kind::kFetchAndOp:
            return MPI_Fetch_and_op(origin, result, MPI_INT, a.target, at, a.op, win);
        case Kind::kCompareAndSwap:
            return MPI_Compare_and_swap(made.origin->at(side), made.compare->at(side), result, MPI_INT, a.target, at,
                                        win);
    }
    return MPI_ERR_OTHER;
}

void Epoch::expect_results(std::size_t i, const char* after) {
    constexpr const char* kNames[] = {
        "MPI_Put", "MPI_Get", "MPI_Accumulate", "MPI_Get_accumulate", "MPI_Fetch_and_op", "MPI_Compare_and_swap"};
    const Action& a = actions_[i];
    if (a.origin != windows_.rank)
        return;
    const Made& made = made_[i];
    const std::string where = std::string(kNames[static_cast<int>(a.kind)]) + (a.request ? " (or its R form)" : "") +
                              " of " + std::to_string(a.elements) + " x " + std::to_string(a.ints) + " ints to rank " +
                              std::to_string(a.target) + ", after " + after + ": ";
    expect(made.origin->same(), where + "origin: " + made.origin->difference());
    expect(made.result == nullptr || made.result->same(),
           where + "result: " + (made.result != nullptr ? made.result->difference() : ""));
    expect(made.compare == nullptr || made.compare->same(), where + "compare: ");
}

}  // namespace window_test
