#include "vgpu/cuda/transfer.hpp"

#include <cstring>

#include "vgpu/cuda/capture.hpp"

namespace vgpu::cuda {
namespace {

// Up to this size the driver takes a pageable source into the command stream at once and returns before it is in place.
constexpr std::size_t kInline = 64 << 10;

void perform(char* target, const char* source, const Box& box) {
    for (std::size_t z = 0; z < box.depth; ++z)
        for (std::size_t y = 0; y < box.height; ++y)
            std::memmove(target + z * box.target_slice + y * box.target_pitch,
                         source + z * box.source_slice + y * box.source_pitch, box.width);
}

// The box with its source rows packed, as a staging buffer holds them.
Box packed_source(Box box) {
    box.source_pitch = box.width;
    box.source_slice = box.width * box.height;
    return box;
}

std::shared_ptr<char[]> stage(const char* source, const Box& box) {
    std::shared_ptr<char[]> buffer(new char[box.bytes()]);
    Box pack = box;
    pack.target_pitch = box.width;
    pack.target_slice = box.width * box.height;
    perform(buffer.get(), source, pack);
    return buffer;
}

const char* kind_of(const Side& target, const Side& source) {
    const auto letter = [](const Side& side) { return side.host() ? 0 : side.where == Where::Managed ? 1 : 2; };
    static const char* const kKinds[3][3] = {
        {"HtoH", "HtoM", "HtoD"}, {"MtoH", "MtoM", "MtoD"}, {"DtoH", "DtoM", "DtoD"}};
    if (target.where == Where::Device && source.where == Where::Device && target.device != source.device)
        return "PtoP";
    return kKinds[letter(source)][letter(target)];
}

struct Job {
    const Entry& entry;
    const std::shared_ptr<Stream>& stream;
    const Logged& logged;
    const Side& target;
    const Side& source;

    void wait(const Box& box) const {
        stream->context().run(stream, logged.wrap([&] { perform(target.at, source.at, box); }), entry.hang());
    }
    void submit(const Box& box, bool synchronous) const {
        const auto counted = synchronous ? count_memop(target, source) : nullptr;
        stream->context().submit(stream, Work::Copy, logged.wrap([to = target.at, from = source.at, box, counted] {
            perform(to, from, box);
        }),
                                 {}, entry.hang());
    }
    // A pageable source is the program's again when the call returns, but the bytes need not have arrived: of a large
    // one the last part is still on its way, of a small one all.
    void submit_staged(const Box& box, bool synchronous) const {
        Box tail = box;
        std::size_t head = 0;
        if (box.bytes() > kInline) {
            if (box.height != 1 || box.depth != 1)
                return wait(box);
            head = box.width - kInline;
            tail.width = kInline;
        }
        if (synchronous || head != 0)
            stream->context().run(
                stream, [&] { std::memmove(target.at, source.at, head); }, entry.hang());
        const auto buffer = stage(source.at + head, tail);
        const auto counted = synchronous ? count_memop(target) : nullptr;
        stream->context().submit(stream, Work::Copy,
                                 logged.wrap([to = target.at + head, buffer, box = packed_source(tail), counted] {
                                     perform(to, buffer.get(), box);
                                 }),
                                 {}, entry.hang());
    }
};

}  // namespace

std::size_t Box::span(std::size_t pitch, std::size_t slice) const {
    return width == 0 || height == 0 || depth == 0 ? 0 : (depth - 1) * slice + (height - 1) * pitch + width;
}

std::shared_ptr<void> count_memop(const Side& one, const Side& other) {
    using Count = std::shared_ptr<std::atomic<int>>;
    const auto add = [](const Count& count, int more) {
        if (count != nullptr)
            count->fetch_add(more);
    };
    add(one.memops_under_way, 1);
    add(other.memops_under_way, 1);
    return {nullptr, [add, first = one.memops_under_way, second = other.memops_under_way](void*) {
                add(first, -1);
                add(second, -1);
            }};
}

bool resolve(std::uintptr_t address, std::size_t bytes, Expect expect, Side& side) {
    if (const auto found = allocations().find_range(address, bytes)) {
        side.at = found->alias_of(address);
        side.device = found->device;
        side.sync_memops = found->sync_memops;
        side.memops_under_way = found->memops_under_way;
        side.where = found->page_locked() ? Where::Pinned : found->on_host() ? Where::Managed : Where::Device;
        return found->accessible && !(expect == Expect::Host && side.where == Where::Device);
    }
    if (expect == Expect::Device || address == 0 || may_be_device_address(address) || allocations().find(address))
        return false;
    side = Side{};
    side.at = reinterpret_cast<char*>(address);
    return true;
}

CUresult transfer(const Entry& entry, const std::shared_ptr<Stream>& stream, const Side& target, const Side& source,
                  const Box& box, bool synchronous) {
    if (const CUresult result = admit(stream, synchronous ? Use::NoNode : Use::Node); result != CUDA_SUCCESS)
        return result;
    Fields fields;
    if (log_wanted()) {
        const bool pageable = target.where == Where::Pageable || source.where == Where::Pageable;
        fields.add("bytes", box.bytes())
            .add("kind", kind_of(target, source))
            .add("host", pageable ? "pageable" : "pinned");
    }
    const Logged logged(entry.name(), stream.get(), fields);
    const Job job{entry, stream, logged, target, source};
    logged.launch();
    const bool sync_memops =
        target.sync_memops || source.sync_memops || (stream->context().flags & CU_CTX_SYNC_MEMOPS) != 0;
    if (capturing(stream))  // a node reads and writes where the sides are when it runs
        job.submit(box, false);
    else if ((target.host() && source.host()) || (synchronous && sync_memops) || target.where == Where::Pageable)
        job.wait(box);
    else if (source.where == Where::Pageable)
        job.submit_staged(box, synchronous);
    else if (synchronous && !(target.where == Where::Device && source.where == Where::Device))
        job.wait(box);
    else
        job.submit(box, synchronous);
    return failure_of(stream->context());
}

CUresult copy(const Entry& entry, CUstream given, std::uintptr_t target, Expect expect_target, std::uintptr_t source,
              Expect expect_source, std::size_t bytes, bool synchronous) {
    const auto stream = stream_of(entry, given);
    if (stream == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0)
        return CUDA_SUCCESS;
    Side to;
    Side from;
    if (!resolve(target, bytes, expect_target, to) || !resolve(source, bytes, expect_source, from))
        return CUDA_ERROR_INVALID_VALUE;
    Box box;
    box.width = bytes;
    return transfer(entry, stream, to, from, box, synchronous);
}

}  // namespace vgpu::cuda
