// The staged pipeline: what is sent from memory of every kind and shape arrives in memory of every other, whatever its
// length, and nothing else changes.
// clang-format off
// launch: -n 2 --gpus 2 --plain -x VGPU_JITTER=7
// launch: -n 2 --gpus 1 --plain -x SWITCHYARD_PINNED_POOL=4096
// test-timeout: 240
// clang-format on
#include "transfers.hpp"

namespace {

using namespace transfers;

constexpr std::size_t kChunk = 5000;  // no multiple of what a driver or MPI might like
constexpr std::size_t kSizes[] = {0, 1, kChunk - 1, kChunk, kChunk + 1, 3 * kChunk, 11 * kChunk + 77};

struct End {
    gpu::Kind kind;
    Shape shape;
};
std::vector<End> ends() {
    std::vector<End> all;
    for (gpu::Kind kind : gpu::kKinds)
        for (Shape shape : kShapes)
            all.push_back({kind, shape});
    return all;
}

std::string text(const End& end) {
    return std::string(gpu::name(end.kind)) + " " + name(end.shape);
}

// One message each way at the same time: rank 0's goes from `from` to `to`, rank 1's too.
void exchange(const Job& job, const End& from, const End& to, std::size_t bytes) {
    const std::string what = text(from) + " to " + text(to) + ", " + std::to_string(bytes) + " bytes";
    Buffer source(from.kind, from.shape, bytes), target(to.kind, to.shape, bytes);
    source.memory().write(pattern(source.size(), 1 + job.rank));
    target.memory().write(pattern(target.size(), 3 + job.rank));
    const auto receiving = swy::staging::receive_chunks(target.payload(), bytes, job.route(7));
    const auto sending = swy::staging::send_chunks(source.payload(), bytes, job.route(7));
    finish({receiving.get(), sending.get()}, what);
    expect(receiving->failure().empty() && sending->failure().empty(),
           what + ": " + receiving->failure() + sending->failure());
    std::vector<std::byte> expected = pattern(target.size(), 3 + job.rank);
    for (std::size_t i = 0; i < bytes; ++i)
        expected[target.place(i)] = value(source.place(i), 2 - job.rank);
    expect(target.memory().read() == expected, what + ": wrong data");
    expect(source.memory().read() == pattern(source.size(), 1 + job.rank), what + ": the sender's memory has changed");
}

// Messages of all sizes under way together, each with a tag of its own.
void many_at_once(const Job& job) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<std::unique_ptr<Transfer>> all;
    std::vector<Transfer*> bare;
    for (int i = 0; i < 20; ++i) {
        const std::size_t bytes = kSizes[static_cast<std::size_t>(i) % std::size(kSizes)];
        buffers.push_back(std::make_unique<Buffer>(gpu::kKinds[i % 4], kShapes[i / 4 % 4], bytes));
        Buffer& buffer = *buffers.back();
        const bool sends = (i + job.rank) % 2 == 0;
        buffer.memory().write(pattern(buffer.size(), sends ? i : 100));
        all.push_back(sends ? swy::staging::send_chunks(buffer.payload(), bytes, job.route(i))
                            : swy::staging::receive_chunks(buffer.payload(), bytes, job.route(i)));
        bare.push_back(all.back().get());
    }
    finish(bare, "many at once");
    for (int i = 0; i < 20; ++i) {
        Buffer& buffer = *buffers[static_cast<std::size_t>(i)];
        const std::size_t bytes = kSizes[static_cast<std::size_t>(i) % std::size(kSizes)];
        const bool sends = (i + job.rank) % 2 == 0;
        std::vector<std::byte> expected = pattern(buffer.size(), sends ? i : 100);
        for (std::size_t b = 0; b < bytes && !sends; ++b)
            expected[buffer.place(b)] = value(buffer.place(b), i);
        expect(buffer.memory().read() == expected, "message " + std::to_string(i) + " of many: wrong data");
    }
}

// All lengths between single runs; between other shapes one of them each, in turn.
void every_pair(const Job& job) {
    std::size_t turn = 0;
    for (const End& from : ends())
        for (const End& to : ends()) {
            const bool runs = from.shape == Shape::kRun && to.shape == Shape::kRun;
            for (std::size_t i = 0; i < (runs ? std::size(kSizes) : 1); ++i)
                exchange(job, from, to, kSizes[turn++ % std::size(kSizes)]);
        }
}

}  // namespace

int main(int argc, char** argv) {
    Job job(&argc, &argv);
    Job::set_chunk(kChunk);
    every_pair(job);
    many_at_once(job);
    return failures > 0 ? 1 : 0;
}
