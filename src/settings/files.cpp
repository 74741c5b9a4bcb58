#include "settings/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace swy::settings {
namespace {

constexpr mode_t kMode = 0666;  // less the program's umask

std::string failed(const std::string& path) {
    return fmt::format("{}: {}", path, std::strerror(errno));
}

}  // namespace

std::string not_regular(const std::string& path) {
    struct stat facts {};
    if (stat(path.c_str(), &facts) != 0 || S_ISREG(facts.st_mode))
        return {};
    if (S_ISDIR(facts.st_mode))
        return fmt::format("{}: {}", path, std::strerror(EISDIR));
    return fmt::format("{}: is a {}, not a regular file", path,
                       S_ISFIFO(facts.st_mode) ? "pipe" : "device or a socket");
}

std::string read_file(const std::string& path, std::string& text) {
    text.clear();
    if (std::string problem = not_regular(path); !problem.empty())
        return problem;
    std::FILE* const file = std::fopen(path.c_str(), "rb");
    if (file == nullptr)
        return failed(path);
    std::array<char, BUFSIZ> block{};
    for (std::size_t read = 0; (read = std::fread(block.data(), 1, block.size(), file)) != 0;)
        text.append(block.data(), read);
    const bool whole = std::ferror(file) == 0;
    std::string problem = whole ? std::string{} : failed(path);
    std::fclose(file);
    return problem;
}

std::FILE* open_to_write(const std::string& path) {
    // Opening a pipe waits for a reader, unless it is not to block; writing to one that is read may wait.
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, kMode);
    if (descriptor < 0)
        return nullptr;
    const int flags = fcntl(descriptor, F_GETFL);
    std::FILE* const file =
        flags >= 0 && fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) == 0 ? fdopen(descriptor, "w") : nullptr;
    if (file == nullptr)
        close(descriptor);
    return file;
}

}  // namespace swy::settings
