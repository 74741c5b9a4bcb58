#include "vgpu/nccl/call.hpp"

#include <array>
#include <cstdio>

namespace vgpu::nccl {
namespace {

struct KindRow {
    const char* name;
    bool reduces;
    bool rooted;
};

constexpr std::array<KindRow, 10> kKinds{{{"ncclAllReduce", true, false},
                                          {"ncclReduce", true, true},
                                          {"ncclBroadcast", false, true},
                                          {"ncclAllGather", false, false},
                                          {"ncclReduceScatter", true, false},
                                          {"ncclAlltoAll", false, false},
                                          {"ncclGather", false, true},
                                          {"ncclScatter", false, true},
                                          {"ncclSend", false, false},
                                          {"ncclRecv", false, false}}};

struct TypeRow {
    const char* name;
    std::size_t size;
};

constexpr std::array<TypeRow, ncclNumTypes> kTypes{{{"int8", 1},
                                                    {"uint8", 1},
                                                    {"int32", 4},
                                                    {"uint32", 4},
                                                    {"int64", 8},
                                                    {"uint64", 8},
                                                    {"float16", 2},
                                                    {"float32", 4},
                                                    {"float64", 8},
                                                    {"bfloat16", 2},
                                                    {"float8e4m3", 1},
                                                    {"float8e5m2", 1}}};

constexpr std::array<const char*, 6> kOps{"sum", "prod", "max", "min", "avg", "premulsum"};

const KindRow& row(Kind kind) {
    return kKinds[static_cast<std::size_t>(kind)];
}

}  // namespace

bool reduces(Kind kind) {
    return row(kind).reduces;
}
bool rooted(Kind kind) {
    return row(kind).rooted;
}
const char* name_of(Kind kind) {
    return row(kind).name;
}

std::size_t size_of(ncclDataType_t type) {
    return type < 0 || type >= ncclNumTypes ? 0 : kTypes[static_cast<std::size_t>(type)].size;
}

const char* type_name(int type) {
    return type < 0 || type >= ncclNumTypes ? "unknown type" : kTypes[static_cast<std::size_t>(type)].name;
}

const char* op_name(int op) {
    return op < 0 || op >= static_cast<int>(kOps.size()) ? "unknown operator" : kOps[static_cast<std::size_t>(op)];
}

std::string describe(const Call& call) {
    std::string text =
        std::string(name_of(call.kind)) + "(count " + std::to_string(call.count) + ", " + type_name(call.type);
    if (reduces(call.kind))
        text += std::string(", ") + op_name(call.op);
    if (rooted(call.kind))
        text += ", root " + std::to_string(call.root);
    if (point_to_point(call.kind))
        text += ", peer " + std::to_string(call.root);
    char place[80];
    std::snprintf(place, sizeof place, "), call %llu of communicator 0x%llx",
                  static_cast<unsigned long long>(call.serial), static_cast<unsigned long long>(call.comm));
    return text + place;
}

Fit compare(const Call& mine, const Call& theirs, bool strict) {
    const auto bytes = [](const Call& c) { return c.count * size_of(static_cast<ncclDataType_t>(c.type)); };
    if (bytes(mine) != bytes(theirs))
        return Fit::Differs;
    const bool same_elements = mine.count == theirs.count && mine.type == theirs.type;
    if (point_to_point(mine.kind))
        return strict && !same_elements ? Fit::Differs : Fit::Matches;
    if (mine.kind != theirs.kind || mine.root != theirs.root)
        return Fit::Differs;
    if ((strict || reduces(mine.kind)) && !same_elements)
        return Fit::Differs;
    return reduces(mine.kind) && mine.op != theirs.op ? Fit::Differs : Fit::Matches;
}

}  // namespace vgpu::nccl
