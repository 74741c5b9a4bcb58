"""Writes what is special in the wrappers of matched calls: the description of the matching, and the test of what has
been received.

A receive of host memory may match an envelope, the short message that stands in for a large one on a device. So its
wrapper tests the length of what was received, or its content where the program asks for no status, or has the request
watched. A receive that is large enough for a large message and must not block on it goes to the dispatcher at once.
"""

from write_headers import call_id, condition, fill, real_name

# The argument that fills a field of Matching, by name; `tag` is the tag of the only direction.
FIELDS = (("dest", ("dest",)), ("send_tag", ("sendtag", "tag")), ("source", ("source",)), ("receive_tag", ("recvtag", "tag")),
          ("status", ("status",)), ("flag", ("flag",)), ("message", ("message",)), ("request", ("request",)))


def receives(row):
    return row.treatment == "matched" and any(b.access != "in" for b in row.buffers)


def probes(row):
    return row.treatment == "matched" and not row.buffers


def synchronous(row):
    """The tests for the real call without the dispatcher, of a send in synchronous mode."""
    if row.treatment != "matched" or "ssend" not in row.name.lower():
        return []
    return [f"!fastpath::is_as_long_as_envelope({b.count}, {b.type})" for b in row.buffers]


def sees_status(row):
    """Tells whether the call has a status that is tested after the real call."""
    return row.treatment == "matched" and bool(named(row, "status"))


def looks_for_envelopes(row):
    return receives(row) or probes(row)


def named(row, *names):
    found = row.first(lambda a: a.name in names)
    return found.name if found else ""


def description(row):
    if row.treatment != "matched":
        return ""
    fields = []
    for field, names in FIELDS:
        name = named(row, *names)
        if not name or (field == "send_tag" and not named(row, "dest")) or (field == "receive_tag" and not named(row, "source")):
            continue
        fields.append(f".{field} = {'seen' if field == 'status' else name}")
    if probes(row):
        fields.append(".found = fastpath::is_envelope(*seen)")
    return fill("    const Matching matching{", fields, "};", 8) + "\n"


def envelope(row):
    """Writes what follows the description of a receive that has been made on host memory."""
    if not receives(row) or not sees_status(row):
        return ""
    return """    if (fastpath::is_envelope(*seen))
        return p2p::received_on_host(call, code, *seen);
"""


def host(row):
    """The tests for the real call without the dispatcher, of receives of host memory and of probes. Requests that MPI
    makes inside its own calls complete unwatched."""
    outside = ["fastpath::outside_mpi()"] if row.has("requests") else []
    return outside + [f"fastpath::on_host({b.name})" for b in row.buffers] + types(row) + ["fastpath::none_probed()"]


def past(row, tests):
    if sees_status(row):
        passed = ["seen" if a.name == "status" else a.name for a in row.arguments]
        passed = [a for a in passed if a != "seen"] + ["seen"] + (["code"] if envelope(row) else [])
        code = "code"
        if probes(row) and named(row, "message"):
            code = f"p2p::found({', '.join(['code', 'message', 'comm'] + (['flag'] if named(row, 'flag') else []))})"
        called = real(row, "const int code = ")
        if envelope(row):
            settled = fill(f"                if (fastpath::is_envelope(*seen)) routed_{row.name}(", passed[:-1] + ["MPI_ERR_TRUNCATE"], ");", 20)
            called = f"""        const int code = error::unless_thrown(
            [&] {{
{real(row, "        return ")}
            }},
            [&] {{
{settled}
            }});"""
        return f"""{condition(tests)}
        MPI_Status own;
        MPI_Status* const seen = fastpath::to_see(status, own);
{called}
        if (!fastpath::is_envelope(*seen)) [[likely]]
            return {code};
{fill(f"        return routed_{row.name}(", passed, ");", 12)}
    }}
"""
    if row.name.startswith("MPI_Irecv"):
        buffer = row.buffers[0]
        watched = fill("        return fastpath::watched(", [f"CallId::{call_id(row.name)}", "code", buffer.name, buffer.count, buffer.type,
                                                         "source", "comm", "request"], ");", 12)
        return f"{condition(tests)}\n{real(row, 'const int code = ')}\n{watched}\n    }}\n"
    return f"{condition(tests)}\n{real(row, 'return ')}\n    }}\n"


def small(row, tests):
    """The tests for a blocking receive with less room than an envelope needs: it cannot have received one, so nothing
    is left to do afterwards."""
    received = row.buffers[-1]
    replaced = (f"datatype::known_predefined({received.type})", f"fastpath::known_under_limit({received.count}, {received.type})")
    return [f"fastpath::has_no_envelope({received.count}, {received.type})"] + [t for t in tests if t not in replaced]


def unseen(row):
    """The tests for a receive that needs no status, since its arguments tell what has been received."""
    return ["status == MPI_STATUS_IGNORE", "source != MPI_ANY_SOURCE", f"{named(row, 'recvtag', 'tag')} != MPI_ANY_TAG"]


def may_go_unseen(row):
    return receives(row) and sees_status(row) and bool(named(row, "source"))


def past_unseen(row, tests):
    """Writes the real call of such a receive."""
    tag = named(row, "recvtag", "tag")
    buffer = row.buffers[-1]
    arguments = ["MPI_STATUS_IGNORE" if a.name == "status" else a.name for a in row.arguments]
    passed = [a.name for a in row.arguments if a.name != "status"] + [f"fastpath::as_envelope(own, source, {tag})", "code"]
    return f"""{condition(tests + [f"fastpath::has_room({buffer.count}, {buffer.type})"])}
{fill(f"        const int code = real::{real_name(row.name)}(", arguments, ");", 12)}
        if (!fastpath::may_be_envelope(code, {buffer.name})) [[likely]]
            return code;
        MPI_Status own;
{fill(f"        return routed_{row.name}(", passed, ");", 12)}
    }}
"""


def types(row):
    """The tests of the types, and of the size of what can be received."""
    both_ways = any(b.access == "inout" for b in row.buffers) or len(row.buffers) > 1
    if row.has("requests") and (both_ways or not row.name.startswith(("MPI_Irecv", "MPI_Imrecv"))):
        return [f"fastpath::is_predefined({b.type})" for b in row.buffers] + ["!fastpath::envelopes"]
    # A message found by a probe has been tested; a blocking receive may block on any message. While one of two
    # directions waits for a large message the other must go on.
    limited = both_ways or row.name.startswith("MPI_Irecv")
    return [f"fastpath::under_limit({b.count}, {b.type})" if limited and b.access != "in" else f"fastpath::is_predefined({b.type})"
            for b in row.buffers]


def real(row, before):
    arguments = ["seen" if a.name == "status" else a.name for a in row.arguments]
    return fill(f"        {before}real::{real_name(row.name)}(", arguments, ");", 12)
