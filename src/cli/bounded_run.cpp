#include "cli/bounded_run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace swy::cli {

namespace {

using namespace std::chrono_literals;

constexpr long kMostOutput = 4096;

[[noreturn]] void become_with_output(const Launch& launch, int output) {
    setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    for (const auto& [name, value] : launch.added)
        setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> arguments;
    for (const std::string& argument : launch.arguments)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "%s: %s\n", arguments[0], std::strerror(errno));
    _exit(127);
}

bool ended_within(pid_t child, int& status, std::chrono::duration<double> time,
                  const std::function<void()>& meanwhile = {}) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        if (meanwhile)
            meanwhile();
        std::this_thread::sleep_for(20ms);
    }
    return true;
}

std::string last_lines(std::FILE* file) {
    std::fseek(file, 0, SEEK_END);
    const long size = std::ftell(file);
    std::fseek(file, size > kMostOutput ? size - kMostOutput : 0, SEEK_SET);
    std::string text(static_cast<std::size_t>(kMostOutput), '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    return text;
}

}  // namespace

Ended run_bounded(const Launch& launch, double seconds, const std::function<void()>& meanwhile) {
    Ended ended;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(std::tmpfile(), std::fclose);
    if (output == nullptr)
        return {127, false, std::string("no temporary file: ") + std::strerror(errno)};
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0)
        become_with_output(launch, fileno(output.get()));
    if (child < 0)
        return {127, false, std::strerror(errno)};
    int status = 0;
    if (!ended_within(child, status, std::chrono::duration<double>(seconds), meanwhile)) {
        ended.late = true;
        kill(-child, SIGTERM);  // mpirun ends its ranks
        if (!ended_within(child, status, 5s)) {
            kill(-child, SIGKILL);
            waitpid(child, &status, 0);
        }
    }
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ended.output = last_lines(output.get());
    return ended;
}

}  // namespace swy::cli
