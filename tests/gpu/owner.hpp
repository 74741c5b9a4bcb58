// Another process with device memory, for the checks of tests/gpu that open an IPC handle. Test programs only.
#pragma once

#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "../mpi/gpu.hpp"

namespace gpu {

// It lives as long as this object, which is made before this process uses the driver: that does not outlive a fork.
class Owner {
  public:
    explicit Owner(std::size_t bytes) {
        int handle[2], end[2];
        if (pipe(handle) != 0 || pipe(end) != 0 || (child_ = fork()) < 0) {
            std::perror("pipe and fork");
            std::exit(1);
        }
        close(handle[child_ == 0 ? 0 : 1]);
        close(end[child_ == 0 ? 1 : 0]);
        handle_ = handle[child_ == 0 ? 1 : 0];
        end_ = end[child_ == 0 ? 0 : 1];
        if (child_ == 0)
            own(bytes);
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
        close(end_);
        waitpid(child_, nullptr, 0);
        close(handle_);
    }
    // Once. Nothing when that process failed; it said why.
    std::optional<CUipcMemHandle> handle() const {
        CUipcMemHandle memory;
        if (read(handle_, &memory, sizeof memory) != sizeof memory)
            return std::nullopt;
        return memory;
    }

  private:
    [[noreturn]] void own(std::size_t bytes) const {
        Driver& driver = Driver::get();
        driver.use(0);
        const Memory device(Kind::kDevice, bytes);
        CUipcMemHandle memory;
        Driver::check("cuIpcGetMemHandle", driver.call<int(CUipcMemHandle*, CUdeviceptr)>("cuIpcGetMemHandle")(
                                               &memory, reinterpret_cast<CUdeviceptr>(device.address())));
        char nothing = 0;
        const bool over = write(handle_, &memory, sizeof memory) == sizeof memory && read(end_, &nothing, 1) == 0;
        _exit(over ? 0 : 1);
    }
    pid_t child_ = 0;
    int handle_ = -1, end_ = -1;
};

}  // namespace gpu
