// How threads, warps and blocks run: divergence, barriers, calls, and how launches that go wrong end.
#include <chrono>
#include <numeric>
#include <thread>

#include "tests/vgpu/ptx/fixture.hpp"

namespace vgpu::ptx {
namespace {

using Kind = Outcome::Kind;

void expect_fault(const Outcome& outcome, Kind kind, const std::vector<std::string>& says) {
    EXPECT_EQ(outcome.kind, kind) << outcome.text;
    for (const std::string& word : says)
        EXPECT_NE(outcome.text.find(word), std::string::npos) << word << " is not in: " << outcome.text;
}

TEST(Run, OneMebibyteQuickly) {
    Device device(header() + kernel("add", 2, R"(
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;
        mul.wide.u32 %rd1, %r4, 4; add.s64 %rd2, %a0, %rd1; add.s64 %rd3, %a1, %rd1;
        ld.global.f32 %f1, [%rd2]; ld.global.f32 %f2, [%rd3]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd3], %f3;)"));
    const std::size_t count = 1 << 18;
    std::vector<float> in(count), out(count, 1.0f);
    std::iota(in.begin(), in.end(), 0.0f);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_DONE(device.launch("add", count / 256, 256, device.memory.add(in), device.memory.add(out)));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    RecordProperty("milliseconds", static_cast<int>(took.count() * 1000));
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(out[i], in[i] + 1.0f) << i;
}

TEST(Run, LanesDivergeAndMeet) {
    Device device(header() + kernel("k", 1, R"(
        mov.u32 %r1, %tid.x; mov.u32 %r2, 0; and.b32 %r3, %r1, 3; setp.eq.s32 %p1, %r3, 0; @%p1 bra EVEN;
        L: add.u32 %r2, %r2, %r3; sub.u32 %r3, %r3, 1; setp.ne.s32 %p2, %r3, 0; @%p2 bra L; bra.uni END;
        EVEN: mov.u32 %r2, 100;
        END: activemask.b32 %r4; mul.wide.u32 %rd1, %r1, 8; add.s64 %rd1, %a0, %rd1; st.global.v2.u32 [%rd1], {%r2, %r4};)"));
    std::vector<unsigned> out(2 * 40);
    EXPECT_DONE(device.launch("k", 1, 40, device.memory.add(out)));
    for (unsigned i = 0; i < 40; ++i) {
        EXPECT_EQ(out[2 * i], i % 4 == 0 ? 100 : (i % 4) * (i % 4 + 1) / 2) << i;
        EXPECT_EQ(out[2 * i + 1], i < 32 ? 0xffffffff : 0xff) << i;
    }
}

// Every lane takes the lock in turn; the others spin in the same warp.
TEST(Run, SpinLockBetweenLanesEnds) {
    Device device(header() + ".global .u32 lock;\n" + kernel("k", 1, R"(
        SPIN: atom.global.cas.b32 %r1, [lock], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra SPIN;
        ld.volatile.global.u32 %r2, [%a0]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%a0], %r2;
        membar.gl; atom.global.exch.b32 %r3, [lock], 0;)"));
    std::vector<unsigned> out(1);
    EXPECT_DONE(device.launch("k", 4, 96, device.memory.add(out)));
    EXPECT_EQ(out[0], 4u * 96);
}

// The lower lanes wait for what the highest one writes after them.
TEST(Run, LanesWaitForEachOther) {
    Device device(header() + ".global .u32 flag;\n" + kernel("k", 1, R"(
        mov.u32 %r1, %laneid; setp.eq.u32 %p1, %r1, 31; @%p1 bra WRITE;
        SPIN: ld.acquire.gpu.global.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra SPIN; bra END;
        WRITE: st.release.gpu.global.u32 [flag], 1;
        END: red.global.add.u32 [%a0], 1;)"));
    std::vector<unsigned> out(1);
    EXPECT_DONE(device.launch("k", 1, 32, device.memory.add(out)));
    EXPECT_EQ(out[0], 32u);
}

TEST(Run, BlocksWaitForEachOther) {
    Device device(header() + kernel("k", 1, R"(
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; sub.u32 %r2, %r2, 1; sub.u32 %r3, %r2, %r1;
        SPIN: ld.volatile.global.u32 %r4, [%a0]; setp.ne.u32 %p1, %r4, %r3; @%p1 bra SPIN;
        bar.sync 0; mov.u32 %r5, %tid.x; setp.eq.u32 %p2, %r5, 0; @%p2 atom.global.add.u32 %r6, [%a0], 1;)"));
    std::vector<unsigned> out(1);
    EXPECT_DONE(device.launch("k", 24, 64, device.memory.add(out)));
    EXPECT_EQ(out[0], 24u);
}

TEST(Run, StopsAndWaitsForTheHost) {
    Device device(header() +
                  kernel("k", 1, "SPIN: ld.volatile.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;"));
    std::vector<unsigned> word(1);
    const std::uint64_t address = device.memory.add(word);
    std::thread writer([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        __atomic_store_n(word.data(), 1u, __ATOMIC_RELEASE);
    });
    EXPECT_DONE(device.launch("k", 2, 32, address));
    writer.join();
    word[0] = 0;
    std::atomic<bool> stop{false};
    device.around.stop = &stop;
    std::thread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        stop = true;
    });
    EXPECT_EQ(device.launch("k", 2, 32, address).kind, Kind::Stopped);
    stopper.join();
}

// A GPU moves the 16 bytes of a vector at once, and the 128 bytes that eight lanes of a warp have side by side: whoever
// sees the last word, a flag, sees the others. NCCL's protocols LL and LL128 are made of that.
TEST(Run, VectorsArriveWithTheirLastWord) {
    const std::string text = header() + kernel("sends", 3, R"(
        mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 16; add.u64 %rd2, %a0, %rd1; mov.u64 %rd3, 0;
        SEND: add.u64 %rd3, %rd3, 1; st.volatile.global.v2.u64 [%rd2], {%rd3, %rd3};
        WAIT: ld.volatile.global.u64 %rd4, [%a1]; setp.lt.u64 %p1, %rd4, %rd3; @%p1 bra WAIT;
        bar.warp.sync -1; setp.lt.u64 %p1, %rd3, %a2; @%p1 bra SEND;)") +
                             kernel("receives", 4, R"(
        mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 16; add.u64 %rd2, %a0, %rd1; mov.u64 %rd3, 0; mov.u32 %r3, 0;
        and.b32 %r2, %r1, 7; setp.ne.u32 %p2, %r2, 7; setp.ne.u32 %p5, %r1, 0;
        NEXT: add.u64 %rd3, %rd3, 1;
        AGAIN: ld.volatile.global.v2.u64 {%rd4, %rd5}, [%rd2]; setp.eq.u64 %p1, %rd5, %rd3; or.pred %p1, %p1, %p2;
        vote.sync.all.pred %p1, %p1, -1; @!%p1 bra AGAIN;
        setp.ne.u64 %p3, %rd4, %rd3; setp.ne.u64 %p4, %rd5, %rd3; or.pred %p3, %p3, %p4; @%p3 add.u32 %r3, %r3, 1;
        bar.warp.sync -1; @%p5 bra SKIP; st.volatile.global.u64 [%a1], %rd3; SKIP: bar.warp.sync -1;
        setp.lt.u64 %p1, %rd3, %a2; @%p1 bra NEXT; red.global.add.u32 [%a3], %r3;)");
    constexpr std::uint64_t kRounds = 2000;
    std::vector<std::uint64_t> line(64), acknowledged(1);
    std::vector<unsigned> torn(1);
    Device sender(text), receiver(text);
    const auto sends = [&] {
        EXPECT_DONE(sender.launch("sends", 1, 32, sender.memory.add(line), sender.memory.add(acknowledged), kRounds));
    };
    std::thread other(sends);
    EXPECT_DONE(receiver.launch("receives", 1, 32, receiver.memory.add(line), receiver.memory.add(acknowledged),
                                kRounds, receiver.memory.add(torn)));
    other.join();
    EXPECT_EQ(torn[0], 0u);
}

TEST(Run, BlockReducesInSharedMemory) {
    Device device(header() + ".extern .shared .align 16 .b8 dynamic[];\n" + kernel("k", 1, R"(
        .shared .align 4 .u32 total; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, dynamic; add.u32 %r3, %r3, %r2;
        st.shared.u32 [%r3], %r1; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [total], 0; bar.sync 0;
        xor.b32 %r4, %r2, 4; mov.u32 %r5, dynamic; add.u32 %r5, %r5, %r4; ld.shared.u32 %r6, [%r5];
        mov.u64 %rd1, total; cvta.shared.u64 %rd2, %rd1; atom.add.u32 %r7, [%rd2], %r6; barrier.cta.sync 0;
        setp.lt.u32 %p2, %r1, 10; bar.red.popc.u32 %r8, 0, %p2; ld.shared.u32 %r9, [total];
        isspacep.shared %p3, %rd2; selp.u32 %r10, 1, 0, %p3;
        mul.wide.u32 %rd3, %r1, 16; add.s64 %rd3, %rd3, %a0; st.global.v4.u32 [%rd3], {%r6, %r8, %r9, %r10};)"));
    std::vector<unsigned> out(4 * 100);
    Shape shape;
    shape.block[0] = 100;
    shape.dynamic_shared_bytes = 400;
    EXPECT_DONE(device.launch_shaped("k", shape, device.memory.add(out)));
    for (unsigned i = 0; i < 100; ++i) {
        EXPECT_EQ(out[4 * i], i ^ 1);
        EXPECT_EQ(out[4 * i + 1], 10u);
        EXPECT_EQ(out[4 * i + 2], 4950u);
        EXPECT_EQ(out[4 * i + 3], 1u);
    }
}

// Producers arrive and consumers wait; and a warp that exits is waited for by no barrier.
TEST(Run, BarriersOfSomeWarps) {
    Device device(header() + ".shared .u32 word;\n" + kernel("k", 1, R"(
        mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 2; @%p1 exit; setp.eq.u32 %p2, %r2, 1; @%p2 bra WAIT;
        st.shared.u32 [word], 7; membar.cta; bar.arrive 1, 64; bra END;
        WAIT: bar.sync 1, 64; ld.shared.u32 %r3, [word]; red.global.add.u32 [%a0], %r3;
        END: bar.sync 0;)"));
    std::vector<unsigned> out(1);
    EXPECT_DONE(device.launch("k", 1, 96, device.memory.add(out)));
    EXPECT_EQ(out[0], 7u * 32);
}

const char* const kFunctions = R"(
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; shl.b32 %r2, %r1, 1; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) thrice(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; mul.lo.u32 %r2, %r1, 3; st.param.b32 [r], %r2; ret; }
.global .u64 table[2] = {twice, thrice};
.func (.param .b32 r) sum(.param .b32 n) { .reg .b32 %r<6>; .reg .pred %p;
    ld.param.b32 %r1, [n]; mov.u32 %r2, 0; setp.eq.u32 %p, %r1, 0; @%p bra END;
    { .param .b32 m; .param .b32 s; sub.u32 %r3, %r1, 1; st.param.b32 [m], %r3; call (s), sum, (m); ld.param.b32 %r4, [s]; }
    add.u32 %r2, %r4, %r1;
    END: st.param.b32 [r], %r2; ret; }
)";

TEST(Run, CallsIndirectlyAndRecursively) {
    Device device(header() + kFunctions + kernel("k", 1, R"(
        mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; mul.wide.u32 %rd1, %r2, 8; mov.u64 %rd2, table; add.s64 %rd2, %rd2, %rd1;
        ld.global.u64 %rd3, [%rd2];
        { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; proto: .callprototype (.param .b32 _) _ (.param .b32 _);
          call (y), %rd3, (x), proto; ld.param.b32 %r3, [y]; }
        { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call.uni (y), sum, (x); ld.param.b32 %r4, [y]; }
        mul.wide.u32 %rd4, %r1, 8; add.s64 %rd4, %rd4, %a0; st.global.v2.u32 [%rd4], {%r3, %r4};)"));
    ASSERT_NE(device.module, nullptr) << device.refusal.text;
    std::vector<unsigned> out(2 * 32);
    EXPECT_DONE(device.launch("k", 1, 32, device.memory.add(out)));
    for (unsigned i = 0; i < 32; ++i) {
        EXPECT_EQ(out[2 * i], i * (i % 2 == 0 ? 2 : 3)) << i;
        EXPECT_EQ(out[2 * i + 1], i * (i + 1) / 2) << i;
    }
}

TEST(Run, EndlessRecursionAndWildCalls) {
    Device device(header() + ".func deep() { call deep, (); ret; }\n" + kernel("k", 0, "call deep, ();") +
                  kernel("wild", 0, "p: .callprototype _ (); mov.u64 %rd1, 4096; call %rd1, (), p;"));
    ASSERT_NE(device.module, nullptr) << device.refusal.text;
    expect_fault(device.launch("k", 1, 1), Kind::Trap, {"k: block (0,0,0), thread (0,0,0)", "stack"});
    expect_fault(device.launch("wild", 1, 1), Kind::InvalidPc, {"wild", "call %rd1"});
}

TEST(Run, BranchesByIndex) {
    Device device(header() + kernel("k", 1, R"(
        mov.u32 %r1, %tid.x; rem.u32 %r2, %r1, 3; ts: .branchtargets A, B, C; brx.idx %r2, ts;
        A: mov.u32 %r3, 10; bra END; B: mov.u32 %r3, 20; bra END; C: mov.u32 %r3, 30;
        END: mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %rd1, %a0; st.global.u32 [%rd1], %r3;)"));
    std::vector<unsigned> out(32);
    EXPECT_DONE(device.launch("k", 1, 32, device.memory.add(out)));
    for (unsigned i = 0; i < 32; ++i)
        EXPECT_EQ(out[i], 10 * (i % 3 + 1));
}

TEST(Run, PrintsAndAsserts) {
    Device device(header() + R"(
        .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
        .extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
        .global .b8 format[16] = {37, 100, 58, 37, 46, 49, 102, 37, 115, 10};
        .global .b8 word[3] = {97, 61};
        )" + kernel("k", 0, R"(.local .align 8 .b8 buffer[24]; mov.u64 %rd1, buffer; cvta.local.u64 %rd2, %rd1;
        st.local.u32 [%rd1], -5; st.local.f64 [%rd1+8], 0d4004000000000000; mov.u64 %rd3, word; cvta.global.u64 %rd3, %rd3;
        st.local.u64 [%rd1+16], %rd3; mov.u64 %rd4, format;
        { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %rd4; st.param.b64 [a], %rd2;
          call.uni (r), vprintf, (f, a); ld.param.b32 %r1, [r]; })") +
                  kernel("asserts", 0, R"(mov.u64 %rd1, word; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 3; @%p1 exit;
        { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %rd1;
          st.param.b64 [b], %rd1; st.param.b32 [c], 17; st.param.b64 [d], %rd1; st.param.b64 [e], 1;
          call.uni __assertfail, (a, b, c, d, e); })") +
                  kernel("traps", 0, "trap;"));
    ASSERT_NE(device.module, nullptr) << device.refusal.text;
    EXPECT_DONE(device.launch("k", 1, 2));
    EXPECT_EQ(device.printed, "-5:2.5a=\n-5:2.5a=\n");
    expect_fault(device.launch("asserts", 1, 32), Kind::Assert, {"thread (3,0,0)", "17", "assertion \"a=\" failed"});
    expect_fault(device.launch("traps", 1, 1), Kind::Trap, {"traps", "\"trap\""});
}

// Numba's grid.sync(): each thread counts up its word and reads that of its opposite in another block, which has done
// the same. The last lanes have exited.
TEST(Run, WaitsForTheGridByCudaCGSynchronize) {
    Device device(header() + R"(
        .extern .func (.param .b64 h) cudaCGGetIntrinsicHandle(.param .b32 scope);
        .extern .func (.param .b32 e) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
        )" + kernel("k", 3, R"(
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
        cvt.u32.u64 %r4, %a2; setp.ge.u32 %p1, %r1, %r4; @%p1 exit;
        { .param .b32 scope; .param .b64 h; st.param.b32 [scope], 1;
          call.uni (h), cudaCGGetIntrinsicHandle, (scope); ld.param.b64 %rd1, [h]; }
        mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd2, %a0;
        sub.u32 %r5, %r4, %r1; sub.u32 %r5, %r5, 1; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd3, %rd3, %a0;
        mul.wide.u32 %rd4, %r1, 4; add.s64 %rd4, %rd4, %a1;
        mov.u32 %r6, 0; mov.u32 %r9, 0;
        ROUND: add.u32 %r6, %r6, 1;
        ld.global.u32 %r7, [%rd2]; add.u32 %r7, %r7, 1; st.global.u32 [%rd2], %r7;
        { .param .b64 h; .param .b32 f; .param .b32 e; st.param.b64 [h], %rd1; st.param.b32 [f], 0;
          call.uni (e), cudaCGSynchronize, (h, f); ld.param.b32 %r10, [e]; }
        ld.global.u32 %r8, [%rd3]; setp.ne.u32 %p2, %r8, %r6; @%p2 add.u32 %r9, %r9, 1; add.u32 %r9, %r9, %r10;
        { .param .b64 h; .param .b32 f; .param .b32 e; st.param.b64 [h], %rd1; st.param.b32 [f], 0;
          call.uni (e), cudaCGSynchronize, (h, f); ld.param.b32 %r10, [e]; }
        setp.lt.u32 %p3, %r6, 5; @%p3 bra ROUND;
        st.global.u32 [%rd4], %r9;)"));
    ASSERT_NE(device.module, nullptr) << device.refusal.text;
    constexpr unsigned kThreads = 290;  // of 3 blocks of 100
    std::vector<unsigned> words(kThreads, 0), wrong(kThreads, 9);
    Shape shape;
    shape.grid[0] = 3;
    shape.block[0] = 100;
    shape.cooperative = true;
    const std::uint64_t to = device.memory.add(words), also = device.memory.add(wrong);
    EXPECT_DONE(device.launch_shaped("k", shape, to, also, std::uint64_t{kThreads}));
    EXPECT_EQ(words, std::vector<unsigned>(kThreads, 5));
    EXPECT_EQ(wrong, std::vector<unsigned>(kThreads, 0));

    // In a launch that is not cooperative there is nothing to wait for: an error, as cudaErrorInvalidValue is 1.
    shape.cooperative = false;
    EXPECT_DONE(device.launch_shaped("k", shape, to, also, std::uint64_t{kThreads}));
    for (const unsigned errors : wrong)
        EXPECT_GE(errors, 5u);
}

// A GPU's memory ends with a page, and NCCL reads words of which the first bytes are the program's.
TEST(Run, WordsAreReadThatBeginInAnAllocation) {
    Device device(header() +
                  kernel("reads", 2, "ld.global.u32 %r1, [%a1]; and.b32 %r1, %r1, 255; st.global.u32 [%a0], %r1;") +
                  kernel("writes", 1, "mov.u32 %r1, 1; st.global.u32 [%a0], %r1;"));
    alignas(16) unsigned char bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    std::vector<unsigned> out(1);
    const std::uint64_t begin = device.memory.add(bytes, 9), to = device.memory.add(out);
    EXPECT_DONE(device.launch("reads", 1, 1, to, begin + 8));
    EXPECT_EQ(out[0], 9u);
    EXPECT_EQ(device.launch("reads", 1, 1, to, begin + 12).kind, Kind::IllegalAddress);
    EXPECT_EQ(device.launch("writes", 1, 1, begin + 8).kind, Kind::IllegalAddress);
    EXPECT_DONE(device.launch("writes", 1, 1, begin + 4));
}

TEST(Run, WildAccessesEndTheLaunch) {
    Device device(header() + kernel("far", 1, "st.global.u32 [%a0+400], 1;") +
                  kernel("odd", 1, "\n\nld.global.v2.u32 {%r1, %r2}, [%a0+4];") +
                  kernel("null", 0, "mov.u64 %rd1, 0; ld.u8 %r1, [%rd1];") +
                  kernel("constant", 1, "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 9; @%p1 st.u32 [%a0], 1;") +
                  kernel("shared", 0, ".shared .u32 s[4]; ld.shared.u32 %r1, [s+16];") +
                  kernel("unknown", 1, "setp.eq.u64 %p1, %a0, 0; @%p1 wgmma.fence.sync.aligned;\nmov.u32 %r1, %none;"));
    std::vector<unsigned> data(100);
    const std::uint64_t address = device.memory.add(data);
    expect_fault(device.launch("far", 1, 1, address), Kind::IllegalAddress,
                 {"far: block", "st.global.u32 [%a0+400], 1", "0x7f"});
    expect_fault(device.launch("odd", 1, 1, address), Kind::MisalignedAddress, {"multiple of 8", "line "});
    expect_fault(device.launch("null", 1, 1), Kind::IllegalAddress, {"0x0"});
    const std::uint64_t fixed = device.memory.add(data.data(), 400, false);
    expect_fault(device.launch("constant", 2, 32, fixed), Kind::IllegalAddress, {"thread (9,0,0)", "written"});
    expect_fault(device.launch("shared", 1, 1), Kind::IllegalAddress, {"shared memory"});
    expect_fault(device.launch("unknown", 1, 1, std::uint64_t{1}), Kind::IllegalInstruction, {"%none"});
    expect_fault(device.launch("unknown", 1, 1, std::uint64_t{0}), Kind::IllegalInstruction, {"wgmma"});
}

TEST(Run, ShufflesVotesAndMatches) {
    Device device(header() + kernel("k", 1, R"(
        mov.u32 %r1, %laneid; shfl.sync.down.b32 %r2|%p1, %r1, 4, 31, -1; shfl.sync.bfly.b32 %r3, %r1, 5, 0x1f, -1;
        shfl.sync.idx.b32 %r4, %r1, 3, 0x181f, -1; shfl.sync.up.b32 %r5, %r1, 2, 0, -1; selp.u32 %r6, 1, 0, %p1;
        setp.lt.u32 %p2, %r1, 7; vote.sync.ballot.b32 %r7, %p2, -1; vote.sync.any.pred %p3, %p2, -1; selp.u32 %r8, 1, 0, %p3;
        and.b32 %r9, %r1, 3; match.any.sync.b32 %r10, %r9, -1; redux.sync.add.s32 %r11, %r1, -1; elect.sync %r12|%p4, -1;
        mul.wide.u32 %rd1, %r1, 32; add.s64 %rd1, %rd1, %a0; st.global.v4.u32 [%rd1], {%r2, %r3, %r4, %r5};
        st.global.v4.u32 [%rd1+16], {%r6, %r7, %r10, %r11};)"));
    std::vector<unsigned> out(8 * 32);
    EXPECT_DONE(device.launch("k", 1, 32, device.memory.add(out)));
    for (unsigned i = 0; i < 32; ++i) {
        const unsigned* o = &out[8 * i];
        EXPECT_EQ(o[0], i + 4 < 32 ? i + 4 : i);
        EXPECT_EQ(o[1], i ^ 5);
        EXPECT_EQ(o[2], (i & 24) + 3);
        EXPECT_EQ(o[3], i >= 2 ? i - 2 : i);
        EXPECT_EQ(o[4], i + 4 < 32);
        EXPECT_EQ(o[5], 127u);
        EXPECT_EQ(o[6], 0x11111111u << (i & 3));
        EXPECT_EQ(o[7], 496u);
    }
}

// The members arrive from different ways, one after a loop; lanes that exited are not waited for.
TEST(Run, MembersWaitForEachOther) {
    Device device(header() + kernel("k", 1, R"(
        mov.u32 %r1, %laneid; setp.gt.u32 %p1, %r1, 29; @%p1 exit; mov.u32 %r2, %r1; setp.lt.u32 %p2, %r1, 16; @%p2 bra LOW;
        shfl.sync.bfly.b32 %r3, %r1, 16, 31, -1; bra END;
        LOW: add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 50; @%p3 bra LOW; shfl.sync.bfly.b32 %r3, %r2, 16, 31, -1;
        END: bar.warp.sync -1; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %rd1, %a0; st.global.u32 [%rd1], %r3;)"));
    std::vector<unsigned> out(32);
    EXPECT_DONE(device.launch("k", 1, 32, device.memory.add(out)));
    for (unsigned i = 0; i < 30; ++i)
        EXPECT_EQ(out[i], i >= 16 ? 50u : i >= 14 ? out[i] : i + 16) << i;  // 30 and 31 have no value
}

}  // namespace
}  // namespace vgpu::ptx
