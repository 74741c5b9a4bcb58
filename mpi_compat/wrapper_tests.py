"""The tests by which a wrapper finds that a call may go to the real function: its buffers are host memory, and no other
rank waits for this one to take part in an agreement. One-sided calls have an address at their target besides, which may
be of device memory in dynamic windows."""

import re


def averages(row):
    """Tells whether the operator of the extensions that averages is one for this call."""
    return re.fullmatch("MPIX?_I?(all)?reduce(_scatter(_block)?)?(_init)?(_c)?", row.name, re.I) is not None


def calls_mpi_inside(row):
    """Tells whether MPI calls its own functions inside the call: MPI-IO does. Message passing on host memory calls no
    function of the program that may call MPI, except error handlers, whose calls are the program's own."""
    return not row.has("routed") and row.treatment != "matched"


def on_host(row, in_place_too=False):
    """The tests of the buffers. The CUDA driver is asked about them, so they come last where another test may fail."""
    sentinel = row.in_place.sentinel if in_place_too and row.in_place else None
    return [f"fastpath::{'in_place_or_on_host' if b.name == sentinel else 'on_host'}({b.name})" for b in row.buffers]


def has_unknown_size(row):
    """Tells whether the call is a blocking collective in which no rank knows how much the others pass, so that the ranks
    agree on some of the calls only (src/comm/agreement_interval.hpp)."""
    if not row.has("routed") or not row.has("blocking"):
        return False
    neighbours = any(b.shape.startswith(("sources", "targets")) for b in row.buffers)
    vectors = [b for b in row.buffers if b.shape.startswith("ranks_")]
    return neighbours or any(b.at_root for b in vectors) or len(vectors) > 1


def all_tests(row):
    """All tests, in stage `slow_`; none, so that the dispatcher gets every call, where displacements would have to be
    looked at."""
    if row.looks_for_envelopes:
        return receive_tests(row)
    if not row.buffers or any("_" in b.shape or b.shape == "address" or not buffer_type(b) for b in row.buffers):
        return []
    tests = [f"!datatype::averages({row.op().name})"] if averages(row) else []
    tests += ["window::none_special()"] if row.named("target_disp") else []
    types = list(dict.fromkeys(buffer_type(b) for b in row.buffers))
    if row.has("routed") and all(b.shape == "one" for b in row.buffers):
        tests += [f"fastpath::small({row.buffers[-1].count}, {t})" for t in types]
    elif row.has("routed") and all(b.shape in ("one", "ranks", "local") for b in row.buffers):
        # The buffer that every rank passes has the size of a block.
        sized = [b for b in row.buffers if not b.at_root][-1]
        rooted = any(b.at_root for b in row.buffers)
        tests += [f"{sized.name} != MPI_IN_PLACE"] if rooted else []
        tests += [f"fastpath::is_predefined({t})" for t in types if t != sized.type]
        tests += [f"fastpath::small_on_all({sized.count}, {sized.type}, {row.owner().name})"]
    else:
        together = row.makes_window or (row.has("pieces") and row.collective)
        tests += (["!call::job_agrees"] if row.has("routed") or together else []) + [f"fastpath::is_predefined({t})" for t in types]
    if row.treatment == "matched" and "ssend" in row.name.lower():
        tests += [f"!fastpath::is_as_long_as_envelope({b.count}, {b.type})" for b in row.buffers]
    return tests + on_host(row)


def buffer_type(buffer):
    return "MPI_BYTE" if buffer.shape == "bytes" else buffer.type


def receive_tests(row):
    """The tests of receives and probes. Requests that MPI makes inside its own calls complete unwatched. A receive that
    is large enough for a large message and must not block on it goes to the dispatcher at once."""
    outside = ["fastpath::outside_mpi()"] if row.has("requests") else []
    return outside + on_host(row) + received_types(row) + ["fastpath::none_probed()"]


def received_types(row):
    """The tests of the types, and of the size of what can be received."""
    both_ways = any(b.access == "inout" for b in row.buffers) or len(row.buffers) > 1
    if row.has("requests") and (both_ways or not row.name.startswith(("MPI_Irecv", "MPI_Imrecv"))):
        return [f"fastpath::is_predefined({b.type})" for b in row.buffers] + ["!fastpath::envelopes"]
    # A message found by a probe has been tested; a blocking receive may block on any message. While one of two
    # directions waits for a large message the other must go on.
    limited = both_ways or row.name.startswith("MPI_Irecv")
    return [f"fastpath::under_limit({b.count}, {b.type})" if limited and b.access != "in" else
            f"fastpath::is_predefined({b.type})" for b in row.buffers]


# The form of each test that calls no function; where that is false, it leaves the answer open.
INLINE = (("fastpath::is_predefined(", "datatype::known_predefined("), ("fastpath::small(", "fastpath::known_small("),
          ("fastpath::under_limit(", "fastpath::known_under_limit("))


def inline_tests(row):
    """All tests but those of the buffers, in forms that call no function. None, so that the call has no fast stage, for
    collectives whose size depends on the number of ranks, and for receives that leave something to do unless they have
    a status."""
    tests = [t for t in all_tests(row) if t not in on_host(row) and not t.startswith("!datatype::averages(")]
    if not tests or calls_mpi_inside(row) or any(t.startswith("fastpath::small_on_all(") for t in tests):
        return []
    if row.looks_for_envelopes and not (row.receives and row.has_status and row.named("source")):
        return []
    for calls, compares in INLINE:
        tests = [t.replace(calls, compares) for t in tests]
    return (["!datatype::extended()"] if row.op() else []) + tests


def is_watched(row):
    """Tells whether the call is a receive that does not block, and that is watched for an envelope."""
    return row.receives and row.name.startswith("MPI_Irecv")


def watched_tests(row):
    """The tests for such a receive, in forms that call no function, but for those of the buffer."""
    received = row.buffers[0]
    return ["fastpath::outside_mpi()", f"fastpath::known_watchable({received.count}, {received.type})",
            "fastpath::none_probed()"]


def unwatched_tests(row):
    """The same for one with so little room that it is not watched."""
    received = row.buffers[0]
    return ["fastpath::outside_mpi()", f"fastpath::known_unwatched({received.count}, {received.type})",
            "fastpath::none_probed()"]


def short_receive_tests(row):
    """The tests for a blocking receive with less room than an envelope needs: it cannot have received one, so nothing
    is left to do afterwards."""
    received = row.buffers[-1]
    message = f"{received.count}, {received.type}"
    implied = (f"datatype::known_predefined({received.type})", f"fastpath::known_under_limit({message})")
    return [f"fastpath::has_no_envelope({message})"] + [t for t in inline_tests(row) if t not in implied]
