// What src/request asks of p2p about watched receives (request/handle.hpp): MPI's own receives into host memory that do
// not block, in which an envelope may arrive. service.cpp hands these functions over.
#pragma once

#include <mpi.h>

#include <memory>

#include "pack/payload.hpp"
#include "progress/operation.hpp"
#include "request/handle.hpp"

namespace swy::p2p {

pack::Payload host_payload(const request::HostReceive& receive);

std::shared_ptr<progress::Operation> envelope_arrived(request::HostReceive& receive, const MPI_Status& status);
bool shows_envelope(const request::HostReceive& receive);
std::shared_ptr<progress::Operation> go_on(request::HostReceive& receive, MPI_Request request);

}  // namespace swy::p2p
