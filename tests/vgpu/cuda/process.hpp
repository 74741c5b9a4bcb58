// Starts processes for tests of a whole process: its environment, its first call, its death, the memory that it shares
// with others. The test program runs one of its own DISABLED_ tests in them.
#pragma once

#include <map>
#include <string>

namespace vgpu::test {

using Environment = std::map<std::string, std::string>;

// A running process; its standard output and error come through a pipe, its standard input is one too.
class Process {
  public:
    // `test` is Suite.DISABLED_Name.
    Process(const std::string& test, const Environment& environment);
    ~Process();
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    // Reads until a line begins with `word`; the rest of that line. Fails the test at the end of output.
    std::string await(const std::string& word);
    void tell(const std::string& line);
    void kill(int signal);
    // Waits for the end; at most 60 s.
    void finish();

    int status = 0;      // as waitpid gives it, after finish
    std::string output;  // all that was read

  private:
    bool read_line(std::string& line);
    int process_ = -1;
    int from_ = -1;
    int to_ = -1;
    std::string buffer_;
};

struct Ended {
    int status;
    std::string output;
    bool passed() const { return status == 0; }
    bool killed_by(int signal) const { return (status & 0x7f) == signal; }
};

// Runs a test in a new process to its end.
Ended run(const std::string& test, const Environment& environment = {});

// An hwloc XML file that lists GPUs at PCI addresses that no other process uses, so that what processes share per
// device is this test's alone. Removed with the object.
class OwnDevices {
  public:
    explicit OwnDevices(int count);
    ~OwnDevices();
    OwnDevices(const OwnDevices&) = delete;
    OwnDevices& operator=(const OwnDevices&) = delete;
    const std::string& file() const { return file_; }

  private:
    std::string file_;
};

}  // namespace vgpu::test
