// In a job that survives the loss of processes (error/loss.hpp): what this process does when MPI knows of a failed
// rank, or of a communicator that has been revoked. A service of the engine looks for both now and then.
#pragma once

#include <vector>

namespace swy::comm {

// Has the rank of MPI_COMM_WORLD failed, as far as this process has heard? False in every other job.
bool is_lost(int world_rank);

// Returns the first of these ranks of MPI_COMM_WORLD that has failed, as its place among them; -1 where none has.
int first_lost(const std::vector<int>& world);

// Has one of these ranks of MPI_COMM_WORLD failed, as far as MPI knows now? Then all ranks have that as the cause of
// their error, in ULFM's class, and none tells the others what has failed here in consequence.
bool all_hear_of_it(const std::vector<int>& world);

// Called under the engine's lock after the service has found something new; p2p ends the messages that it concerns.
using LossHandler = void (*)();
void start_losses(LossHandler handler);  // after start_control()
void stop_losses();

}  // namespace swy::comm
