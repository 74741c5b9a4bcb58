// VGPU_FAULTS: errors, hangs and deaths at the n-th call of a function, for libcuda, libcudart and libnccl alike.
//
//   VGPU_FAULTS = rule { ";" rule }      rule = function [ "[" rank "]" ] [ "@" n [ "-" m | "+" ] ] "=" what
//   what = an error's name | "hang" | "stop" | "die"
//
// Without "@n" every call is meant. Functions are named without version suffix: "cuMemAlloc" means cuMemAlloc_v2.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vgpu/private.h"

namespace vgpu {

struct FaultRule {
    std::string function;
    int rank = -1;  // -1: every rank
    std::uint64_t first = 1;
    std::uint64_t last = ~0ull;
    std::string what;
};

// The calls of one function in this process, and the rules that name it.
struct FaultPoint {
    std::string function;
    std::vector<const FaultRule*> rules;  // those of this rank
    std::atomic<std::uint64_t> calls{0};

    // Counts the call and returns the fault that applies to it. Does not return from "die".
    vgpu_fault_kind pass(const char** error_name);
};

// Returns the point of a function, which is never destroyed. Version and default-stream suffixes are removed.
FaultPoint& fault_point(std::string_view function);

// Parses all rules. Each that cannot be parsed, or that names a driver function or error for which `known_function` or
// `known_error` returns false, adds a complaint.
std::vector<std::string> check_faults(bool (*known_function)(std::string_view), bool (*known_error)(std::string_view));

std::string_view base_name(std::string_view function);

}  // namespace vgpu
