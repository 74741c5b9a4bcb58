#include "report/last_words.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <vector>

#include "report/flight.hpp"

namespace swy::report {
namespace {

namespace fs = std::filesystem;

// Seconds: a busy machine takes more than one to start the command. mpirun kills what is left about a second after
// SIGTERM; the command goes on then.
constexpr int kPatience = 3;
constexpr int kLongest = 5;  // seconds that `switchyard ended` may take

struct Signal {
    int number;
    const char* name;
    bool ends, is_fault;
    struct sigaction before {};
    bool taken = false;
};
constinit std::array<Signal, 10> signals = {{{SIGTERM, "SIGTERM", true, false},
                                             {SIGINT, "SIGINT", true, false},
                                             {SIGXCPU, "SIGXCPU", true, false},
                                             {SIGUSR2, "SIGUSR2", false, false},
                                             {SIGSEGV, "SIGSEGV", true, true},
                                             {SIGBUS, "SIGBUS", true, true},
                                             {SIGFPE, "SIGFPE", true, true},
                                             {SIGILL, "SIGILL", true, true},
                                             {SIGABRT, "SIGABRT", true, true},
                                             {SIGQUIT, "SIGQUIT", true, false}}};

// What a signal handler needs to start the command, made beforehand.
struct Command {
    std::vector<std::string> words, environment;
    std::vector<char*> argv, envp;
    std::size_t why = 0;  // the place in argv of what has ended the process
    pid_t of = 0;         // its number: a process that it forks has the handlers too, and is no rank
};
Command command;
void (*traces)() = nullptr;
constinit std::atomic<bool> active{false};

std::string command_path() {
    Dl_info library{};
    std::error_code problem;
    if (dladdr(reinterpret_cast<const void*>(&begin_last_words), &library) == 0 || library.dli_fname == nullptr)
        return {};
    const fs::path folder = fs::canonical(library.dli_fname, problem).parent_path();
    if (problem)
        return {};
    // In a build folder the library is in libtool's .libs.
    const fs::path path = folder.filename() == ".libs" ? folder.parent_path() / "switchyard"
                                                       : (folder / SWY_BIN_FROM_LIB).lexically_normal() / "switchyard";
    return access(path.c_str(), X_OK) == 0 ? path.string() : std::string();
}

void prepare(const std::string& path, const std::string& report) {
    command.words = {path, "ended", std::to_string(getpid()), "", report};
    command.why = 3;
    command.of = getpid();
    command.environment.clear();
    for (char** variable = environ; *variable != nullptr; ++variable)
        if (!std::string_view(*variable).starts_with("LD_PRELOAD="))
            command.environment.emplace_back(*variable);
    for (auto [texts, pointers] :
         {std::pair(&command.words, &command.argv), std::pair(&command.environment, &command.envp)}) {
        pointers->clear();
        for (std::string& text : *texts)
            pointers->push_back(text.data());
        pointers->push_back(nullptr);
    }
}

// What a child may be told by signals is its time limit: mpirun's for this process is no reason to end it.
void become_child() {
    struct sigaction by_default {};
    by_default.sa_handler = SIG_DFL;
    sigaction(SIGALRM, &by_default, nullptr);
    sigset_t limit;
    sigemptyset(&limit);
    sigaddset(&limit, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &limit, nullptr);
    setsid();
    alarm(kLongest);
}

// A copy of the process with this thread alone. fork() would run the handlers of pthread_atfork, which may wait for
// locks that the interrupted code holds.
pid_t copy_process() {
    return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

// Has a copy of the process write the trace. Where the interrupted code held a lock of the allocator's it waits for it
// until its time is over.
pid_t start_trace() {
    const pid_t child = traces != nullptr ? copy_process() : 0;
    if (traces == nullptr || child != 0)
        return child;
    become_child();
    traces();
    _exit(0);
}

// Starts the command and waits for it, some seconds at most. Calls nothing that a signal handler may not.
void tell(const char* why, bool ends, int patience) {
    if (getpid() != command.of)
        return;
    if (ends)
        flight::ends(why);
    command.argv[command.why] = const_cast<char*>(why);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t trace = ends ? start_trace() : 0;
    pid_t child = vfork();
    if (child == 0) {
        become_child();
        execve(command.argv[0], command.argv.data(), command.envp.data());
        _exit(127);
    }
    constexpr long kPause = 5'000'000;  // nanoseconds
    for (long waited = 0; waited < patience * 1'000'000'000L; waited += kPause) {
        for (pid_t* one : {&child, &trace})
            if (*one > 0 && (waitpid(*one, nullptr, WNOHANG) == *one || errno == ECHILD))
                *one = 0;
        if (child <= 0 && trace <= 0)
            break;
        const timespec pause = {0, kPause};
        nanosleep(&pause, nullptr);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

extern "C" void swy_last_words(int number, siginfo_t* facts, void* context) {
    const int error = errno;
    for (Signal& signal : signals) {
        if (signal.number != number)
            continue;
        if (!signal.ends || active.exchange(false))
            tell(signal.name, signal.ends, kPatience);
        if (!signal.ends)
            break;
        struct sigaction by_default {};
        by_default.sa_handler = SIG_DFL;
        sigaction(number, &by_default, nullptr);
        if ((signal.before.sa_flags & SA_SIGINFO) != 0)
            signal.before.sa_sigaction(number, facts, context);
        raise(number);  // it ends the process when the handler returns
    }
    errno = error;
}

// Programs that forget MPI_Finalize, and those that exit when something is wrong.
void at_exit() {
    say_last_words("exit");
}

// What Open MPI installs at MPI_Init prints the stack and has the process end.
bool is_open_mpis(const struct sigaction& action) {
    Dl_info owner{};
    return (action.sa_flags & SA_SIGINFO) != 0 &&
           dladdr(reinterpret_cast<const void*>(action.sa_sigaction), &owner) != 0 && owner.dli_fname != nullptr &&
           std::string_view(owner.dli_fname).find("libopen-pal") != std::string_view::npos;
}

void take(Signal& signal) {
    if (sigaction(signal.number, nullptr, &signal.before) != 0)
        return;
    const bool by_default = (signal.before.sa_flags & SA_SIGINFO) == 0 && signal.before.sa_handler == SIG_DFL;
    if (!by_default && !(signal.is_fault && is_open_mpis(signal.before)))
        return;
    struct sigaction ours {};
    ours.sa_sigaction = swy_last_words;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    signal.taken = sigaction(signal.number, &ours, nullptr) == 0;
}

// Unless the program has its own by now.
void give_back(Signal& signal) {
    struct sigaction now {};
    if (signal.taken && sigaction(signal.number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == swy_last_words)
        sigaction(signal.number, &signal.before, nullptr);
    signal.taken = false;
}

}  // namespace

void begin_last_words(const std::string& report, void (*write_trace)()) {
    traces = write_trace;
    const std::string path = command_path();
    if (path.empty())
        return;
    prepare(path, report);
    static const bool registered = std::atexit(at_exit) == 0;
    active = registered;
    for (Signal& signal : signals)
        take(signal);
}

void say_last_words(const char* why) {
    if (active.exchange(false))
        tell(why, true, kLongest);
}

void say_what_ranks_are_in(const char* why) {
    if (active)
        tell(why, false, kLongest);
}

void end_last_words() {
    active = false;
    for (Signal& signal : signals)
        give_back(signal);
}

}  // namespace swy::report
