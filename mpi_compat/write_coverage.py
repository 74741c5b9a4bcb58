"""Writes the coverage page: every function, its class, and what happens to a device buffer in it."""

MEANINGS = {
    "routed": "NCCL where the ranks agree on it, else staged",
    "matched": "NCCL or staged, once MPI has matched the message",
    "enqueued": "NCCL in the order of a CUDA stream where the communicator's ranks can, else staged",
    "staged": "staged through host memory",
    "erroneous": "MPI error: the function takes host memory alone",
    "unread": "only the address is used",
    "": "",
}
OF_LISTS = "NCCL where each buffer of a process is on a device of its own and all ranks can, else staged"

OF_WINDOWS = "the origin's work on the target's memory where the window's ranks map it, else staged"
ALL = (*filter(None, MEANINGS.values()), OF_LISTS, OF_WINDOWS)


def meaning(row):
    if row.has("lists"):
        return OF_LISTS
    if row.makes_window or row.named("target_disp"):
        return OF_WINDOWS
    return MEANINGS[row.treatment] if row.has("buffers") else ""


def page(rows, families):
    parts = ["""# Coverage: MPI's functions and device buffers

Made from `mpi_compat/calls` by `make coverage-page`. A function that carries no buffer needs no wrapper: it is the MPI library's own.
Functions that are not in MPI 3.1 have wrappers where the MPI beneath has the function.
""", summary(rows)]
    for family, title in families.items():
        inside = [r for r in rows if r.family == family]
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n| function | defined in | class | blocking | device buffer |\n"
                     "| --- | --- | --- | --- | --- |\n" + "\n".join(line(r) for r in inside) + "\n")
    return "\n".join(parts)


def line(row):
    where = f"{row.document} {row.section}".strip()
    kinds = ", ".join(["buffers"] * row.has("lists") + [k for k in row.kinds if k != "none"]) or "-"
    if row.has("removed"):
        kinds += " (removed from MPI)"
    return f"| {row.name} | {where} | {kinds} | {'yes' if row.has('blocking') else ''} | {meaning(row)} |"


def summary(rows):
    lines = ["| device buffers are | functions |", "| --- | --- |"]
    for what in ALL:
        lines.append(f"| {what} | {sum(meaning(r) == what for r in rows)} |")
    lines.append(f"| not there: the function carries none | {sum(not meaning(r) for r in rows)} |")
    return "\n".join(lines) + "\n"
