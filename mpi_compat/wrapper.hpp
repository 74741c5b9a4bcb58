// What the generated wrappers use. Only they include it.
#pragma once

#include <mpi.h>

#include "call/call.hpp"
#include "call/entry_point.hpp"
#include "call_ids.hpp"
#include "coll/comm_created.hpp"
#include "datatype/extension.hpp"
#include "dispatch/dispatch.hpp"
#include "error/unless_thrown.hpp"
#include "fastpath/collective.hpp"
#include "fastpath/driver_watch.hpp"
#include "fastpath/message.hpp"
#include "p2p/point_to_point.hpp"
#include "real.hpp"
#include "window/window.hpp"
