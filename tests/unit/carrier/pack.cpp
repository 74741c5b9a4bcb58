// Parts of packed messages against the standard's type maps, written out byte by byte, and against MPI_Pack, in memory
// of every kind, by copies and by kernels.
#include "pack/pack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "../../random_seed.hpp"
#include "datatype/random_type.hpp"
#include "device/virtual_gpus.hpp"
#include "pack/part.hpp"
#include "staging/pipeline.hpp"

namespace {

using swy::datatype::Block;
using swy::datatype::Layout;
using swy::datatype::layout_of;
using swy::pack::Direction;
using swy::pack::Packer;
using swy::pack::Parts;

// Where the bytes of `count` elements lie, in type map order.
std::vector<MPI_Aint> type_map(const model::Type& type, int count) {
    std::vector<MPI_Aint> where;
    const MPI_Aint extent = type.extent();
    for (int i = 0; i < count; ++i)
        for (MPI_Aint byte : type.where)
            where.push_back(i * extent + byte);
    return where;
}

// What a part says of its bytes: the place in memory of each byte of its packed form.
std::vector<MPI_Aint> written_out(const Layout& part) {
    constexpr MPI_Aint kNothing = INT64_MIN;
    std::vector<MPI_Aint> where(part.size, kNothing);
    for (const Block& block : part.blocks) {
        std::vector<std::pair<MPI_Aint, std::size_t>> runs{{block.offset, block.packed}};
        for (const auto& dim : part.dims_of(block)) {
            std::vector<std::pair<MPI_Aint, std::size_t>> more;
            for (std::size_t i = 0; i < dim.count; ++i)
                for (const auto& [offset, packed] : runs)
                    more.emplace_back(offset + static_cast<MPI_Aint>(i) * dim.stride, packed + i * dim.packed_stride);
            runs = std::move(more);
        }
        for (const auto& [offset, packed] : runs)
            for (std::size_t i = 0; i < block.length; ++i) {
                EXPECT_EQ(where.at(packed + i), kNothing) << "two bytes of data at one place of the packed form";
                where.at(packed + i) = offset + static_cast<MPI_Aint>(i);
            }
    }
    return where;
}

TEST(Parts, Are_the_bytes_of_the_type_map_from_and_to_anywhere) {
    for (unsigned seed = random_seed(), end = seed + 2000; seed < end && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("SWY_RANDOM_SEED=" + std::to_string(seed));
        model::Maker maker(seed);
        const model::Type type = maker.make(maker.below(5));
        const int count = maker.below(5);
        const std::vector<MPI_Aint> where = type_map(type, count);
        Parts parts(layout_of(type.handle), static_cast<std::size_t>(count));
        for (int round = 0; round < 8; ++round) {
            const std::size_t from = static_cast<std::size_t>(maker.below(static_cast<int>(where.size()) + 1));
            const std::size_t n = static_cast<std::size_t>(maker.below(static_cast<int>(where.size() - from) + 1));
            const std::vector<MPI_Aint> expected(where.begin() + static_cast<std::ptrdiff_t>(from),
                                                 where.begin() + static_cast<std::ptrdiff_t>(from + n));
            ASSERT_EQ(written_out(parts.cut(from, n)), expected)
                << count << " elements, [" << from << ", +" << n << ")";
        }
    }
}

// However many runs there are, a part of regular ones is a few blocks.
TEST(Parts, Of_a_regular_type_are_few_blocks) {
    MPI_Datatype vector, pair, pairs;
    MPI_Type_vector(1000000, 1, 3, MPI_DOUBLE, &vector);
    Parts columns(layout_of(vector), 50);
    EXPECT_LE(columns.cut(12345, 20 * 8000000 + 77).blocks.size(), 7u);
    const int lengths[] = {1, 1};
    const MPI_Aint at[] = {0, 8};
    const MPI_Datatype members[] = {MPI_CHAR, MPI_INT};
    MPI_Type_create_struct(2, lengths, at, members, &pair);
    MPI_Type_contiguous(1000000, pair, &pairs);
    Parts structures(layout_of(pairs), 3);
    EXPECT_LE(structures.cut(1234567, 9000000).blocks.size(), 10u);
    for (MPI_Datatype* type : {&vector, &pair, &pairs})
        MPI_Type_free(type);
}

// Beyond 2^32, where the type map cannot be written out: rows of 3 bytes every 8, elements of 2^20 rows.
TEST(Parts, Far_into_a_message_are_where_arithmetic_says) {
    constexpr std::size_t kRows = 1 << 20, kFrom = 3 * kRows * 5000 + 3 * 77 + 1;
    MPI_Datatype rows, element;
    MPI_Type_create_hvector(kRows, 3, 8, MPI_BYTE, &rows);
    MPI_Type_create_resized(rows, 0, 10 * kRows, &element);
    Parts parts(layout_of(element), 10000);
    std::vector<MPI_Aint> expected;
    for (std::size_t i = 1; i < 10; ++i)
        expected.push_back(static_cast<MPI_Aint>(5000 * 10 * kRows + (77 + i / 3) * 8 + i % 3));
    EXPECT_EQ(written_out(parts.cut(kFrom, 9)), expected);
    MPI_Type_free(&rows);
    MPI_Type_free(&element);
}

std::byte value_at(std::size_t i, unsigned salt) {
    return static_cast<std::byte>((i * 0x9e3779b97f4a7c15u + salt * 0xd1b54a32d192ed03u) >> 56);
}
std::vector<std::byte> pattern(std::size_t bytes, unsigned salt) {
    std::vector<std::byte> made(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        made[i] = value_at(i, salt);
    return made;
}

enum class Kind { kHost, kDevice, kManaged };

class Memory {
  public:
    Memory(Kind kind, std::size_t bytes) : kind_(kind), bytes_(bytes) {
        CUdeviceptr address = 0;
        if (kind == Kind::kDevice) {
            EXPECT_EQ(cu(cuMemAlloc)(&address, bytes + 1), CUDA_SUCCESS);
        } else if (kind == Kind::kManaged) {
            EXPECT_EQ(cu(cuMemAllocManaged)(&address, bytes + 1, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
        }
        data = kind == Kind::kHost ? static_cast<std::byte*>(std::malloc(bytes + 1))
                                   : reinterpret_cast<std::byte*>(address);
    }
    ~Memory() {
        if (kind_ == Kind::kHost)
            std::free(data);
        else
            cu(cuMemFree)(device());
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    void write(const std::vector<std::byte>& content) {
        if (kind_ == Kind::kHost)
            std::copy(content.begin(), content.end(), data);
        else
            ASSERT_EQ(cu(cuMemcpyHtoD)(device(), content.data(), content.size()), CUDA_SUCCESS);
        // The copy may still be on its way in this context, which need not be the memory's own.
        MUST(cu(cuCtxSynchronize)());
    }
    std::vector<std::byte> read() const {
        std::vector<std::byte> content(bytes_);
        if (kind_ == Kind::kHost)
            std::copy_n(data, bytes_, content.begin());
        else
            EXPECT_EQ(cu(cuMemcpyDtoH)(content.data(), device(), bytes_), CUDA_SUCCESS);
        return content;
    }
    std::byte* data = nullptr;

  private:
    CUdeviceptr device() const { return reinterpret_cast<CUdeviceptr>(data); }
    Kind kind_;
    std::size_t bytes_;
};

// Page-locked host memory, which kernels pack into.
class Locked {
  public:
    explicit Locked(std::size_t bytes) {
        void* address = nullptr;
        EXPECT_EQ(cu(cuMemHostAlloc)(&address, bytes, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
        data = static_cast<std::byte*>(address);
    }
    ~Locked() { cu(cuMemFreeHost)(data); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    std::byte* data = nullptr;
};

swy::pack::Payload payload_at(void* address, int count, MPI_Datatype type) {
    swy::Operand operand;
    operand.address = address;
    operand.count = count;
    operand.type = type;
    return swy::pack::payload_of(swy::Call{}, operand);
}

template <typename Ask>
void poll(Ask ask) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (bool done = false; !done; std::this_thread::yield()) {
        ASSERT_EQ(ask(done), 0);
        ASSERT_LT(std::chrono::steady_clock::now(), end);
    }
}

class Packing : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        setenv("VGPU_JITTER", "5", 0);
        ASSERT_NE(VirtualGpus::library(), nullptr) << dlerror();
        ASSERT_TRUE(swy::device::adopt_loaded_driver());
        MUST(cu(cuInit)(0));
        for (int device = 1; device >= 0; --device) {
            MUST(cu(cuDevicePrimaryCtxRetain)(&contexts_[device], device));
            MUST(cu(cuCtxSetCurrent)(contexts_[device]));
        }
    }
    static void TearDownTestSuite() {
        swy::device::release_pools();
        for (int device = 0; device < 2; ++device)
            MUST(cu(cuDevicePrimaryCtxRelease)(device));
    }

    // All of the payload in parts of random sizes: in page-locked memory with any alignment, where kernels may pack, or
    // in pageable memory, where only copies may.
    static void run(Direction direction, const swy::pack::Payload& payload, std::vector<std::byte>& packed, bool locked,
                    model::Maker& maker) {
        if (!locked)
            return run_at(direction, payload, packed.data(), packed.size(), maker);
        const Locked pages(packed.size() + 16);
        std::byte* const host = pages.data + maker.below(16);
        std::copy(packed.begin(), packed.end(), host);
        run_at(direction, payload, host, packed.size(), maker);
        std::copy_n(host, packed.size(), packed.begin());
    }

    static void run_at(Direction direction, const swy::pack::Payload& payload, std::byte* packed, std::size_t bytes,
                       model::Maker& maker) {
        Packer packer(payload, bytes);
        poll([&](bool& ready) { return packer.prepare(ready); });
        for (std::size_t from = 0; from < bytes;) {
            const std::size_t n = 1 + static_cast<std::size_t>(maker.below(static_cast<int>(bytes - from)));
            ASSERT_EQ(packer.start(direction, from, n, packed + from), 0);
            poll([&](bool& done) { return packer.query(done); });
            from += n;
        }
    }

    static CUcontext contexts_[2];
};
CUcontext Packing::contexts_[2];

// A random type over a block of memory that begins `low` bytes before the address that MPI gets.
struct Case {
    Case(unsigned seed) : maker(seed), type(maker.make(maker.below(5))), count(maker.below(4)) {
        where = type_map(type, count);
        if (where.empty())
            return;
        const auto [first, last] = std::minmax_element(where.begin(), where.end());
        low = *first;
        span = static_cast<std::size_t>(*last - low) + 1;
    }
    bool overlapping() const { return std::set(where.begin(), where.end()).size() != where.size(); }
    std::size_t index(std::size_t packed) const { return static_cast<std::size_t>(where[packed] - low); }

    model::Maker maker;
    model::Type type;
    int count;
    std::vector<MPI_Aint> where;
    MPI_Aint low = 0;
    std::size_t span = 0;
};

// Open MPI 5.0 packs some random structures from other places than it was told (tests/unit/datatype/layout.cpp).
constexpr bool kPackIsReliable = OMPI_MAJOR_VERSION < 5;

// One by one: Open MPI 4.1.4 packs the second of two elements from right behind the first where a member without data
// makes their extent (two shorts at -8 and an empty type at 171).
std::vector<std::byte> packed_by_mpi(const Case& random, const std::vector<std::byte>& content) {
    std::vector<std::byte> packed(random.where.size() + 1);
    const std::byte* element = content.data() - random.low;
    int position = 0;
    for (int i = 0; i < random.count; ++i, element += random.type.extent())
        MPI_Pack(element, 1, random.type.handle, packed.data(), static_cast<int>(packed.size()), &position,
                 MPI_COMM_SELF);
    packed.resize(static_cast<std::size_t>(position));
    return packed;
}

TEST_F(Packing, In_parts_is_what_MPI_Pack_makes_of_the_whole) {
    for (unsigned seed = random_seed(), end = seed + 150; seed < end && !HasFailure(); ++seed) {
        SCOPED_TRACE("SWY_RANDOM_SEED=" + std::to_string(seed));
        Case random(seed);
        const std::vector<std::byte> content = pattern(random.span, seed);
        for (Kind kind : {Kind::kHost, Kind::kDevice, Kind::kManaged}) {
            Memory memory(kind, content.size());
            memory.write(content);
            const auto payload = payload_at(memory.data - random.low, random.count, random.type.handle);
            EXPECT_EQ(payload.device, kind != Kind::kHost && !random.where.empty());
            ASSERT_EQ(payload.bytes, random.where.size());
            for (bool locked : {false, true}) {
                std::vector<std::byte> packed(payload.bytes);
                run(Direction::kToHost, payload, packed, locked, random.maker);
                for (std::size_t i = 0; i < packed.size(); ++i)
                    ASSERT_EQ(packed[i], content[random.index(i)]) << "byte " << i;
                if (kPackIsReliable) {
                    EXPECT_EQ(packed, packed_by_mpi(random, content));
                }
            }
        }
    }
}

TEST_F(Packing, To_the_program_s_memory_changes_the_data_and_nothing_else) {
    for (unsigned seed = random_seed(), end = seed + 150; seed < end && !HasFailure(); ++seed) {
        SCOPED_TRACE("SWY_RANDOM_SEED=" + std::to_string(seed));
        Case random(seed);
        if (random.overlapping())  // may not be received into
            continue;
        std::vector<std::byte> packed = pattern(random.where.size(), seed);
        std::vector<std::byte> expected = pattern(random.span, seed + 1);
        for (std::size_t i = 0; i < packed.size(); ++i)
            expected[random.index(i)] = packed[i];
        for (Kind kind : {Kind::kHost, Kind::kDevice, Kind::kManaged})
            for (bool locked : {false, true}) {
                Memory memory(kind, random.span);
                memory.write(pattern(random.span, seed + 1));
                run(Direction::kToDevice, payload_at(memory.data - random.low, random.count, random.type.handle),
                    packed, locked, random.maker);
                ASSERT_EQ(memory.read(), expected);
            }
    }
}

// Under MPI_BOTTOM one message may have data in host memory and on two devices (MPI 4.0 section 5.1.12), in one run or
// in rows short enough for kernels, which may not follow from one memory into another.
TEST_F(Packing, Takes_pieces_on_the_host_and_on_two_devices_together) {
    constexpr int kRows = 750, kWidth = 4, kBytes = kRows * kWidth;
    for (const int stride : {kWidth, 3 * kWidth})
        for (const bool locked : {false, true}) {
            const std::size_t span = static_cast<std::size_t>(kRows) * static_cast<std::size_t>(stride);
            Memory host(Kind::kHost, span), first(Kind::kDevice, span);
            MUST(cu(cuCtxSetCurrent)(contexts_[1]));
            Memory second(Kind::kDevice, span);
            MUST(cu(cuCtxSetCurrent)(contexts_[0]));
            Memory* const all[] = {&second, &host, &first};
            MPI_Aint at[3];
            const int lengths[] = {1, 1, 1};
            for (int i = 0; i < 3; ++i) {
                all[i]->write(pattern(span, static_cast<unsigned>(i)));
                at[i] = reinterpret_cast<MPI_Aint>(all[i]->data);
            }
            MPI_Datatype rows, type;
            MPI_Type_create_hvector(kRows, kWidth, stride, MPI_BYTE, &rows);
            MPI_Type_create_hindexed(3, lengths, at, rows, &type);
            MPI_Type_commit(&type);
            const auto payload = payload_at(MPI_BOTTOM, 1, type);
            EXPECT_TRUE(payload.device);
            EXPECT_FALSE(payload.contiguous);
            EXPECT_EQ(payload.where.context, contexts_[1]);
            EXPECT_EQ(payload.where.ordinal, 1);
            const auto place = [stride](std::size_t i) {
                return i % kBytes / kWidth * static_cast<std::size_t>(stride) + i % kWidth;
            };
            model::Maker maker(1);
            std::vector<std::byte> packed(payload.bytes);
            run(Direction::kToHost, payload, packed, locked, maker);
            for (std::size_t i = 0; i < packed.size(); ++i)
                ASSERT_EQ(packed[i], value_at(place(i), static_cast<unsigned>(i / kBytes))) << i;
            std::vector<std::byte> other = pattern(payload.bytes, 9);
            run(Direction::kToDevice, payload, other, locked, maker);
            for (std::size_t m = 0; m < 3; ++m) {
                std::vector<std::byte> expected = pattern(span, static_cast<unsigned>(m));
                for (std::size_t i = 0; i < kBytes; ++i)
                    expected[place(i)] = other[m * kBytes + i];
                ASSERT_EQ(all[m]->read(), expected);
            }
            MPI_Type_free(&type);
            MPI_Type_free(&rows);
        }
}

TEST_F(Packing, Is_by_kernels_wherever_there_are_some) {
    swy::device::Stream lane;
    ASSERT_EQ(swy::device::Stream::acquire(contexts_[0], lane), 0);
    EXPECT_EQ(lane.has_kernels(), swy::device::kernels_built());
}

void finish(swy::staging::Transfer& transfer) {
    poll([&](bool& done) {
        transfer.step();
        done = transfer.done();
        return 0;
    });
    EXPECT_EQ(transfer.failure(), "");
}

TEST_F(Packing, Of_a_received_message_is_undone_in_the_program_s_memory) {
    for (unsigned seed = random_seed(), end = seed + 50; seed < end && !HasFailure(); ++seed) {
        SCOPED_TRACE("SWY_RANDOM_SEED=" + std::to_string(seed));
        Case random(seed);
        if (random.overlapping())
            continue;
        const std::vector<std::byte> packed = pattern(random.where.size(), seed);
        const auto received = static_cast<std::size_t>(random.maker.below(static_cast<int>(packed.size()) + 1));
        for (Kind kind : {Kind::kHost, Kind::kDevice, Kind::kManaged}) {
            Memory memory(kind, random.span);
            std::vector<std::byte> expected = pattern(random.span, seed + 1);
            memory.write(expected);
            const auto payload = payload_at(memory.data - random.low, random.count, random.type.handle);
            finish(*swy::staging::unpack(payload, received, packed.data(), seed % 2 == 0));
            for (std::size_t i = 0; i < received; ++i)
                expected[random.index(i)] = packed[i];
            ASSERT_EQ(memory.read(), expected);
        }
    }
}

// More than the pieces in which pageable memory is copied, and between devices of which neither is the current one.
TEST_F(Packing, Is_not_needed_to_copy_a_run_to_a_run) {
    constexpr int kBytes = (9 << 20) + 5, kTaken = kBytes - 1000;
    for (Kind from : {Kind::kHost, Kind::kDevice, Kind::kManaged})
        for (Kind to : {Kind::kHost, Kind::kDevice, Kind::kManaged}) {
            Memory source(from, kBytes);
            MUST(cu(cuCtxSetCurrent)(contexts_[1]));
            Memory target(to, kBytes);
            source.write(pattern(kBytes, 1));
            target.write(pattern(kBytes, 2));
            MUST(cu(cuCtxSetCurrent)(nullptr));
            finish(*swy::staging::copy(payload_at(target.data, kBytes, MPI_BYTE),
                                       payload_at(source.data, kBytes, MPI_BYTE), kTaken));
            MUST(cu(cuCtxSetCurrent)(contexts_[0]));
            std::vector<std::byte> expected = pattern(kBytes, 2);
            for (std::size_t i = 0; i < kTaken; ++i)
                expected[i] = value_at(i, 1);
            ASSERT_TRUE(target.read() == expected) << static_cast<int>(from) << " to " << static_cast<int>(to);
        }
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    MPI_Init(&argc, &argv);
    const int failed = RUN_ALL_TESTS();
    swy::datatype::release();
    MPI_Finalize();
    return failed;
}
