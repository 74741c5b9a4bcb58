"""What the doors of matched calls have of their own: the description of the matching, and the look at what has come.

A receive of host memory may meet an envelope, the short message that stands in for a large one on a device. So its door looks at the
length of what came, or at what came where nobody asks for a status, or has the request watched; a receive that is large enough to be for a large message and
must not block on it goes to the router at once.
"""

from write_headers import call_id, condition, fill, real_name

# The argument that fills a field of Matching, by name; `tag` is the tag of the only direction.
FIELDS = (("dest", ("dest",)), ("send_tag", ("sendtag", "tag")), ("source", ("source",)), ("receive_tag", ("recvtag", "tag")),
          ("status", ("status",)), ("flag", ("flag",)), ("message", ("message",)), ("request", ("request",)))


def receives(row):
    return row.treatment == "matched" and any(b.access != "in" for b in row.buffers)


def probes(row):
    return row.treatment == "matched" and not row.buffers


def sees_status(row):
    """Has a status that is looked at after the real call."""
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
        fields.append(".found = p2p::is_envelope(*seen)")
    return fill("    const Matching matching{", fields, "};", 8) + "\n"


def envelope(row):
    """What follows the description of a receive that has been made on host memory."""
    if not receives(row) or not sees_status(row):
        return ""
    return """    if (p2p::is_envelope(*seen))
        return p2p::received_on_host(call, code, *seen);
"""


def host(row):
    """What must hold for the way past the router, of receives of host memory and of probes. MPI's own inner requests complete unseen."""
    outside = ["route::outside_mpi()"] if row.has("requests") else []
    return outside + [f"route::on_host({b.name})" for b in row.buffers] + types(row) + ["p2p::none_kept()"]


def past(row, tests):
    if sees_status(row):
        passed = ["seen" if a.name == "status" else a.name for a in row.arguments]
        passed = [a for a in passed if a != "seen"] + ["seen"] + (["code"] if envelope(row) else [])
        code = "code"
        if probes(row) and named(row, "message"):
            code = f"p2p::found({', '.join(['code', 'message', 'comm'] + (['flag'] if named(row, 'flag') else []))})"
        return f"""{condition(tests)}
        MPI_Status own;
        MPI_Status* const seen = p2p::to_see(status, own);
{real(row, "const int code = ")}
        if (!p2p::is_envelope(*seen)) [[likely]]
            return {code};
{fill(f"        return routed_{row.name}(", passed, ");", 12)}
    }}
"""
    if row.name.startswith("MPI_Irecv"):
        buffer = row.buffers[0]
        watched = fill("        return p2p::watched(", [f"CallId::{call_id(row.name)}", "code", buffer.name, buffer.count, buffer.type,
                                                         "source", "comm", "request"], ");", 12)
        return f"{condition(tests)}\n{real(row, 'const int code = ')}\n{watched}\n    }}\n"
    return f"{condition(tests)}\n{real(row, 'return ')}\n    }}\n"


def small(row, tests):
    """For a blocking receive with less room than an envelope needs: what it has received is none, so nothing is left to do afterwards."""
    received = row.buffers[-1]
    replaced = (f"datatype::surely_predefined({received.type})", f"p2p::surely_under_limit({received.count}, {received.type})")
    return [f"p2p::has_no_envelope({received.count}, {received.type})"] + [t for t in tests if t not in replaced]


def unseen(row):
    """When it is that a receive needs no status, since what has been received can be told from the arguments."""
    return ["status == MPI_STATUS_IGNORE", "source != MPI_ANY_SOURCE", f"{named(row, 'recvtag', 'tag')} != MPI_ANY_TAG"]


def may_go_unseen(row):
    return receives(row) and sees_status(row) and bool(named(row, "source"))


def past_unseen(row, tests):
    """For such a receive."""
    tag = named(row, "recvtag", "tag")
    buffer = row.buffers[-1]
    arguments = ["MPI_STATUS_IGNORE" if a.name == "status" else a.name for a in row.arguments]
    passed = [a.name for a in row.arguments if a.name != "status"] + [f"p2p::as_envelope(own, source, {tag})", "code"]
    size = f"static_cast<std::size_t>({buffer.count}) * datatype::known_size({buffer.type})"
    return f"""{condition(tests)}
        const std::size_t bytes = {size};
{fill(f"        const int code = real::{real_name(row.name)}(", arguments, ");", 12)}
        if (!p2p::may_be_envelope(code, {buffer.name}, bytes)) [[likely]]
            return code;
        MPI_Status own;
{fill(f"        return routed_{row.name}(", passed, ");", 12)}
    }}
"""


def types(row):
    """What is asked of the types, and of the size of what can be received."""
    both_ways = any(b.access == "inout" for b in row.buffers) or len(row.buffers) > 1
    if row.has("requests") and (both_ways or not row.name.startswith(("MPI_Irecv", "MPI_Imrecv"))):
        return [f"route::plain({b.type})" for b in row.buffers] + ["!p2p::envelopes"]
    # A message found by a probe has been looked at; a blocking receive may block on whatever comes. While one of two
    # directions waits for a large message the other must go on.
    limited = both_ways or row.name.startswith("MPI_Irecv")
    return [f"p2p::under_limit({b.count}, {b.type})" if limited and b.access != "in" else f"route::plain({b.type})"
            for b in row.buffers]


def real(row, before):
    arguments = ["seen" if a.name == "status" else a.name for a in row.arguments]
    return fill(f"        {before}real::{real_name(row.name)}(", arguments, ");", 12)
