#include "report/last_words.hpp"

#include <dlfcn.h>
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

namespace swy::report {
namespace {

namespace fs = std::filesystem;

constexpr int kPatience = 1;  // seconds: mpirun kills what is left about a second after SIGTERM
constexpr int kLongest = 5;   // seconds that `switchyard ended` may take where nobody waits for it

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
    const fs::path path =
        folder.filename() == ".libs"
            ? folder.parent_path() / "switchyard"
            : (folder / fs::path(SWY_BINDIR).lexically_relative(SWY_LIBDIR)).lexically_normal() / "switchyard";
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

// Starts the command and waits for it, but not long. Calls nothing that a signal handler may not.
void tell(const char* why) {
    if (getpid() != command.of)
        return;
    command.argv[command.why] = const_cast<char*>(why);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t child = vfork();
    if (child == 0) {
        // The command keeps all signals but its time limit blocked: mpirun's for this process is no reason to end it.
        struct sigaction by_default {};
        by_default.sa_handler = SIG_DFL;
        sigaction(SIGALRM, &by_default, nullptr);
        sigset_t limit;
        sigemptyset(&limit);
        sigaddset(&limit, SIGALRM);
        sigprocmask(SIG_UNBLOCK, &limit, nullptr);
        setsid();
        alarm(kLongest);
        execve(command.argv[0], command.argv.data(), command.envp.data());
        _exit(127);
    }
    constexpr long kPause = 5'000'000;  // nanoseconds
    for (long waited = 0; child > 0 && waited < kPatience * 1'000'000'000L; waited += kPause) {
        const pid_t ended = waitpid(child, nullptr, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR))
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
            tell(signal.name);
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

// Programs that forget MPI_Finalize, and those that exit when something is wrong. The rank that calls MPI_Abort ends
// without a word; the others get SIGTERM then.
void at_exit() {
    if (active.exchange(false))
        tell("exit");
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

void begin_last_words(const std::string& report) {
    const std::string path = command_path();
    if (path.empty())
        return;
    prepare(path, report);
    static const bool registered = std::atexit(at_exit) == 0;
    active = registered;
    for (Signal& signal : signals)
        take(signal);
}

void end_last_words() {
    active = false;
    for (Signal& signal : signals)
        give_back(signal);
}

}  // namespace swy::report
