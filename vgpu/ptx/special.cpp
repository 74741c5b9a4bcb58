// Special registers: PTX ISA, chapter "Special Registers".
#include <chrono>

#include "vgpu/ptx/decode.hpp"
#include "vgpu/ptx/lanes.hpp"

namespace vgpu::ptx {
namespace {

template <class F>
void each(Warp& warp, const Op& op, Mask mask) {
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = F{}(warp, i); });
}

unsigned thread(const Warp& warp, unsigned lane) {
    return warp.number * kLanes + lane;
}

template <unsigned kAxis>
struct ThreadId {
    u64 operator()(const Warp& warp, unsigned lane) const {
        const unsigned* block = warp.grid->shape.block;
        const unsigned index = thread(warp, lane);
        return kAxis == 0 ? index % block[0] : kAxis == 1 ? index / block[0] % block[1] : index / block[0] / block[1];
    }
};
template <unsigned kAxis>
struct BlockSize {
    u64 operator()(const Warp& warp, unsigned) const { return warp.grid->shape.block[kAxis]; }
};
template <unsigned kAxis>
struct BlockId {
    u64 operator()(const Warp& warp, unsigned) const { return warp.block->id[kAxis]; }
};
template <unsigned kAxis>
struct GridSize {
    u64 operator()(const Warp& warp, unsigned) const { return warp.grid->shape.grid[kAxis]; }
};
template <unsigned kAxis>
struct ClusterId {
    u64 operator()(const Warp& warp, unsigned) const { return warp.block->id[kAxis] / warp.grid->shape.cluster[kAxis]; }
};
template <unsigned kAxis>
struct ClusterCount {
    u64 operator()(const Warp& warp, unsigned) const {
        return warp.grid->shape.grid[kAxis] / warp.grid->shape.cluster[kAxis];
    }
};
template <unsigned kAxis>
struct BlockInCluster {
    u64 operator()(const Warp& warp, unsigned) const { return warp.block->id[kAxis] % warp.grid->shape.cluster[kAxis]; }
};
template <unsigned kAxis>
struct ClusterSize {
    u64 operator()(const Warp& warp, unsigned) const { return warp.grid->shape.cluster[kAxis]; }
};

template <template <unsigned> class F>
Handler by_axis(std::string_view component) {
    if (component == "x")
        return each<F<0>>;
    if (component == "y")
        return each<F<1>>;
    return component == "z" ? each<F<2>> : nullptr;
}

u64 cluster_rank(const Warp& warp) {
    const unsigned *id = warp.block->id, *size = warp.grid->shape.cluster;
    return (u64{id[2] % size[2]} * size[1] + id[1] % size[1]) * size[0] + id[0] % size[0];
}
u64 cluster_blocks(const Warp& warp) {
    const unsigned* size = warp.grid->shape.cluster;
    return u64{size[0]} * size[1] * size[2];
}
u64 block_index(const Warp& warp) {
    const unsigned *id = warp.block->id, *grid = warp.grid->shape.grid;
    return (u64{id[2]} * grid[1] + id[1]) * grid[0] + id[0];
}
u64 nanoseconds() {
    return static_cast<u64>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
}

u64 workspace(const Warp& warp) {
    return warp.grid->shape.cooperative ? kWorkspaceWindow : 0;
}

using Reading = u64 (*)(const Warp&, unsigned);
template <Reading kReading>
void read_one(Warp& warp, const Op& op, Mask mask) {
    u64* d = warp.at(op.d);
    lanes(mask, [&](unsigned i) { d[i] = kReading(warp, i); });
}

struct Plain {
    std::string_view name;
    Handler handler;
};
#define READ(expression) \
    read_one<[]([[maybe_unused]] const Warp& warp, [[maybe_unused]] unsigned lane) -> u64 { return (expression); }>
const Plain kPlain[] = {
    {"%laneid", READ(lane)},
    {"%warpid", READ(warp.number)},
    {"%nwarpid", READ(64)},
    {"%smid", READ(block_index(warp) % warp.grid->around->multiprocessors)},
    {"%nsmid", READ(warp.grid->around->multiprocessors)},
    {"%gridid", READ(warp.grid->id)},
    {"%clock", READ(static_cast<u32>(warp.grid->steps))},
    {"%clock_hi", READ(warp.grid->steps >> 32)},
    {"%clock64", READ(warp.grid->steps)},
    {"%globaltimer", READ(nanoseconds())},
    {"%globaltimer_lo", READ(static_cast<u32>(nanoseconds()))},
    {"%globaltimer_hi", READ(nanoseconds() >> 32)},
    {"%lanemask_eq", READ(u64{1} << lane)},
    {"%lanemask_lt", READ((u64{1} << lane) - 1)},
    {"%lanemask_le", READ((u64{2} << lane) - 1)},
    {"%lanemask_gt", READ(static_cast<u32>(~((u64{2} << lane) - 1)))},
    {"%lanemask_ge", READ(static_cast<u32>(~((u64{1} << lane) - 1)))},
    {"%dynamic_smem_size", READ(warp.grid->shape.dynamic_shared_bytes)},
    {"%total_smem_size", READ(warp.grid->shape.dynamic_shared_bytes + warp.grid->kernel->kernel.static_shared_bytes)},
    {"%aggr_smem_size", READ(warp.grid->shape.dynamic_shared_bytes + warp.grid->kernel->kernel.static_shared_bytes)},
    {"%reserved_smem_offset_begin", READ(0)},
    {"%reserved_smem_offset_end", READ(0)},
    {"%reserved_smem_offset_cap", READ(0)},
    // What a driver of CUDA tells a cooperative launch: where the words are by which its blocks wait for each other.
    {"%envreg1", READ(workspace(warp) >> 32)},
    {"%envreg2", READ(static_cast<u32>(workspace(warp)))},
    {"%is_explicit_cluster", READ(cluster_blocks(warp) > 1)},
    {"%cluster_ctarank", READ(cluster_rank(warp))},
    {"%cluster_nctarank", READ(cluster_blocks(warp))},
};
#undef READ

}  // namespace

Handler special_register(std::string_view name, std::string_view component) {
    if (!component.empty()) {
        return name == "%tid"              ? by_axis<ThreadId>(component)
               : name == "%ntid"           ? by_axis<BlockSize>(component)
               : name == "%ctaid"          ? by_axis<BlockId>(component)
               : name == "%nctaid"         ? by_axis<GridSize>(component)
               : name == "%clusterid"      ? by_axis<ClusterId>(component)
               : name == "%nclusterid"     ? by_axis<ClusterCount>(component)
               : name == "%cluster_ctaid"  ? by_axis<BlockInCluster>(component)
               : name == "%cluster_nctaid" ? by_axis<ClusterSize>(component)
                                           : nullptr;
    }
    for (const Plain& plain : kPlain)
        if (plain.name == name)
            return plain.handler;
    return nullptr;
}

}  // namespace vgpu::ptx
