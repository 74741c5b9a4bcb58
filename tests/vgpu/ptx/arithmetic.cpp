// Single instructions, with the results that the PTX ISA and IEEE 754 give them.
#include <cmath>
#include <limits>

#include "tests/vgpu/ptx/fixture.hpp"

namespace vgpu::ptx {
namespace {

// Runs `code` with %r1, %r2, %r3 (%rd1 ... and %f1 ..., %fd1 ... with the same bits); the result is %rd9.
std::uint64_t compute(const std::string& code, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
    Device device(header() + kernel("k", 4,
                                    R"(
        mov.b64 %rd1, %a1; mov.b64 %rd2, %a2; mov.b64 %rd3, %a3; cvt.u32.u64 %r1, %a1; cvt.u32.u64 %r2, %a2; cvt.u32.u64 %r3, %a3;
        mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3; mov.b64 %fd1, %a1; mov.b64 %fd2, %a2; mov.b64 %fd3, %a3;
        cvt.u16.u64 %h1, %a1; cvt.u16.u64 %h2, %a2; cvt.u16.u64 %h3, %a3; mov.u64 %rd9, 0; )" +
                                        code + R"(
        st.global.u64 [%a0], %rd9;)"));
    std::vector<std::uint64_t> out(1);
    const Outcome outcome = device.launch("k", 1, 1, device.memory.add(out), a, b, c);
    EXPECT_EQ(outcome.kind, Outcome::Kind::Done) << outcome.text << device.refusal.text;
    return out[0];
}
std::uint64_t of_words(const std::string& code, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
    return compute(code + " cvt.u64.u32 %rd9, %r9;", a, b, c);
}
std::uint32_t bits(float x) {
    std::uint32_t result;
    std::memcpy(&result, &x, sizeof x);
    return result;
}
std::uint64_t bits(double x) {
    std::uint64_t result;
    std::memcpy(&result, &x, sizeof x);
    return result;
}
std::uint32_t of_floats(const std::string& code, float a, float b = 0, float c = 0) {
    return static_cast<std::uint32_t>(
        compute(code + " mov.b32 %r9, %f8; cvt.u64.u32 %rd9, %r9;", bits(a), bits(b), bits(c)));
}

TEST(Arithmetic, RoundsAsItIsTold) {
    const float third = 1.0f / 3, below = std::nextafter(third, 0.0f);
    ASSERT_GT(static_cast<double>(third), 1.0 / 3);
    EXPECT_EQ(of_floats("div.rn.f32 %f8, %f1, %f2;", 1, 3), bits(third));
    EXPECT_EQ(of_floats("div.rz.f32 %f8, %f1, %f2;", 1, 3), bits(below));
    EXPECT_EQ(of_floats("div.rm.f32 %f8, %f1, %f2;", 1, 3), bits(below));
    EXPECT_EQ(of_floats("div.rp.f32 %f8, %f1, %f2;", 1, 3), bits(third));
    EXPECT_EQ(of_floats("div.rm.f32 %f8, %f1, %f2;", -1, 3), bits(-third));
    EXPECT_EQ(of_floats("rcp.rp.f32 %f8, %f1;", -3), bits(-below));
    EXPECT_EQ(of_floats("add.rp.f32 %f8, %f1, %f2;", 1, 1e-20f), bits(std::nextafter(1.0f, 2.0f)));
    EXPECT_EQ(of_floats("add.rz.f32 %f8, %f1, %f2;", 1, -1e-20f), bits(std::nextafter(1.0f, 0.0f)));
    EXPECT_EQ(of_floats("sqrt.rp.f32 %f8, %f1;", 2), bits(std::nextafter(std::sqrt(2.0f), 2.0f)));
    EXPECT_EQ(of_floats("fma.rm.f32 %f8, %f1, %f2, %f3;", 1, 1, -1e-20f), bits(std::nextafter(1.0f, 0.0f)));
    EXPECT_EQ(compute("add.rm.f64 %fd8, %fd1, %fd2; mov.b64 %rd9, %fd8;", bits(1.0), bits(-1e-30)),
              bits(std::nextafter(1.0, 0.0)));
    EXPECT_EQ(of_floats("cvt.rz.f32.f64 %f8, 0d3FD5555555555555;", 0), bits(below));
    EXPECT_EQ(of_floats("cvt.rp.f32.u32 %f8, 16777217;", 0), bits(16777218.0f));
    EXPECT_EQ(of_floats("cvt.rm.f32.s32 %f8, -16777217;", 0), bits(-16777218.0f));
}

TEST(Arithmetic, NansZerosAndSaturation) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), tiny = std::numeric_limits<float>::denorm_min();
    EXPECT_EQ(of_floats("mul.f32 %f8, %f1, %f2;", nan, 1), 0x7fffffffu);
    EXPECT_EQ(of_floats("min.f32 %f8, %f1, %f2;", nan, 1), bits(1.0f));
    EXPECT_EQ(of_floats("min.NaN.f32 %f8, %f1, %f2;", nan, 1), 0x7fffffffu);
    EXPECT_EQ(of_floats("min.f32 %f8, %f1, %f2;", 0.0f, -0.0f), bits(-0.0f));
    EXPECT_EQ(of_floats("max.f32 %f8, %f1, %f2;", -0.0f, 0.0f), bits(0.0f));
    EXPECT_EQ(of_floats("add.sat.f32 %f8, %f1, %f2;", 3, 4), bits(1.0f));
    EXPECT_EQ(of_floats("add.sat.f32 %f8, %f1, %f2;", nan, 4), bits(0.0f));
    EXPECT_EQ(of_floats("add.ftz.f32 %f8, %f1, %f2;", -tiny, -0.0f), bits(-0.0f));
    EXPECT_EQ(of_floats("add.f32 %f8, %f1, %f2;", tiny, 0), bits(tiny));
    EXPECT_EQ(of_floats("copysign.f32 %f8, %f1, %f2;", -1, 3), bits(-3.0f));
}

TEST(Arithmetic, Conversions) {
    const auto to_int = [](const char* type, float x) {
        return static_cast<std::int32_t>(of_words("cvt." + std::string(type) + ".f32 %r9, %f1;", bits(x)));
    };
    EXPECT_EQ(to_int("rni.s32", 2.5f), 2);
    EXPECT_EQ(to_int("rzi.s32", -2.7f), -2);
    EXPECT_EQ(to_int("rmi.s32", -2.1f), -3);
    EXPECT_EQ(to_int("rpi.s32", 2.1f), 3);
    EXPECT_EQ(to_int("rzi.s32", 1e20f), INT32_MAX);
    EXPECT_EQ(to_int("rzi.u32", -5.0f), 0);
    EXPECT_EQ(to_int("rzi.s32", std::numeric_limits<float>::quiet_NaN()), 0);
    EXPECT_EQ(compute("cvt.rzi.s64.f64 %rd9, %fd1;", bits(std::numeric_limits<double>::quiet_NaN())),
              std::uint64_t{1} << 63);
    EXPECT_EQ(compute("cvt.s64.s8 %rd9, %r1;", 0x80), 0xffffffffffffff80);
    EXPECT_EQ(of_words("cvt.sat.u8.s32 %r9, %r1;", 300), 255u);
    EXPECT_EQ(of_words("cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r9, %h1;", bits(1.0009766f)), 0x3c01u);
    EXPECT_EQ(of_words("cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r9, %h1;", bits(65520.0f)), 0x7c00u);
    EXPECT_EQ(of_words("cvt.rz.f16.f32 %h1, %f1; cvt.u32.u16 %r9, %h1;", bits(65520.0f)), 0x7bffu);
    EXPECT_EQ(of_words("cvt.f32.f16 %f1, %h1; mov.b32 %r9, %f1;", 0x0001), bits(std::ldexp(1.0f, -24)));
    EXPECT_EQ(of_words("cvt.rn.bf16x2.f32 %r9, %f1, %f2;", bits(1.0f), bits(-2.0f)), 0x3f80c000u);
    EXPECT_EQ(of_words("cvt.rn.f16x2.f32 %r9, %f1, %f2;", bits(1.0f), bits(-2.0f)), 0x3c00c000u);
    EXPECT_EQ(of_words("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r9, %h1;", bits(1e6f), bits(1.0f)),
              0x7e38u);
    EXPECT_EQ(of_words("cvt.rna.tf32.f32 %r9, %f1;", 0x3f801000), 0x3f802000u);
}

TEST(Arithmetic, Halves) {
    EXPECT_EQ(of_words("add.f16x2 %r9, %r1, %r2;", 0x3c00c000, 0x3c003c00), 0x4000bc00u);
    EXPECT_EQ(of_words("fma.rn.f16x2 %r9, %r1, %r2, %r3;", 0x40004000, 0x42004200, 0x3c003c00), 0x47004700u);
    EXPECT_EQ(of_words("mul.bf16 %h1, %h1, %h2; cvt.u32.u16 %r9, %h1;", 0x4000, 0x4040), 0x40c0u);
    EXPECT_EQ(
        of_words(
            "setp.lt.f16x2 %p1|%p2, %r1, %r2; selp.u32 %r8, 1, 0, %p1; selp.u32 %r9, 2, 0, %p2; or.b32 %r9, %r9, %r8;",
            0x3c003c00, 0x40003800),
        2u);
}

TEST(Arithmetic, WholeNumbers) {
    EXPECT_EQ(of_words("mad.hi.s32 %r9, %r1, %r2, %r3;", 0x80000000, 4, 10), 8u);
    EXPECT_EQ(compute("mul.wide.s32 %rd9, %r1, %r2;", 0xffffffff, 3), 0xfffffffffffffffd);
    EXPECT_EQ(compute("mul.hi.u64 %rd9, %rd1, %rd2;", ~0ull, 16), 15u);
    EXPECT_EQ(of_words("add.sat.s32 %r9, %r1, %r2;", 0x7fffffff, 5), 0x7fffffffu);
    EXPECT_EQ(of_words("sad.u32 %r9, %r1, %r2, %r3;", 3, 9, 100), 106u);
    EXPECT_EQ(of_words("mul24.hi.u32 %r9, %r1, %r2;", 0xffffff, 0x10000), 0xffffffu);
    EXPECT_EQ(of_words("add.cc.u32 %r8, %r1, %r2; addc.u32 %r9, %r3, 0;", 0xffffffff, 1, 5), 6u);
    EXPECT_EQ(of_words("sub.cc.u32 %r8, %r1, %r2; subc.u32 %r9, %r3, 0;", 0, 1, 5), 4u);
    EXPECT_EQ(of_words("shl.b32 %r9, %r1, %r2;", 1, 40), 0u);
    EXPECT_EQ(of_words("shr.s32 %r9, %r1, %r2;", 0x80000000, 40), 0xffffffffu);
    EXPECT_EQ(of_words("shf.l.wrap.b32 %r9, %r1, %r2, %r3;", 0x80000000, 1, 33), 3u);
    EXPECT_EQ(of_words("shf.r.clamp.b32 %r9, %r1, %r2, %r3;", 1, 7, 40), 7u);
    EXPECT_EQ(of_words("prmt.b32 %r9, %r1, %r2, 0x5410;", 0x33221100, 0x77665544), 0x55441100u);
    EXPECT_EQ(of_words("lop3.b32 %r9, %r1, %r2, %r3, 0x96;", 0xf0, 0xcc, 0xaa), 0x96u);
    EXPECT_EQ(of_words("bfe.s32 %r9, %r1, 4, 4;", 0x80), 0xfffffff8u);
    EXPECT_EQ(of_words("bfi.b32 %r9, %r1, %r2, 8, 4;", 0xff, 0), 0xf00u);
    EXPECT_EQ(of_words("bfind.u32 %r9, %r1;", 0x1000), 12u);
    EXPECT_EQ(of_words("bfind.shiftamt.s32 %r9, %r1;", 0xfffffff0), 28u);
    EXPECT_EQ(of_words("fns.b32 %r9, %r1, 0, 2;", 0x14), 4u);
    EXPECT_EQ(of_words("dp4a.s32.u32 %r9, %r1, %r2, %r3;", 0xff01ff02, 0x01020304, 5), 5u + 8 - 3 + 2 - 1);
    EXPECT_EQ(of_words("brev.b32 %r9, %r1;", 1), 0x80000000u);
    EXPECT_EQ(of_words("popc.b64 %r9, %rd1;", ~0ull), 64u);
    EXPECT_EQ(of_words("set.lt.u32.s32 %r9, %r1, %r2;", 0xffffffff, 0), 0xffffffffu);
    EXPECT_EQ(of_words("slct.u32.s32 %r9, %r1, %r2, -1;", 3, 4), 4u);
    EXPECT_EQ(of_words("setp.gt.and.u32 %p1|%p2, %r1, %r2, !%p0; selp.u32 %r9, 1, 0, %p1;", 5, 4), 1u);
    EXPECT_EQ(compute("mov.b128 %q1, {%rd1, %rd2}; mov.b128 {%rd8, %rd9}, %q1;", 1, 2), 2u);
    EXPECT_EQ(of_words("mov.b32 {%h1, %h2}, %r1; mov.b32 %r9, {%h2, %h1};", 0x12345678), 0x56781234u);
}

}  // namespace
}  // namespace vgpu::ptx
