// The eight ways to complete an array of requests, each until all are complete, and what they say of each request.
// handles.cpp and requests.cpp alone.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace ways {

// The completion functions: MPI's, or what is behind the wrappers.
struct Functions {
    decltype(&MPI_Wait) wait;
    decltype(&MPI_Waitany) waitany;
    decltype(&MPI_Waitall) waitall;
    decltype(&MPI_Waitsome) waitsome;
    decltype(&MPI_Test) test;
    decltype(&MPI_Testany) testany;
    decltype(&MPI_Testall) testall;
    decltype(&MPI_Testsome) testsome;
};

inline int failures = 0;

inline void expect(bool condition, const std::string& text) {
    if (condition)
        return;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
    ++failures;
}

inline int class_of(int code) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class;
}

// What has been said of one request.
struct Said {
    MPI_Status status{};
    int error = MPI_SUCCESS;  // class
    bool completed = false;   // by name: waitany and its like do not name null and inactive requests
};

enum class Way { kWait, kWaitany, kWaitall, kWaitsome, kTest, kTestany, kTestall, kTestsome };
inline constexpr Way kWays[] = {Way::kWait, Way::kWaitany, Way::kWaitall, Way::kWaitsome,
                                Way::kTest, Way::kTestany, Way::kTestall, Way::kTestsome};
inline const char* name(Way way) {
    constexpr const char* kNames[] = {"MPI_Wait", "MPI_Waitany", "MPI_Waitall", "MPI_Waitsome",
                                      "MPI_Test", "MPI_Testany", "MPI_Testall", "MPI_Testsome"};
    return kNames[static_cast<int>(way)];
}

// Open MPI leaves requests pending when another one of the array has failed, as MPI allows (MPI 4.0 section 3.7.5):
// they are to be completed by another call. True when there are such. MPI_ERR_IN_STATUS comes if and only if a status
// has an error, and no other error comes.
inline bool take_over(Way way, int code, const std::vector<MPI_Status>& statuses, int count, const int* indices,
                      std::vector<Said>& said) {
    const bool in_status = class_of(code) == MPI_ERR_IN_STATUS;
    expect(in_status || code == MPI_SUCCESS, std::string(name(way)) + " returns " + std::to_string(code));
    bool any = false;
    bool pending = false;
    for (int k = 0; k < count; ++k) {
        const MPI_Status& status = statuses[static_cast<std::size_t>(k)];
        const int error = in_status ? class_of(status.MPI_ERROR) : MPI_SUCCESS;
        any = any || error != MPI_SUCCESS;
        if (error == MPI_ERR_PENDING) {
            pending = true;
            continue;
        }
        Said& one = said[static_cast<std::size_t>(indices != nullptr ? indices[k] : k)];
        if (indices == nullptr && one.completed)  // null by now
            continue;
        expect(!one.completed, std::string(name(way)) + " completes a request twice");
        one = {status, error, true};
    }
    expect(any == in_status, std::string(name(way)) + ": MPI_ERR_IN_STATUS does not agree with the statuses");
    return pending;
}

inline void each(const Functions& f, Way way, std::vector<MPI_Request>& requests, std::vector<Said>& said) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
        int flag = 0;
        int code = MPI_SUCCESS;
        while (flag == 0 && code == MPI_SUCCESS) {
            flag = 1;
            code = way == Way::kWait ? f.wait(&requests[i], &said[i].status)
                                     : f.test(&requests[i], &flag, &said[i].status);
        }
        said[i].error = class_of(code);
        said[i].completed = true;
    }
}

inline void any(const Functions& f, Way way, std::vector<MPI_Request>& requests, std::vector<Said>& said) {
    const int count = static_cast<int>(requests.size());
    for (;;) {
        int index = -7;
        int flag = 1;
        MPI_Status status;
        const int code = way == Way::kWaitany ? f.waitany(count, requests.data(), &index, &status)
                                              : f.testany(count, requests.data(), &index, &flag, &status);
        if (flag == 0)
            continue;
        if (index == MPI_UNDEFINED)
            return;
        Said& one = said[static_cast<std::size_t>(index)];
        expect(!one.completed, std::string(name(way)) + " completes a request twice");
        one = {status, class_of(code), true};
    }
}

inline void all(const Functions& f, Way way, std::vector<MPI_Request>& requests, std::vector<Said>& said) {
    const int count = static_cast<int>(requests.size());
    std::vector<MPI_Status> statuses(requests.size());
    for (bool pending = true; pending;) {
        int flag = 0;
        int code = MPI_SUCCESS;
        while (flag == 0) {
            flag = 1;
            code = way == Way::kWaitall ? f.waitall(count, requests.data(), statuses.data())
                                        : f.testall(count, requests.data(), &flag, statuses.data());
        }
        pending = take_over(way, code, statuses, count, nullptr, said);
    }
}

inline void some(const Functions& f, Way way, std::vector<MPI_Request>& requests, std::vector<Said>& said) {
    const int count = static_cast<int>(requests.size());
    for (;;) {
        std::vector<MPI_Status> statuses(requests.size());
        std::vector<int> indices(requests.size());
        int completed = -7;
        const int code = way == Way::kWaitsome
                             ? f.waitsome(count, requests.data(), &completed, indices.data(), statuses.data())
                             : f.testsome(count, requests.data(), &completed, indices.data(), statuses.data());
        if (completed == MPI_UNDEFINED)
            return;
        take_over(way, code, statuses, completed, indices.data(), said);
    }
}

// Completes all of them.
inline std::vector<Said> complete(const Functions& f, Way way, std::vector<MPI_Request>& requests) {
    std::vector<Said> said(requests.size());
    switch (way) {
        case Way::kWait:
        case Way::kTest:
            each(f, way, requests, said);
            break;
        case Way::kWaitany:
        case Way::kTestany:
            any(f, way, requests, said);
            break;
        case Way::kWaitall:
        case Way::kTestall:
            all(f, way, requests, said);
            break;
        default:
            some(f, way, requests, said);
    }
    return said;
}

// MPI's empty status (MPI 4.0 section 3.7.3) is {MPI_ANY_SOURCE, MPI_ANY_TAG, 0}.
struct Wanted {
    int source = MPI_ANY_SOURCE;
    int tag = MPI_ANY_TAG;
    int bytes = 0;
    bool cancelled = false;
    int error = MPI_SUCCESS;
};

inline void compare(const std::string& what, const MPI_Status& status, const Wanted& wanted) {
    int bytes = -1;
    int cancelled = -1;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    MPI_Test_cancelled(&status, &cancelled);
    expect(status.MPI_SOURCE == wanted.source, what + ": source " + std::to_string(status.MPI_SOURCE));
    expect(status.MPI_TAG == wanted.tag, what + ": tag " + std::to_string(status.MPI_TAG));
    expect(bytes == wanted.bytes, what + ": " + std::to_string(bytes) + " bytes");
    expect((cancelled != 0) == wanted.cancelled, what + ": cancelled " + std::to_string(cancelled));
}

}  // namespace ways
