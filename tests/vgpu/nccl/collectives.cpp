// Every collective, datatype and operator, in place and not, on 1 to 5 processes, against arithmetic done here.
#include <cmath>
#include <functional>

#include "elements.hpp"
#include "ranks.hpp"

namespace vgpu::test {
namespace {

// Small whole numbers, so that every type holds every intermediate result exactly; for products powers of two.
double value(int rank, std::size_t index, ncclRedOp_t op) {
    const auto mixed = (index * 7 + static_cast<std::size_t>(rank) * 3) % 3;
    return op == ncclProd ? static_cast<double>(1 + mixed % 2) : static_cast<double>(mixed);
}

std::vector<double> values(int rank, std::size_t count, ncclRedOp_t op, std::size_t first = 0) {
    std::vector<double> all(count);
    for (std::size_t i = 0; i < count; ++i)
        all[i] = value(rank, first + i, op);
    return all;
}

std::vector<double> reduced(int ranks, std::size_t count, ncclDataType_t type, ncclRedOp_t op, std::size_t first = 0) {
    std::vector<double> all(count);
    for (std::size_t i = 0; i < count; ++i) {
        std::vector<double> each;
        for (int rank = 0; rank < ranks; ++rank)
            each.push_back(value(rank, first + i, op));
        all[i] = reduce(type, op, each);
    }
    return all;
}

void expect_near(ncclDataType_t type, const std::vector<double>& got, const std::vector<double>& want,
                 const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], std::fabs(want[i]) * epsilon(type)) << what << ", element " << i;
}

std::vector<double> slice(const std::vector<double>& all, std::size_t from, std::size_t count) {
    return {all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(from + count)};
}

// One collective on one rank: buffers of `send` and `recv` elements, or one buffer with the given offsets.
struct Case {
    ncclDataType_t type;
    std::vector<double> send;
    std::size_t recv_count;
    bool in_place;
    std::size_t send_offset = 0;  // in elements, of the one buffer
    std::size_t recv_offset = 0;
    std::function<ncclResult_t(const void*, void*)> call;
};

std::vector<double> perform(const Case& c, CUstream stream) {
    const std::size_t size = bytes_of(c.type);
    if (!c.in_place) {
        const Memory send(encode(c.type, c.send));
        const Memory recv(encode(c.type, std::vector<double>(c.recv_count, 1)));
        EXPECT_EQ(c.call(send.get(), recv.get()), ncclSuccess) << ncclGetLastError(nullptr);
        EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        EXPECT_EQ(decode(c.type, send.read<unsigned char>()), c.send) << "the send buffer was changed";
        return decode(c.type, recv.read<unsigned char>());
    }
    std::vector<double> all(std::max(c.send_offset + c.send.size(), c.recv_offset + c.recv_count), 1);
    std::copy(c.send.begin(), c.send.end(), all.begin() + static_cast<std::ptrdiff_t>(c.send_offset));
    const Memory buffer(encode(c.type, all));
    EXPECT_EQ(c.call(buffer.at(c.send_offset * size), buffer.at(c.recv_offset * size)), ncclSuccess);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    return slice(decode(c.type, buffer.read<unsigned char>()), c.recv_offset, c.recv_count);
}

constexpr std::size_t kCounts[] = {1, 5, 1030};

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, Reductions_give_the_arithmetic_result_for_every_type_and_operator) {
    run_ranks(GetParam(), [](Rank& self) {
        ncclComm_t comm = self.communicator();
        const int n = self.ranks;
        for (const ncclDataType_t type : kTypes)
            for (const ncclRedOp_t op : kOps)
                for (const std::size_t count : kCounts)
                    for (const bool in_place : {false, true}) {
                        if (n == 1 && op == ncclAvg && type >= ncclFloat8e4m3)
                            continue;  // NCCL has none
                        const int root = static_cast<int>(count) % n;
                        const std::string what = "type " + std::to_string(type) + " op " + std::to_string(op) +
                                                 " count " + std::to_string(count) + (in_place ? " in place" : "");
                        const auto mine = values(self.rank, count, op);
                        const auto all = perform({type, mine, count, in_place, 0, 0,
                                                  [&](const void* s, void* r) {
                                                      return ncclAllReduce(s, r, count, type, op, comm, self.stream);
                                                  }},
                                                 self.stream);
                        expect_near(type, all, reduced(n, count, type, op), "allreduce " + what);
                        const auto at_root =
                            perform({type, mine, count, in_place, 0, 0,
                                     [&](const void* s, void* r) {
                                         void* out = self.rank == root ? r : nullptr;
                                         return ncclReduce(s, out, count, type, op, root, comm, self.stream);
                                     }},
                                    self.stream);
                        if (self.rank == root)
                            expect_near(type, at_root, reduced(n, count, type, op), "reduce " + what);
                        const std::size_t whole = count * static_cast<std::size_t>(n);
                        const std::size_t own = count * static_cast<std::size_t>(self.rank);
                        const auto part =
                            perform({type, values(self.rank, whole, op), count, in_place, 0, own,
                                     [&](const void* s, void* r) {
                                         return ncclReduceScatter(s, r, count, type, op, comm, self.stream);
                                     }},
                                    self.stream);
                        expect_near(type, part, reduced(n, count, type, op, own), "reducescatter " + what);
                        ASSERT_FALSE(testing::Test::HasFailure()) << what;
                    }
        OK(ncclCommDestroy(comm));
    });
}

TEST_P(Collectives, Data_movements_put_every_block_where_it_belongs_for_every_type) {
    run_ranks(GetParam(), [](Rank& self) {
        ncclComm_t comm = self.communicator();
        const auto n = static_cast<std::size_t>(self.ranks);
        const auto me = static_cast<std::size_t>(self.rank);
        // Element i of the block that goes from rank a to rank b.
        const auto block = [](std::size_t a, std::size_t b, std::size_t count) {
            std::vector<double> all(count);
            for (std::size_t i = 0; i < count; ++i)
                all[i] = static_cast<double>((a * 5 + b * 3 + i) % 8);  // exact in every type
            return all;
        };
        const auto join = [&](const std::function<std::vector<double>(std::size_t)>& each) {
            std::vector<double> all;
            for (std::size_t i = 0; i < n; ++i) {
                const auto part = each(i);
                all.insert(all.end(), part.begin(), part.end());
            }
            return all;
        };
        for (const ncclDataType_t type : kTypes)
            for (const std::size_t count : kCounts)
                for (const bool in_place : {false, true}) {
                    const std::size_t root = count % n;
                    const int iroot = static_cast<int>(root);
                    const std::string what = "type " + std::to_string(type) + " count " + std::to_string(count);
                    EXPECT_EQ(
                        perform({type, me == root ? block(root, 0, count) : block(me, 9, count), count, in_place, 0, 0,
                                 [&](const void* s, void* r) {
                                     return ncclBroadcast(s, r, count, type, iroot, comm, self.stream);
                                 }},
                                self.stream),
                        block(root, 0, count))
                        << "broadcast " << what;
                    EXPECT_EQ(perform({type, block(me, 0, count), n * count, in_place, me * count, 0,
                                       [&](const void* s, void* r) {
                                           return ncclAllGather(s, r, count, type, comm, self.stream);
                                       }},
                                      self.stream),
                              join([&](std::size_t i) { return block(i, 0, count); }))
                        << "allgather " << what;
                    EXPECT_EQ(
                        perform({type, join([&](std::size_t i) { return block(me, i, count); }), n * count, false, 0, 0,
                                 [&](const void* s, void* r) {
                                     return ncclAlltoAll(s, r, count, type, comm, self.stream);
                                 }},
                                self.stream),
                        join([&](std::size_t i) { return block(i, me, count); }))
                        << "alltoall " << what;
                    const auto gathered = perform({type, block(me, 1, count), n * count, in_place, me * count, 0,
                                                   [&](const void* s, void* r) {
                                                       return ncclGather(s, r, count, type, iroot, comm, self.stream);
                                                   }},
                                                  self.stream);
                    if (me == root) {
                        EXPECT_EQ(gathered, join([&](std::size_t i) { return block(i, 1, count); }))
                            << "gather " << what;
                    }
                    const bool at_root = me == root;
                    EXPECT_EQ(perform({type, join([&](std::size_t i) { return block(root, i, count); }), count,
                                       in_place && at_root, 0, me * count,
                                       [&](const void* s, void* r) {
                                           return ncclScatter(at_root ? s : nullptr, r, count, type, iroot, comm,
                                                              self.stream);
                                       }},
                                      self.stream),
                              block(root, me, count))
                        << "scatter " << what;
                    ASSERT_FALSE(testing::Test::HasFailure()) << what;
                }
        OK(ncclCommDestroy(comm));
    });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 5));

TEST(CollectiveResults, Have_the_same_bits_on_all_ranks) {
    run_ranks(4, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        std::vector<float> mine(100003);
        for (std::size_t i = 0; i < mine.size(); ++i)
            mine[i] = 1.0f / static_cast<float>(i * 4 + static_cast<std::size_t>(self.rank) + 1);
        const Memory buffer(mine);
        const Memory all(mine.size() * 4 * static_cast<std::size_t>(self.ranks));
        OK(ncclAllReduce(buffer.get(), buffer.get(), mine.size(), ncclFloat, ncclSum, comm, self.stream));
        OK(ncclAllGather(buffer.get(), all.get(), mine.size(), ncclFloat, comm, self.stream));
        CU_OK(cuStreamSynchronize(self.stream));
        const auto own = buffer.read<std::uint32_t>();
        const auto everyones = all.read<std::uint32_t>();
        for (std::size_t i = 0; i < everyones.size(); ++i)
            ASSERT_EQ(everyones[i], own[i % own.size()]) << i;
        OK(ncclCommDestroy(comm));
    });
}

TEST(CollectiveResults, Are_right_for_buffers_much_larger_than_the_transport_holds) {
    run_ranks(4, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        std::vector<std::int64_t> mine((4 << 20) / sizeof(std::int64_t) + 3);
        for (std::size_t i = 0; i < mine.size(); ++i)
            mine[i] = static_cast<std::int64_t>(i) * (self.rank + 1);
        const Memory buffer(mine);
        OK(ncclAllReduce(buffer.get(), buffer.get(), mine.size(), ncclInt64, ncclSum, comm, self.stream));
        CU_OK(cuStreamSynchronize(self.stream));
        const auto got = buffer.read<std::int64_t>();
        for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_EQ(got[i], static_cast<std::int64_t>(i) * 10);
        OK(ncclCommDestroy(comm));
    });
}

TEST(CollectiveResults, Thirty_two_ranks_get_through) {
    Options options;
    options.devices = 32;
    run_ranks(
        32,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            const std::vector<int> mine(32 * 100, self.rank);
            const Memory sum(mine);
            const Memory send(mine);
            const Memory recv(mine.size() * sizeof(int));
            for (int i = 0; i < 5; ++i)
                OK(ncclAllReduce(send.get(), sum.get(), mine.size(), ncclInt, ncclSum, comm, self.stream));
            OK(ncclAlltoAll(send.get(), recv.get(), 100, ncclInt, comm, self.stream));
            CU_OK(cuStreamSynchronize(self.stream));
            EXPECT_EQ(sum.read<int>(), std::vector<int>(3200, 31 * 32 / 2));
            const auto got = recv.read<int>();
            for (std::size_t i = 0; i < 3200; ++i)
                ASSERT_EQ(got[i], static_cast<int>(i / 100));
            OK(ncclCommDestroy(comm));
        },
        options);
}

TEST(CollectiveResults, Collectives_without_elements_need_no_partner) {
    run_ranks(2, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        if (self.rank == 0) {
            OK(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, self.stream));
            CU_OK(cuStreamSynchronize(self.stream));
        }
        OK(ncclCommDestroy(comm));
    });
}

TEST(Rounding, Narrow_types_are_summed_in_float_and_rounded_once_to_nearest_even) {
    run_ranks(3, [](Rank& self) {
        ncclComm_t comm = self.communicator();
        for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2}) {
            // Every finite pattern of an 8-bit type, and as many of a 16-bit one.
            std::vector<double> mine;
            const auto at = [](int rank, int i) {
                return std::ldexp(1.0 + (i * (rank + 3)) % 61 / 64.0, i % 9 - 4) * (i % 2 ? 1 : -1);
            };
            for (int i = 0; i < 4096; ++i)
                mine.push_back(at(self.rank, i));
            const Memory buffer(encode(type, mine));
            OK(ncclAllReduce(buffer.get(), buffer.get(), mine.size(), type, ncclSum, comm, self.stream));
            CU_OK(cuStreamSynchronize(self.stream));
            std::vector<double> want;
            for (int i = 0; i < 4096; ++i) {
                double sum = 0;  // exact: the addends have few bits
                for (int rank = 0; rank < self.ranks; ++rank)
                    sum += decode(type, encode(type, {at(rank, i)}))[0];
                want.push_back(sum);
            }
            const auto got = buffer.read<unsigned char>();
            const auto expected = encode(type, want);
            for (std::size_t i = 0; i < want.size(); ++i)
                ASSERT_EQ(decode(type, got)[i], decode(type, expected)[i]) << "type " << type << " element " << i;
        }
        OK(ncclCommDestroy(comm));
    });
}

}  // namespace
}  // namespace vgpu::test
