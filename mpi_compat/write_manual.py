"""Writes switchyard-routes(7): what happens to device memory in each call, by family and by what happens."""

import write_coverage

HEAD = r""".Dd November 21, 2026
.Dt SWITCHYARD-ROUTES 7
.Os Switchyard
.Sh NAME
.Nm switchyard-routes
.Nd what happens to device memory in each MPI call
.Sh DESCRIPTION
A call on host memory is the MPI library's own, whatever the call.
For a call on device memory this page says who carries it where
.Xr switchyard 7
has Switchyard in force; made from the table of calls of which the library is made.
.Pp
The carriers are
.Cm nccl ,
device to device,
.Cm peer ,
through device memory that processes of a host map, and
.Cm staged ,
by way of host memory.
Where a line names NCCL, it carries what is large enough
.Pq Ev SWITCHYARD_NCCL_THRESHOLD , SWITCHYARD_P2P_THRESHOLD ,
of a type and with an operator that NCCL can be given, and where all ranks that take part have device memory on GPUs of
their own; else the call is staged.
A run's report has each call's carrier and the reason:
.Dl switchyard run --report -n 4 -- ./app
"""
TAIL = r""".Sh SEE ALSO
.Xr switchyard 1 ,
.Xr switchyard-run 1 ,
.Xr switchyard 7
"""


def page(rows, families):
    parts = [HEAD]
    for family, title in families.items():
        inside = [row for row in rows if row.family == family and write_coverage.meaning(row)]
        if not inside:
            continue
        parts.append(f".Sh {title.upper()}\n.Bl -tag -width Ds\n")
        for meaning in write_coverage.ALL:
            names = [row.name for row in inside if write_coverage.meaning(row) == meaning]
            if names:
                parts.append(f".It {words(meaning)}\n" + " ,\n".join(f".Fn {name}" for name in names) + "\n")
        parts.append(".El\n")
    return "".join(parts) + TAIL


def words(text):
    """Returns the text as one argument of a macro, with quotes doubled."""
    return '"' + text.replace('"', '""') + '"'
