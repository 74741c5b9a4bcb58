// The same source on the engine, by way of nvcc, and on the host. KERNELS_PTX and LIBRARY_PTX name what nvcc made of
// kernels.cu and of Switchyard's own kernels; without nvcc there is neither, and nothing to test.
#include <numeric>
#include <random>

#include "datatype/reduce_work.hpp"
#include "tests/random_seed.hpp"
#include "tests/vgpu/ptx/fixture.hpp"
#include "tests/vgpu/ptx/formulas.hpp"

namespace vgpu::ptx {
namespace {

constexpr unsigned kCount = 1000;

template <class T>
bool same(T a, T b) {
    return a != a ? b != b : std::memcmp(&a, &b, sizeof a) == 0;
}

// Numbers of all magnitudes, with a share of small and special ones.
template <class T>
T number(std::mt19937_64& random) {
    const std::uint64_t bits = random();
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(bits >> (bits % 3 == 0 ? 54 : 0));
    } else {
        static constexpr T kSpecial[] = {T(0),
                                         T(-0.0),
                                         T(1),
                                         T(-1),
                                         std::numeric_limits<T>::infinity(),
                                         std::numeric_limits<T>::denorm_min(),
                                         std::numeric_limits<T>::quiet_NaN(),
                                         std::numeric_limits<T>::max()};
        return bits % 16 == 0 ? kSpecial[bits / 16 % 8]
                              : static_cast<T>(static_cast<std::int64_t>(bits)) / T(1ull << 40 << bits % 24);
    }
}

template <class T, class F>
void compare(Device& device, const char* name, std::mt19937_64& random, F formula) {
    std::vector<T> in(formulas::kIn * kCount), out(formulas::kOut * kCount), expected(formulas::kOut);
    for (T& one : in)
        one = number<T>(random);
    if constexpr (std::is_floating_point_v<T>)
        for (unsigned i = 3; i < in.size(); i += formulas::kIn)
            in[i] = std::fabs(in[i]) < T(1e9) ? in[i] : T(12.5);  // is made an integer, which C++ leaves undefined else
    EXPECT_DONE(device.launch(name, (kCount + 127) / 128, 128, device.memory.add(in), device.memory.add(out), kCount));
    for (unsigned i = 0; i < kCount; ++i) {
        formula(&in[formulas::kIn * i], expected.data());
        for (unsigned k = 0; k < formulas::kOut; ++k)
            ASSERT_TRUE(same(out[formulas::kOut * i + k], expected[k]))
                << name << ", result " << k << " of " << in[4 * i] << " " << in[4 * i + 1] << " " << in[4 * i + 2]
                << " " << in[4 * i + 3] << ": " << out[formulas::kOut * i + k] << " for " << expected[k];
    }
}

std::mt19937_64 seeded() {
    const unsigned seed = random_seed();
    std::cout << "SWY_RANDOM_SEED=" << seed << "\n";
    return std::mt19937_64(seed);
}

TEST(Differential, FormulasAreTheHosts) {
    const auto text = read_file(KERNELS_PTX);
    if (!text)
        GTEST_SKIP() << "built without nvcc";
    Device device(*text);
    ASSERT_NE(device.module, nullptr) << device.refusal.text;
    std::mt19937_64 random = seeded();
    compare<std::uint32_t>(device, "whole", random, formulas::whole);
    compare<float>(device, "real32", random, formulas::real<float, std::uint32_t>);
    compare<double>(device, "real64", random, formulas::real<double, std::uint64_t>);
}

TEST(Differential, SumsAreTheHosts) {
    const auto text = read_file(KERNELS_PTX);
    if (!text)
        GTEST_SKIP() << "built without nvcc";
    Device device(*text);
    std::mt19937_64 random = seeded();
    std::vector<std::uint32_t> in(12345), out(1);
    for (std::uint32_t& one : in)
        one = number<std::uint32_t>(random);
    EXPECT_DONE(
        device.launch("sum", 7, 256, device.memory.add(in), device.memory.add(out), static_cast<unsigned>(in.size())));
    EXPECT_EQ(out[0], std::accumulate(in.begin(), in.end(), 0u));
}

// A NaN of one side is as good as another's: the host keeps its sign, a GPU does not.
template <class T>
bool same_element(const T& a, const T& b) {
    if constexpr (std::is_floating_point_v<T>)
        return same(a, b);
    else if constexpr (requires { T::wide(a); })
        return same(T::wide(a), T::wide(b));
    else
        return std::memcmp(&a, &b, sizeof a) == 0;
}

// Any bits are a value, of pairs and narrow numbers too.
template <class T>
void compare_reduction(Device& device, const std::string& name, std::mt19937_64& random) {
    for (std::uint32_t op = 0; op <= static_cast<std::uint32_t>(swy::datatype::Combine::kMaxloc); ++op) {
        std::vector<unsigned char> in(sizeof(T) * 256), inout(in.size());
        for (std::size_t i = 0; i < in.size(); ++i) {
            in[i] = static_cast<unsigned char>(random());
            inout[i] = i % (3 * sizeof(T)) < sizeof(T) ? in[i] : static_cast<unsigned char>(random());
        }
        std::vector<unsigned char> expected = inout;
        swy::datatype::ReduceWork work{device.memory.add(in), device.memory.add(inout), 256,
                                       swy::datatype::Combine{op}};
        const Outcome outcome = device.launch("switchyard_reduce_" + name, 3, 64, work);
        ASSERT_EQ(outcome.kind, Outcome::Kind::Done) << outcome.text;
        for (unsigned i = 0; i < 256; ++i) {
            T a, b, c;
            std::memcpy(&a, &in[i * sizeof(T)], sizeof(T));
            std::memcpy(&b, &expected[i * sizeof(T)], sizeof(T));
            std::memcpy(&c, &inout[i * sizeof(T)], sizeof(T));
            combine(swy::datatype::Combine{op}, a, b);
            ASSERT_TRUE(same_element(c, b)) << name << " " << op << " " << i;
        }
    }
}

TEST(Differential, LibraryReductionsAreTheHosts) {
    const auto text = read_file(LIBRARY_PTX);
    if (!text)
        GTEST_SKIP() << "built without nvcc";
    Device device(*text);
    ASSERT_NE(device.module, nullptr) << device.refusal.text;
    std::mt19937_64 random = seeded();
    compare_reduction<std::int8_t>(device, "int8", random);
    compare_reduction<std::int16_t>(device, "int16", random);
    compare_reduction<std::int32_t>(device, "int32", random);
    compare_reduction<std::int64_t>(device, "int64", random);
    compare_reduction<std::uint8_t>(device, "uint8", random);
    compare_reduction<std::uint64_t>(device, "uint64", random);
    compare_reduction<swy::datatype::Float16>(device, "float16", random);
    compare_reduction<swy::datatype::Bfloat16>(device, "bfloat16", random);
    compare_reduction<swy::datatype::Float8E4m3>(device, "float8_e4m3", random);
    compare_reduction<swy::datatype::Float8E5m2>(device, "float8_e5m2", random);
    compare_reduction<float>(device, "float32", random);
    compare_reduction<double>(device, "float64", random);
    compare_reduction<swy::datatype::ShortInt>(device, "short_int", random);
    compare_reduction<swy::datatype::IntInt>(device, "int_int", random);
    compare_reduction<swy::datatype::LongInt>(device, "long_int", random);
}

}  // namespace
}  // namespace vgpu::ptx
