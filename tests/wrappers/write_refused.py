"""refused_calls.cpp: each erroneous call of the table that the MPI at hand has, once for each of its buffers.

Usage: write_refused.py SOURCE_FOLDER AVAILABLE OUTPUT
"""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "mpi_compat"))
import calls  # noqa: E402

BY_TYPE = {
    "MPI_Comm": "f.comm", "MPI_Win": "f.win", "MPI_File": "f.file", "MPI_Info": "MPI_INFO_NULL", "MPI_Op": "MPI_SUM",
    "MPI_Datatype": "MPI_INT", "MPI_Request *": "&f.request", "MPI_Message *": "&f.message", "MPI_Win *": "&f.made",
    "MPI_Status *": "MPI_STATUS_IGNORE", "MPI_Offset": "0", "MPI_Count": "1", "MPI_Aint": "16",
    "const int[]": "f.counts", "const MPI_Aint[]": "f.offsets", "const MPI_Datatype[]": "f.types",
}
BY_NAME = {"root": "f.rank", "dest": "f.peer", "source": "f.peer", "target_rank": "f.peer", "size": "16", "disp_unit": "4",
           "partitions": "2", "target_disp": "0", "displs": "f.displs", "sdispls": "f.displs", "rdispls": "f.displs"}


def value(row, argument, device, host):
    if argument.name == device:
        return "f.device"
    if argument.name in host:
        return f"f.host + {8 * host.index(argument.name)}"
    if argument.name in BY_NAME and argument.type != "const MPI_Aint":
        return BY_NAME[argument.name]
    if argument.type == "int":
        return "7" if "tag" in argument.name else "1"
    type_ = argument.type + argument.brackets
    if type_ not in BY_TYPE:
        sys.exit(f"write_refused.py: what to pass for {argument.declaration()} of {row.name}?")
    return BY_TYPE[type_]


def owner(row):
    found = row.owner()
    return "k" + found.type.removeprefix("MPI_") if found else "kNobody"


def line(row, device):
    host = [b.name for b in row.buffers]
    arguments = ", ".join(value(row, a, device, host) for a in row.arguments)
    return (f'        {{"{row.name}", "{device}", Asked::{owner(row)}, '
            f"[](Fixture& f) {{ return {row.name}({arguments}); }}}},")


def main():
    source, available, output = sys.argv[1:]
    symbols = set(pathlib.Path(available).read_text().split())
    rows = [r for r in calls.read(pathlib.Path(source) / "mpi_compat/calls")
            if r.treatment == "erroneous" and (not r.optional or r.name in symbols)]
    lines = "\n".join(line(r, b.name) for r in rows for b in r.buffers)
    pathlib.Path(output).write_text(f"""// Made by tests/wrappers/write_refused.py from the table of calls: do not edit.
#include <mpi.h>
#include <mpi-ext.h>

#include "tests/wrappers/sweep.hpp"

namespace sweep {{

// NOLINTBEGIN
std::vector<Refused> refused_calls() {{
    return {{
{lines}
    }};
}}
// NOLINTEND

}}  // namespace sweep
""")


if __name__ == "__main__":
    main()
