// Messages of unknown size between jobs: the programs' ranks and those that they spawn, whose Switchyard has settled
// nothing with theirs.
// clang-format off
// launch: -n 2 --gpus 2 --relinked
// launch: -n 2 --relinked
// test-timeout: 60
// clang-format on
#include <string_view>

#include "content.hpp"

using namespace message_test;

namespace {

constexpr int kTag = 2;

Message made(std::size_t metadata_bytes, std::size_t bytes, gpu::Kind kind) {
    Message message;
    message.number = metadata_bytes * 1000003 + bytes;
    message.metadata_bytes = metadata_bytes;
    message.bytes = bytes;
    message.kind = has_gpus ? kind : gpu::Kind::kHost;
    return message;
}

// One way and back, for each rank with the one of its number in the other group.
void exchange(MPI_Comm between, bool first) {
    const gpu::Kind into = has_gpus ? gpu::Kind::kDevice : gpu::Kind::kHost;
    for (const std::size_t bytes : {0, 900, 20000, 70000, 1500000}) {
        for (const gpu::Kind kind : {gpu::Kind::kHost, gpu::Kind::kDevice}) {
            const Message there = made(30, bytes, kind), back = made(61, bytes, kind);
            if (first)
                check(send(there, rank, kTag, between) == MPI_SUCCESS, "send of " + there.text());
            receive(into, MPI_ANY_SOURCE, kTag, between).is(first ? back : there, first ? "back" : "there");
            if (!first)
                check(send(back, rank, kTag, between) == MPI_SUCCESS, "send of " + back.text());
        }
    }
}

// As with the calls of one job, env(1) gives the new ranks what -x has given these.
MPI_Comm spawn(char* program) {
    std::vector<std::string> words;
    for (const char* name : {"LD_PRELOAD", "LD_LIBRARY_PATH", "VGPU_COUNT"})
        if (const char* value = std::getenv(name))
            words.push_back(std::string(name) + "=" + value);
    words.insert(words.end(), {program, "--child"});
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    char env[] = "/usr/bin/env";
    MPI_Comm between = MPI_COMM_NULL;
    MPI_Comm_spawn(env, arguments.data(), 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    return between;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    begin();
    const bool child = argc > 1 && std::string_view(argv[1]) == "--child";
    MPI_Comm between = MPI_COMM_NULL;
    if (child)
        MPI_Comm_get_parent(&between);
    else
        between = spawn(argv[0]);
    exchange(between, !child);
    MPI_Comm_disconnect(&between);
    return end();
}
