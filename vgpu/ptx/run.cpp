// A launch: its blocks, which of them are resident, and in which turn they run.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

constexpr unsigned kBlockTurn = 16384;  // instructions of a block's warps before other blocks run
constexpr unsigned kWarpTurn = 512;
constexpr u64 kThreadsOfMultiprocessor = 2048, kBlocksOfMultiprocessor = 32;
constexpr u32 kLargestStack = 1 << 20;

std::string in_one_line(std::string_view text) {
    std::string line;
    for (const char c : text) {
        const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
        if (!blank || (!line.empty() && line.back() != ' '))
            line += blank ? ' ' : c;
    }
    return line;
}

class Launch {
  public:
    Launch(const Program& program, const Routine& kernel, const Shape& shape, const std::byte* parameters,
           const Surroundings& around) {
        static std::atomic<u64> launches{0};
        grid_.program = &program;
        grid_.kernel = &kernel;
        grid_.around = &around;
        grid_.shape = shape;
        grid_.parameters = parameters;
        grid_.id = ++launches;
        for (unsigned& size : grid_.shape.cluster)
            size = std::max(size, 1u);
        set_constants();
        set_stack();
        blocks_ = u64{shape.grid[0]} * shape.grid[1] * shape.grid[2];
        threads_ = shape.block[0] * shape.block[1] * shape.block[2];
        grid_.threads = blocks_ * threads_;
        const u64 fit = std::clamp<u64>(kThreadsOfMultiprocessor / std::max(threads_, 1u), 1, kBlocksOfMultiprocessor);
        most_resident_ = shape.cooperative ? blocks_ : std::max<u64>(around.multiprocessors, 1) * fit;
    }

    Outcome run() {
        if (threads_ == 0 || blocks_ == 0)
            return {};
        try {
            while (next_ < blocks_ || !resident_.empty())
                if (!round())
                    return {Outcome::Kind::Stopped, grid_.kernel->name + " was stopped"};
        } catch (Fault& fault) {
            return {fault.kind, describe(fault)};
        }
        return {};
    }

  private:
    void set_constants() {
        for (const Constant& constant : grid_.program->constants_) {
            u64 value = constant.value;
            if (constant.kind == Constant::Kind::DynamicShared)
                value += (grid_.kernel->kernel.static_shared_bytes + 15) / 16 * 16;
            else if (constant.kind == Constant::Kind::Variable)
                value += address(grid_.program->variables_[constant.variable].name);
            grid_.constants.insert(grid_.constants.end(), kLanes, value);
        }
    }
    u64 address(const std::string& name) const {
        if (grid_.around->addresses == nullptr)
            return 0;
        const auto found = grid_.around->addresses->find(name);
        return found == grid_.around->addresses->end() ? 0 : found->second;
    }

    // What calls without recursion need is there whatever the limit says, as a driver sets it aside by itself.
    void set_stack() {
        u64 bytes = std::max<u64>(grid_.around->stack_bytes, 256);
        for (const Routine& routine : grid_.program->routines_)
            if (!routine.entry)
                bytes += std::max(routine.frame_bytes, 16u);
        grid_.stack_bytes = static_cast<u32>(std::min<u64>(bytes, kLargestStack)) + grid_.kernel->frame_bytes;
    }

    // Every resident block has its turn. False: the launch is to end.
    bool round() {
        if (grid_.around->stop != nullptr && grid_.around->stop->load(std::memory_order_relaxed))
            return false;
        if (next_ < blocks_ && resident_.size() < most_resident_)
            start();
        bool finished = false, moved = false;
        for (std::size_t i = 0; i < resident_.size();) {
            current_ = resident_[i].get();
            moved |= turn(*current_);
            if (current_->live == 0) {
                finished = true;
                free_.push_back(std::move(resident_[i]));
                resident_[i] = std::move(resident_.back());
                resident_.pop_back();
            } else {
                ++i;
            }
        }
        if (!moved)
            usleep(50);  // all wait for each other for ever, and can only be stopped
        else if (!finished)
            sched_yield();
        return true;
    }

    bool turn(Block& block) {
        const u64 begin = grid_.steps;
        bool any = false;
        while (block.live > 0 && grid_.steps - begin < kBlockTurn) {
            bool moved = false, all_yield = true;
            for (const std::unique_ptr<Warp>& warp : block.warps) {
                current_warp_ = warp.get();
                const bool ran = run_warp(*warp, kWarpTurn);
                moved |= ran;
                all_yield &= !ran || warp->yielded;
            }
            any |= moved;
            if (all_yield)
                break;
        }
        return any;
    }

    void start() {
        if (free_.empty())
            free_.push_back(std::make_unique<Block>());
        std::unique_ptr<Block> block = std::move(free_.back());
        free_.pop_back();
        const unsigned* size = grid_.shape.grid;
        block->grid = &grid_;
        block->id[0] = static_cast<unsigned>(next_ % size[0]);
        block->id[1] = static_cast<unsigned>(next_ / size[0] % size[1]);
        block->id[2] = static_cast<unsigned>(next_ / size[0] / size[1]);
        const std::size_t fixed = (grid_.kernel->kernel.static_shared_bytes + 15) / 16 * 16;
        block->shared.assign(fixed + grid_.shape.dynamic_shared_bytes, std::byte{0});
        block->barriers = {};
        block->threads = block->live = threads_;
        block->warps.resize((threads_ + kLanes - 1) / kLanes);
        for (unsigned i = 0; i < block->warps.size(); ++i)
            start_warp(*block, i);
        resident_.push_back(std::move(block));
        ++next_;
    }

    void start_warp(Block& block, unsigned number) {
        if (block.warps[number] == nullptr)
            block.warps[number] = std::make_unique<Warp>();
        Warp& warp = *block.warps[number];
        const unsigned count = std::min(threads_ - number * kLanes, kLanes);
        warp.grid = &grid_;
        warp.block = &block;
        warp.number = number;
        warp.constants = grid_.constants.data();
        warp.live = warp.runnable = count == kLanes ? kAllLanes : (Mask{1} << count) - 1;
        warp.at_meeting = warp.at_barrier = warp.at_grid_barrier = 0;
        warp.patience = 0;
        warp.pc.fill(grid_.kernel->pc);
        warp.base.fill(0);
        warp.sp.fill(0);
        warp.routine.fill(routine_index());
        warp.ran.fill(grid_.steps);
        warp.carry.fill(0);
        warp.registers.assign(std::size_t{grid_.kernel->slots} * kLanes, 0);
        for (unsigned lane = 0; lane < count; ++lane) {
            warp.frames[lane].clear();
            warp.stacks[lane].assign(grid_.kernel->frame_bytes, std::byte{0});
        }
    }

    u32 routine_index() const {
        const auto& routines = grid_.program->routines_;
        const auto found =
            std::find_if(routines.begin(), routines.end(), [&](const Routine& one) { return &one == grid_.kernel; });
        return static_cast<u32>(found - routines.begin());
    }

    std::string describe(const Fault& fault) const {
        const auto triple = [](const unsigned(&xyz)[3]) {
            return "(" + std::to_string(xyz[0]) + "," + std::to_string(xyz[1]) + "," + std::to_string(xyz[2]) + ")";
        };
        const unsigned* size = grid_.shape.block;
        const unsigned index = current_warp_->number * kLanes + fault.lane;
        const unsigned thread[3] = {index % size[0], index / size[0] % size[1], index / size[0] / size[1]};
        const Source& source = grid_.program->sources_[grid_.program->code_[current_warp_->now].source];
        return grid_.kernel->name + ": block " + triple(current_->id) + ", thread " + triple(thread) + ", line " +
               std::to_string(source.line) + ", \"" + in_one_line(source.text) + "\": " + fault.text;
    }

    Grid grid_;
    u64 blocks_ = 0, next_ = 0, most_resident_ = 1;
    unsigned threads_ = 0;
    std::vector<std::unique_ptr<Block>> resident_, free_;
    Block* current_ = nullptr;
    Warp* current_warp_ = nullptr;
};

}  // namespace

void exit_lanes(Warp& warp, Mask mask) {
    warp.live &= ~mask;
    warp.runnable &= ~mask;
    warp.block->live -= static_cast<unsigned>(__builtin_popcount(mask));
    warp.grid->exited += static_cast<unsigned>(__builtin_popcount(mask));
    check_meetings(warp);
    check_barriers(*warp.block);
}

Outcome run(const Module& module, const Kernel& kernel, const Shape& shape, const std::byte* parameters,
            const Surroundings& surroundings) {
    const Program& program = static_cast<const Program&>(module);
    for (const Routine& routine : program.routines_)
        if (&routine.kernel == &kernel)
            return Launch(program, routine, shape, parameters, surroundings).run();
    return {Outcome::Kind::InvalidPc, "\"" + kernel.name + "\" is no kernel of this module"};
}

}  // namespace vgpu::ptx
