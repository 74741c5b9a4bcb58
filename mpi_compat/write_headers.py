"""Writes call_ids.hpp, real.hpp and real.cpp from the table's rows."""

import re

WARNING = "// Made by mpi_compat/generate.py from mpi_compat/calls: do not edit.\n"


def call_id(name):
    """MPI_Reduce_scatter_block -> kReduceScatterBlock; MPIX_Bcast_init -> kXBcastInit."""
    prefix, rest = name.split("_", 1)
    return "k" + ("X" if prefix == "MPIX" else "") + "".join(w[:1].upper() + w[1:] for w in rest.split("_"))


def family_id(family):
    return "k" + "".join(w.capitalize() for w in family.split("_"))


def real_name(name):
    """MPI_Send -> Send; MPIX_Bcast_init -> XBcast_init."""
    prefix, rest = name.split("_", 1)
    return ("X" if prefix == "MPIX" else "") + rest


def blocking_form(row, rows):
    """The blocking function with int counts that does the same; the row's own name where there is none."""
    name = row.small or row.name
    name = re.sub("^MPIX_", "MPI_", name).removesuffix("_init")
    name = re.sub("^MPI_I([a-z])", lambda m: "MPI_" + m[1].upper(), name)
    name = re.sub("^MPI_File_i(read|write)", r"MPI_File_\1", name)
    name = re.sub("^(MPI_File_.*)_(begin|end)$", r"\1", name)
    return name if any(r.name == name and r.has("buffers") for r in rows) else row.name


def treatment_id(row):
    return "k" + (row.treatment or "none").capitalize()


def call_ids(rows, families):
    rows = [r for r in rows if r.has_id]
    used = [f for f in families if any(r.family == f for r in rows)]
    ids = "\n".join(f"    {call_id(r.name)}," for r in rows)
    facts = "\n".join(f'    {{"{r.name}", Treatment::{treatment_id(r)}, Family::{family_id(r.family)}, '
                      f'{"true" if r.has("blocking") else "false"}, CallId::{call_id(blocking_form(r, rows))}}},' for r in rows)
    kinds = "\n".join(f"    {family_id(f)}," for f in used)
    names = "\n".join(f'    "{families[f]}",' for f in used)
    return f"""{WARNING}// The calls that Switchyard knows by name: those with buffers, those that handle
// requests or communicators, and those that initialise and finalise the library. The numbers are the same whatever the
// MPI in use has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace swy {{

enum class CallId : std::uint16_t {{
{ids}
}};
inline constexpr int kCallIds = {len(rows)};

// What happens to a device buffer.
enum class Treatment : std::uint8_t {{
    kNone,     // the call has no buffers
    kRouted,   // NCCL where the ranks agree on it, else staged
    kMatched,  // NCCL or staged, as both ends agree once MPI has matched the message; probes have no buffers
    kEnqueued, // NCCL in the order of a CUDA stream, else staged (src/ext/stream)
    kStaged,   // host copy, the real call, copy back
    kErroneous,  // an error: device memory is never right here
    kUnread,   // the address is only a number in this call
}};

enum class Family : std::uint8_t {{
{kinds}
}};
inline constexpr int kFamilies = {len(used)};

struct CallFacts {{
    std::string_view name;
    Treatment treatment;
    Family family;
    bool blocking;
    CallId blocking_form;  // the blocking call with int counts that does the same; the call itself where there is none
}};

inline constexpr std::array<CallFacts, kCallIds> kCallFacts{{{{
{facts}
}}}};

inline constexpr std::array<std::string_view, kFamilies> kFamilyNames{{{{
{names}
}}}};

constexpr const CallFacts& facts(CallId id) {{ return kCallFacts[static_cast<std::size_t>(id)]; }}
constexpr std::string_view name(CallId id) {{ return facts(id).name; }}  // "MPI_Send"
constexpr std::string_view name(Family family) {{ return kFamilyNames[static_cast<std::size_t>(family)]; }}
constexpr Treatment treatment(CallId id) {{ return facts(id).treatment; }}
constexpr Family family(CallId id) {{ return facts(id).family; }}
constexpr bool blocking(CallId id) {{ return facts(id).blocking; }}
constexpr CallId blocking_form(CallId id) {{ return facts(id).blocking_form; }}

}}  // namespace swy
"""


def callable_rows(present):
    return [r for r in present if not (r.has("macro") or r.has("variadic") or r.has("removed"))]


def pointer(row, name):
    arguments = ", ".join(a.anonymous() for a in row.arguments) or "void"
    return f"{row.result} (*{name})({arguments})"


def persistent_allreduce(rows, present):
    """real::persistent_allreduce."""
    for name in ("MPI_Allreduce_init", "MPIX_Allreduce_init"):
        if any(r.name == name for r in present):
            return f"inline auto& persistent_allreduce = {real_name(name)};"
    return f"inline {pointer(next(r for r in rows if r.name == name), 'persistent_allreduce')} = nullptr;"


def real_header(rows, present):
    lines = "\n".join(f"extern {pointer(r, real_name(r.name))};" for r in callable_rows(present))
    names = {r.name for r in present}
    absent = "\n".join(f"inline {pointer(r, real_name(r.name))} = nullptr;" for r in rows
                       if r.small and r.name.startswith("MPI_I") and r.has("routed") and r.name not in names)
    return f"""{WARNING}// The real MPI functions: real::Send is the underlying MPI library's MPI_Send
// (MPIX_X is real::XX). All of Switchyard calls MPI through these and by no other name, so that it neither calls its own
// wrappers nor shows up in a profiling tool. Each is a pointer that finds its function at its first call.
#pragma once

#include <mpi.h>

#pragma GCC visibility push(hidden)
namespace swy::real {{

{lines}

// MPI_Allreduce_init under the name that this MPI has for it; null where it has none.
{persistent_allreduce(rows, present)}

// The large-count forms that this MPI does not have.
{absent}

}}  // namespace swy::real
#pragma GCC visibility pop
"""


def gated_calls(present):
    """The rows of src/comm/gates.cpp."""
    rows = [r for r in callable_rows(present) if r.collective]
    makes = [any(a.type in ("MPI_Win *", "MPI_File *") for a in r.arguments) for r in rows]
    lines = "\n".join(f"{'SWY_GATED_AND_KEPT' if m else 'SWY_GATED'}({real_name(r.name)})" for r, m in zip(rows, makes))
    return f"""{WARNING}// The blocking calls that are collective over a communicator, a window or a file: X of MPI_X.
// Those that make a window or a file are SWY_GATED_AND_KEPT.
{lines}
"""


def real_source(present):
    rows = callable_rows(present)
    names = "\n".join(f'    "P{r.name}",' for r in rows)
    lines = "\n".join(f"{pointer(r, real_name(r.name))} = First<&{real_name(r.name)}, {i}>::call;"
                      for i, r in enumerate(rows))
    return f"""{WARNING}#include "real.hpp"

#include "call/resolve.hpp"

namespace swy::real {{

constinit const char* const kNames[] = {{
{names}
    nullptr,
}};

{lines}

}}  // namespace swy::real
"""
