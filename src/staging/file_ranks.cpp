#include "staging/file_ranks.hpp"

#include <map>
#include <mutex>

#include "call/depth.hpp"
#include "call/job.hpp"
#include "call/private_comm.hpp"
#include "comm/state.hpp"
#include "real.hpp"
#include "staging/split.hpp"

namespace swy::staging {
namespace {

class FileRanks {
  public:
    void keep(MPI_File file, MPI_Comm ranks) {
        const std::scoped_lock lock(mutex_);
        of_[file] = ranks;
    }
    MPI_Comm of(MPI_File file) {
        const std::scoped_lock lock(mutex_);
        const auto found = of_.find(file);
        return found != of_.end() ? found->second : MPI_COMM_NULL;
    }
    MPI_Comm take(MPI_File file) {
        const std::scoped_lock lock(mutex_);
        const auto found = of_.extract(file);
        return found.empty() ? MPI_COMM_NULL : found.mapped();
    }

  private:
    std::mutex mutex_;
    std::map<MPI_File, MPI_Comm> of_;
};

FileRanks& file_ranks() {
    static auto* all = new FileRanks;  // not destroyed at exit
    return *all;
}

// What is no communicator of this job's ranks is MPI's to refuse, or has none.
MPI_Comm make_ranks(MPI_Comm comm) {
    const comm::State* state = call::job_agrees && comm != MPI_COMM_NULL ? comm::of(comm) : nullptr;
    MPI_Comm made = MPI_COMM_NULL;
    if (state != nullptr && !state->inter && !state->spans_jobs)
        call::make_private_comm(comm, &made);
    return made;
}

void free(MPI_Comm ranks) {
    if (ranks != MPI_COMM_NULL)
        real::Comm_free(&ranks);
}

}  // namespace

// The communicator is made first: an opening may fail on some of the ranks.
int open_file(MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* file) {
    MPI_Comm ranks = MPI_COMM_NULL;
    if (!call::inside()) {
        const call::Inside guard;
        ranks = make_ranks(comm);
    }
    const int code = real::File_open(comm, filename, amode, info, file);
    if (code == MPI_SUCCESS && ranks != MPI_COMM_NULL)
        file_ranks().keep(*file, ranks);
    else
        free(ranks);
    return code;
}

int close_file(MPI_File* file) {
    const int ended = end_split_of(*file);
    const MPI_Comm ranks = file_ranks().take(*file);
    const int code = real::File_close(file);
    const call::Inside guard;
    free(ranks);
    return code == MPI_SUCCESS ? ended : code;
}

long long greatest_of_ranks(MPI_File file, long long number) {
    const MPI_Comm ranks = file_ranks().of(file);
    if (ranks == MPI_COMM_NULL)
        return 1;
    long long greatest = number;
    return real::Allreduce(&number, &greatest, 1, MPI_LONG_LONG, MPI_MAX, ranks) == MPI_SUCCESS ? greatest : 1;
}

}  // namespace swy::staging
