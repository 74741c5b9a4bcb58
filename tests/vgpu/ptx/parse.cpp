// What is refused, with which line; how texts are joined; and that no text breaks the parser.
#include <random>

#include "tests/random_seed.hpp"
#include "tests/vgpu/ptx/fixture.hpp"

namespace vgpu::ptx {
namespace {

TEST(Parse, DescribesKernels) {
    Device device(
        header() +
        ".visible .entry k(.param .u8 a, .param .align 8 .b8 b[12], .param .u64 .ptr .global .align 4 c)\n"
        ".maxntid 16, 4, 1\n.reqnctapercluster 2\n{\n.shared .align 4 .b8 s[40];\n.local .align 8 .b8 l[24];\n"
        ".pragma \"nounroll\";\n.loc 1 2 3\nret;\n}\n");
    ASSERT_NE(device.module, nullptr) << device.refusal.text;
    const Kernel* kernel = device.module->kernel("k");
    ASSERT_NE(kernel, nullptr);
    ASSERT_EQ(kernel->parameters.size(), 3u);
    EXPECT_EQ(kernel->parameters[1].offset, 8u);
    EXPECT_EQ(kernel->parameters[1].bytes, 12u);
    EXPECT_EQ(kernel->parameters[2].offset, 24u);
    EXPECT_EQ(kernel->parameter_bytes, 32u);
    EXPECT_EQ(kernel->static_shared_bytes, 40u);
    EXPECT_GE(kernel->local_bytes, 24u);
    EXPECT_EQ(kernel->max_threads, 64u);
    EXPECT_EQ(kernel->required_cluster[0], 2u);
    EXPECT_EQ(device.module->kernel("other"), nullptr);
    EXPECT_EQ(device.module->kernels(), std::vector<std::string>{"k"});
}

TEST(Parse, Initialises) {
    Device device(
        header() +
        ".global .align 4 .b8 bytes[8] = {1, 2, 0xff};\n.visible .const .f32 c[2] = {0f3F800000, 2.5};\n"
        ".global .f64 d = 0d3FF0000000000000;\n.global .u64 at = bytes+4;\n.global .u64 g[2] = {generic(c), 7};\n"
        ".global .s32 table[2][2] = {{1, -2}, {3, 4}};\n.global .b8 m[8] = {0xFF(bytes), 0xFF00(bytes), "
        "0xFF0000(bytes), 0xFF000000(bytes), 0xFF00000000(bytes), 0xFF0000000000(bytes), "
        "0xFF000000000000(bytes), 0xFF00000000000000(bytes)};\n.visible .global .attribute(.managed) .u32 u;\n");
    ASSERT_NE(device.module, nullptr) << device.refusal.text;
    EXPECT_EQ(device.variable<unsigned char>("bytes")[2], 0xff);
    EXPECT_EQ(device.variable<float>("c")[0], 1.0f);
    EXPECT_EQ(device.variable<float>("c")[1], 2.5f);
    EXPECT_EQ(*device.variable<double>("d"), 1.0);
    EXPECT_EQ(*device.variable<std::uint64_t>("at"), device.addresses["bytes"] + 4);
    EXPECT_EQ(device.variable<std::uint64_t>("g")[0], device.addresses["c"]);
    EXPECT_EQ(device.variable<std::uint64_t>("g")[1], 7u);
    EXPECT_EQ(device.variable<int>("table")[1], -2);
    EXPECT_EQ(device.variable<int>("table")[3], 4);
    EXPECT_EQ(*device.variable<std::uint64_t>("m"), device.addresses["bytes"]);
    for (const Variable& variable : device.module->variables()) {
        EXPECT_EQ(variable.constant, variable.name == "c");
        EXPECT_EQ(variable.managed, variable.name == "u");
        EXPECT_EQ(variable.visible, variable.name == "c" || variable.name == "u");
    }
}

struct Refused {
    const char* text;
    Refusal::Kind kind;
    const char* says;
};

TEST(Parse, RefusesWithTheLine) {
    const Refused refused[] = {
        {".version 8.0\n.target sm_90\nnonsense\n", Refusal::Kind::Syntax, "line 3"},
        {".version 8.0\n.address_size 32\n", Refusal::Kind::Unsupported, "line 2"},
        {".visible .entry k()\n{\nret\n}\n", Refusal::Kind::Syntax, "line 4"},
        {".visible .entry k()\n{\nret;\n", Refusal::Kind::Syntax, "}"},
        {"\n.extern .global .u32 lost;\n", Refusal::Kind::Undefined, "lost"},
        {".extern .func lost\n(\n);\n", Refusal::Kind::Undefined, "lost"},
        {".visible .global .u32 a;\n.visible .global .u32 a;\n", Refusal::Kind::Syntax, "twice"},
        {".global .u77 a;\n", Refusal::Kind::Unsupported, "u77"},
        {".global .u32 a = 0f3F8;\n", Refusal::Kind::Syntax, "line 1"},
        {".global .b8 a[2] = {1, 2, 3};\n", Refusal::Kind::Syntax, "more"},
    };
    for (const Refused& one : refused) {
        const std::string_view text = one.text;
        Refusal refusal;
        EXPECT_EQ(link({&text, 1}, refusal), nullptr) << one.text;
        EXPECT_EQ(refusal.kind, one.kind) << one.text;
        EXPECT_NE(refusal.text.find(one.says), std::string::npos) << refusal.text;
    }
}

TEST(Link, JoinsTexts) {
    const std::string first = header() +
                              ".extern .global .u32 shared_word;\n.extern .func (.param .b32 r) twice(.param .b32 x);\n"
                              ".global .u32 own = 5;\n" +
                              kernel("k", 1, R"(
        { .param .b32 x; .param .b32 y; ld.global.u32 %r1, [shared_word]; ld.global.u32 %r3, [own]; add.u32 %r1, %r1, %r3;
        st.param.b32 [x], %r1; call (y), twice, (x); ld.param.b32 %r2, [y]; } st.global.u32 [%a0], %r2;)");
    const std::string second =
        header() +
        ".visible .global .u32 shared_word = 16;\n.global .u32 own = 1;\n"
        ".visible .func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<4>;\nld.param.b32 %r1, [x];\n"
        "ld.global.u32 %r2, [own];\nmad.lo.u32 %r3, %r1, 2, %r2;\nst.param.b32 [r], %r3;\nret;\n}\n";
    Device device(std::vector<std::string>{first, second});
    ASSERT_NE(device.module, nullptr) << device.refusal.text;
    std::vector<unsigned> out(1);
    EXPECT_DONE(device.launch("k", 1, 1, device.memory.add(out)));
    EXPECT_EQ(out[0], 43u);
}

// A shared variable of another text is that one, and dynamic shared memory lies behind it.
TEST(Link, JoinsSharedVariables) {
    const std::string owner = header() + ".visible .shared .align 16 .b8 table[64];\n";
    const std::string user = header() +
                             ".extern .shared .align 16 .b8 table[64];\n.extern .shared .align 16 .b8 rest[];\n" +
                             kernel("k", 1, R"(
        mov.u32 %r1, 7; st.shared.u32 [rest], %r1; mov.u32 %r2, 5; st.shared.u32 [table+60], %r2;
        st.shared.u32 [table], %r2; mov.u32 %r3, rest; mov.u32 %r4, table; sub.u32 %r3, %r3, %r4;
        ld.shared.u32 %r1, [rest]; st.global.u32 [%a0], %r1; st.global.u32 [%a0+4], %r3;)");
    for (const auto& texts : {std::vector{owner, user}, std::vector{user, owner}}) {
        Device device(texts);
        ASSERT_NE(device.module, nullptr) << device.refusal.text;
        EXPECT_EQ(device.module->kernel("k")->static_shared_bytes, 64u);
        std::vector<unsigned> out(2);
        Shape shape;
        shape.dynamic_shared_bytes = 4;
        EXPECT_DONE(device.launch_shaped("k", shape, device.memory.add(out)));
        EXPECT_EQ(out[0], 7u);
        EXPECT_EQ(out[1], 64u);
    }
}

TEST(Parse, NoTextBreaksIt) {
    const unsigned seed = random_seed();
    std::cout << "SWY_RANDOM_SEED=" << seed << "\n";
    std::mt19937 random(seed);
    const std::string good =
        header() +
        ".global .align 4 .b8 t[8] = {1, 2};\n.const .u64 c = t+4;\n"
        ".func (.param .b32 r) f(.param .b32 x)\n{\n.reg .b32 %r<4>;\nld.param.b32 %r1, [x];\nst.param.b32 [r], "
        "%r1;\nret;\n}\n" +
        kernel("k", 1, R"(mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; @!%p1 bra L; { .param .b32 x; .param .b32 y;
        st.param.b32 [x+0], %r1; call.uni (y), f, (x); ld.param.b32 %r2, [y+0]; } L: mov.b64 %rd1, {%r1, %r2};
        bar.sync 0; shfl.sync.bfly.b32 %r3|%p2, %r1, 1, 31, -1; ld.global.v2.u32 {%r4, _}, [%a0+8];
        ts: .branchtargets L, M; brx.idx %r1, ts; M: exit;)");
    const std::string pieces = "{}()[]<>,;:.@!%|+-0123456789abcdefxu_\"/* \n";
    for (unsigned round = 0; round < 4000; ++round) {
        std::string text = good;
        if (round % 4 == 0)
            text.resize(random() % text.size());
        for (unsigned changes = random() % 6; changes > 0 && !text.empty(); --changes) {
            const std::size_t at = random() % text.size();
            switch (random() % 4) {
                case 0:
                    text[at] = pieces[random() % pieces.size()];
                    break;
                case 1:
                    text.erase(at, random() % 12);
                    break;
                case 2:
                    text.insert(at, text.substr(random() % text.size(), random() % 40));
                    break;
                default:
                    text[at] = static_cast<char>(random());
                    break;
            }
        }
        const std::string_view view = text;
        Refusal refusal;
        const auto module = link({&view, 1}, refusal);
        EXPECT_EQ(module == nullptr, refusal.kind != Refusal::Kind::None);
    }
}

}  // namespace
}  // namespace vgpu::ptx
