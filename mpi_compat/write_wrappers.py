"""Writes the wrappers, one file for each family of calls. A wrapper is a chain of functions, its stages; each stage is
a template here, and STAGES says what it does. A field of a template that stands on a line of its own is another
template, or nothing."""

import re

import template
import wrapper_call
import wrapper_tests
from write_headers import WARNING, call_id, real_name

# In the order in which a call passes through them. A file explains those that it has.
STAGES = {
    "MPI": "makes the real call while the driver watch finds nothing to do",
    "fast_MPI": "makes receives that are too short for an envelope",
    "watched_MPI": "makes receives that do not block, and has them watched for an envelope",
    "no_status_MPI": "receives without a status, and looks for an envelope in the buffer",
    "ask_driver_MPI": "asks the CUDA driver about the buffers, all other tests having passed",
    "slow_MPI": "looks for newly loaded libraries, and makes all tests",
    "dispatch_MPI": "describes the call to the dispatcher (src/dispatch), which chooses the transport",
}

FILE = """
$warning
// Wrappers: $title.
$stages
#include "mpi_compat/wrapper.hpp"

using namespace swy;

$wrappers
"""

FILE_STAGES = """
//
// A call passes through these stages until one makes the real call. Each is a function, so that none pays for what a
// later one needs on the stack; the last one stands first.
$stages
$known_host
"""

KNOWN_HOST = """
// Before ask_driver_MPI_X, buffers in known host memory (src/device/host_ranges.hpp) go to the real call: that takes
// comparing addresses only.
"""

EMPTY_FILE = """
$warning
// Wrappers: $title.
//
// None is generated for the MPI at hand.
"""

WRAPPER = """
// Makes the real call while the driver watch finds nothing to do$known_host.
extern "C" SWY_EXPORT $result $name($declared) {
    const driver_watch::State state = driver_watch::known();
    if (state == driver_watch::State::kClosed) [[likely]]
        return real::$real($passed);
    $fast
    return slow_$name($passed);
}
SWY_PAIR($name)
"""

# For calls of which no test tells that the dispatcher has nothing to do.
DISPATCHING_WRAPPER = """
// Makes the real call while the driver watch finds nothing to do.
extern "C" SWY_EXPORT $result $name($declared) {
    if (driver_watch::closed()) [[likely]]
        return real::$real($passed);
    return $dispatched;
}
SWY_PAIR($name)
"""

FAST = """
if ($tests) [[likely]] {
    $compare_addresses
}
"""

FAST_BY_SIZE = """
if ($tests) [[likely]] {
    // The number of elements from which on ranks have to agree; 0 where that is not known without a call.
    const std::size_t below = fastpath::small_below($type);
    if (static_cast<std::size_t>($count) < below) [[likely]] {
        $compare_addresses
    }
    if (below != 0)
        return $dispatched;
}
"""

COMPARE_ADDRESSES = """
if (device::known_host($buffers)) [[likely]]
    return real::$real($passed);
return ask_driver_$name($passed);
"""

FAST_RECEIVE = """
if (state == driver_watch::State::kOpen) [[likely]]
    return fast_$name($passed);
"""

FAST_RECEIVE_STAGE = """
// Makes a receive that is too short for an envelope into known host memory: nothing is left to test afterwards.
[[gnu::noinline]] static $result fast_$name($declared) {
    if ($tests) [[likely]] {
        $compare_addresses
    }
    // The program wants no status, and its arguments are what a status would tell.
    if (status == MPI_STATUS_IGNORE && source != MPI_ANY_SOURCE && $tag != MPI_ANY_TAG) [[likely]]
        return no_status_$name($passed);
    return slow_$name($passed);
}
"""

NO_STATUS_STAGE = """
// Receives without a status, which MPI takes long to fill: a buffer with room for an envelope shows whether one came.
[[gnu::noinline]] static $result no_status_$name($declared) {
    if ($tests) [[likely]] {
        const int code = real::$real($passed_without_status);
        if (!fastpath::may_be_envelope(code, $received)) [[likely]]
            return code;
        MPI_Status own;
        return $dispatched;
    }
    return slow_$name($passed);
}
"""

FAST_UNWATCHED = """
if ($tests) [[likely]] {
    $compare_addresses
}
if (state == driver_watch::State::kOpen) [[likely]]
    return watched_$name($passed);
"""

WATCHED_STAGE = """
// Makes a receive that does not block, and has it watched: an envelope may come later.
[[gnu::noinline]] static $result watched_$name($declared) {
    if ($tests && (device::known_host($buffers) || $on_host)) [[likely]] {
        const int code = real::$real($passed);
        return fastpath::watched(CallId::$id, code, $buffer, $count, $type, source, comm, request);
    }
    return slow_$name($passed);
}
"""

ASK_DRIVER_STAGE = """
// Asks the CUDA driver about the buffers; all other tests have passed.
[[gnu::noinline]] static $result ask_driver_$name($declared) {
    if ($tests) [[likely]]
        return real::$real($passed);
    return $next;
}
"""

SLOW_STAGE = """
// Looks for newly loaded libraries, and makes all tests.
[[gnu::noinline]] static $result slow_$name($declared) {
    const driver_watch::State state = driver_watch::look();
    if (state == driver_watch::State::kClosed)
        return real::$real($passed);
    $operator
    $on_host
    $own_status
    return $dispatched;
}
"""

OPERATOR = """
// The program's operator, except for the types and the operator of the extensions.
const MPI_Op combine = datatype::operator_for($op, $type, $may_average);
"""

ON_HOST = """
if ($tests) [[likely]] {
    $guard
    return real::$real($arguments);
}
"""

RECEIVE_ON_HOST = """
if ($tests) [[likely]] {
    MPI_Status own;
    MPI_Status* const seen = fastpath::to_see(status, own);
    // An error handler of the program may throw: an envelope that has come is answered before that goes on.
    const int code = error::unless_thrown(
        [&] {
            return real::$real($arguments);
        },
        [&] {
            if (fastpath::is_envelope(*seen))
                $dispatched_truncated;
        });
    if (!fastpath::is_envelope(*seen)) [[likely]]
        return code;
    return $dispatched;
}
"""

PROBE = """
if ($tests) [[likely]] {
    MPI_Status own;
    MPI_Status* const seen = fastpath::to_see(status, own);
    const int code = real::$real($arguments);
    if (!fastpath::is_envelope(*seen)) [[likely]]
        return $code;
    return $dispatched;
}
"""

NONBLOCKING_RECEIVE_ON_HOST = """
if ($tests) [[likely]] {
    const int code = real::$real($arguments);
    // An envelope may come later.
    return fastpath::watched(CallId::$id, code, $buffer, $count, $type, source, comm, request);
}
"""

DISPATCH_STAGE = """
// Describes the call to the dispatcher, which calls back for the real call, with operands that it may have replaced.
[[gnu::noinline]] static $result dispatch_$name($declared_with_findings) {
    $operands
    $matching
    $target
    $file
    $made
    $call
    $received
    $left_out
    return dispatch::dispatch(call, [=$captured](const Operand*$use) {
        return real::$real($forwarded);
    });
}
"""

OPERANDS = """
const Operand operands[] = {
    $described
};
"""

LEFT_OUT = """
// The ranks do not agree on this call, and it has host memory alone.
if (fastpath::left_out(call))
    return real::$real($passed);
"""

RECEIVED = """
// An earlier stage has received an envelope.
if (fastpath::is_envelope(*seen))
    return p2p::received_on_host(call, code, *seen);
"""

WAITING_WRAPPER = """
// Makes the real call by its pointer, which waits for the other ranks in another way where MPI's progress does not call
// the engine (src/comm/gates.hpp).
extern "C" SWY_EXPORT $result $name($declared) {
    return real::$real($passed);
}
SWY_PAIR($name)
"""

COMM_CREATED_WRAPPER = """
// Makes the real call, and tells src/coll of the communicator that it has made.
extern "C" SWY_EXPORT $result $name($declared) {
    const int code = real::$real($passed);
    return driver_watch::closed() || code != MPI_SUCCESS ? code : coll::on_comm_created(*$made);
}
SWY_PAIR($name)
"""

DUPLICATING_WRAPPER = """
// Tells src/coll that MPI begins to duplicate a communicator, and makes the real call, which does not block.
extern "C" SWY_EXPORT $result $name($declared) {
    if (!driver_watch::closed())
        coll::duplicates($parent);
    return real::$real($passed);
}
SWY_PAIR($name)
"""


def files(rows, present, families):
    """Returns file name -> text. The list of files is the same whatever the MPI in use has and whichever rows say
    `wrapper`: a file without wrappers is still written."""
    found = {}
    for family, title in families.items():
        if any(r.family == family and (r.has_wrapper or r.has("requests") or r.has("communicators")) for r in rows):
            wrappers = "\n".join(wrapper(r) for r in present if r.family == family and r.has_wrapper)
            found[f"wrappers_{family}.cpp"] = file(title, wrappers)
    return found


def file(title, wrappers):
    used = [(name, says) for name, says in STAGES.items() if f" {name}" in wrappers]
    width = max(len(name) for name, _ in used) if used else 0
    stages = "\n".join(f"//   {name + '_X':{width + 2}}  {says}" for name, says in used)
    known_host = KNOWN_HOST if "device::known_host(" in wrappers else ""
    text = template.fill(FILE if wrappers else EMPTY_FILE, {
        "warning": WARNING, "title": title, "wrappers": wrappers,
        "stages": template.fill(FILE_STAGES, {"stages": stages, "known_host": known_host}) if len(used) > 1 else ""})
    return "\n".join(template.broken(line) for line in text.split("\n"))


def fill(text, row, **fields):
    """A template with the fields that all have, and with those given."""
    return template.fill(text, {
        "name": row.name, "result": row.result, "real": real_name(row.name), "declared": declared(row.arguments),
        "passed": passed(row), "buffers": ", ".join(b.name for b in row.buffers)} | fields)


def declared(arguments):
    return ", ".join(re.sub(r" (\*+)", r"\1", a.type) + f" {a.name}{a.brackets}" for a in arguments)


def passed(row, **replaced):
    return ", ".join(replaced.get(a.name, a.name) for a in row.arguments)


def all_of(tests):
    return " && ".join(tests)


def wrapper(row):
    if row.makes_group:
        return fill(COMM_CREATED_WRAPPER, row, made=row.made().name)
    if row.has("duplicates"):
        return fill(DUPLICATING_WRAPPER, row, parent=row.owner().name)
    if not row.has("wrapper") and row.treatment in ("", "unread"):
        return fill(WAITING_WRAPPER, row)
    if not wrapper_tests.all_tests(row) and not findings(row):
        return dispatch_stage(row) + "\n" + fill(DISPATCHING_WRAPPER, row, dispatched=dispatched(row))
    stages, fast = [], ""
    if wrapper_tests.inline_tests(row):
        stages, fast = fast_stages(row)
    elif wrapper_tests.is_watched(row):
        stages, fast = watched_stages(row)
    known_host = ", or on known host memory" if "device::known_host(" in fast else ""
    first = fill(WRAPPER, row, fast=fast, known_host=known_host)
    return "\n".join([dispatch_stage(row), slow_stage(row), *stages, first])


def fast_stages(row):
    """The stages before `slow_`, and the part of the wrapper that comes before them."""
    last = row.buffers[-1]
    following = dispatched(row, combine=row.op() and row.op().name)
    ask_driver = fill(ASK_DRIVER_STAGE, row, tests=all_of(wrapper_tests.on_host(row, in_place_too=True)),
                      next=f"slow_{row.name}({passed(row)})" if row.looks_for_envelopes else following)
    compare_addresses = fill(COMPARE_ADDRESSES, row)
    tests = wrapper_tests.inline_tests(row)
    if row.looks_for_envelopes:
        tag = row.named("recvtag", "tag")
        no_status = fill(
            NO_STATUS_STAGE, row, received=last.name, passed_without_status=passed(row, status="MPI_STATUS_IGNORE"),
            tests=all_of(tests + wrapper_tests.on_host(row) + [f"fastpath::has_room({last.count}, {last.type})"]),
            dispatched=dispatched(row, seen=f"fastpath::as_envelope(own, source, {tag})"))
        fast = fill(FAST_RECEIVE_STAGE, row, compare_addresses=compare_addresses, tag=tag,
                    tests=all_of(wrapper_tests.short_receive_tests(row)))
        return [ask_driver, no_status, fast], fill(FAST_RECEIVE, row)
    size = f"fastpath::known_small({last.count}, {last.type})"
    others = ["state == driver_watch::State::kOpen"] + [t for t in tests if t != size]
    return [ask_driver], fill(FAST_BY_SIZE if size in tests else FAST, row, compare_addresses=compare_addresses,
                              tests=all_of(others), type=last.type, count=last.count, dispatched=following)


def watched_stages(row):
    """The same for a receive that does not block."""
    buffer = row.buffers[0]
    on_host = all_of(wrapper_tests.on_host(row))
    tests = wrapper_tests.watched_tests(row)
    ask_driver = fill(ASK_DRIVER_STAGE, row, tests=on_host, next=dispatched(row))
    watched = fill(WATCHED_STAGE, row, tests=all_of(tests), on_host=on_host, id=call_id(row.name), buffer=buffer.name,
                   count=buffer.count, type=buffer.type)
    unwatched = wrapper_tests.unwatched_tests(row)
    return [ask_driver, watched], fill(FAST_UNWATCHED, row, compare_addresses=fill(COMPARE_ADDRESSES, row),
                                       tests=all_of(["state == driver_watch::State::kOpen"] + unwatched))


def slow_stage(row):
    tests = wrapper_tests.all_tests(row)
    operator = ""
    if row.op():
        operator = fill(OPERATOR, row, op=row.op().name, type=row.buffers[-1].type,
                        may_average="true" if wrapper_tests.averages(row) else "false")
    return fill(SLOW_STAGE, row, operator=operator, own_status="MPI_Status own;" if row.has_status else "",
                on_host=on_host(row, all_of(["state == driver_watch::State::kOpen"] + tests)) if tests else "",
                dispatched=dispatched(row, seen="fastpath::to_see(status, own)", code="MPI_SUCCESS"))


def on_host(row, tests):
    """The real call where the tests pass, and what follows it."""
    replaced = {row.op().name: "combine"} if row.op() else {"status": "seen"} if row.has_status else {}
    arguments = passed(row, **replaced)
    if row.has_status and row.receives:
        return fill(RECEIVE_ON_HOST, row, tests=tests, arguments=arguments, dispatched=dispatched(row),
                    dispatched_truncated=dispatched(row, code="MPI_ERR_TRUNCATE"))
    if row.has_status:
        code = "code"
        if row.named("message"):
            code = f"p2p::found(code, message, comm{', flag' if row.named('flag') else ''})"
        return fill(PROBE, row, tests=tests, arguments=arguments, code=code, dispatched=dispatched(row))
    if wrapper_tests.is_watched(row):
        buffer = row.buffers[0]
        return fill(NONBLOCKING_RECEIVE_ON_HOST, row, tests=tests, arguments=arguments, id=call_id(row.name),
                    buffer=buffer.name, count=buffer.count, type=buffer.type)
    inside = wrapper_tests.calls_mpi_inside(row)
    return fill(ON_HOST, row, tests=tests, arguments=arguments, guard="const call::Inside guard;" if inside else "")


def findings(row):
    """Types and names of the arguments by which the stages tell the last one what they have found."""
    status = [("MPI_Status*", "seen")] if row.has_status else []
    code = [("int", "code")] if row.has_status and row.receives else []
    return status + code + ([("MPI_Op", "combine")] if row.op() else [])


def arguments_without_status(row):
    return [a for a in row.arguments if a.name != "status" or not row.has_status]


def dispatched(row, **values):
    """The call of the last stage, with values for what has been found; else there are variables of these names."""
    arguments = [a.name for a in arguments_without_status(row)] + [values.get(name, name) for _, name in findings(row)]
    return f"dispatch_{row.name}({', '.join(arguments)})"


def dispatch_stage(row):
    listed = [f"{type_} {name}" for type_, name in findings(row)]
    operands = ",\n".join(f"{{{', '.join(wrapper_call.operand_fields(row, b))}}}" for b in row.buffers)
    matching = f"const Matching matching{{{', '.join(wrapper_call.matching_fields(row))}}};"
    one_sided = bool(row.named("target_disp"))
    target = f"Target target{{{', '.join(wrapper_call.target_fields(row))}}};" if one_sided else ""
    file = f"FileAccess file{{{row.named('offset') or '0'}, status}};" if row.has("pieces") else ""
    return fill(DISPATCH_STAGE, row,
                declared_with_findings=", ".join([declared([a]) for a in arguments_without_status(row)] + listed),
                operands=fill(OPERANDS, row, described=operands + ",") if row.buffers else "",
                matching=matching if row.treatment == "matched" else "",
                made="const NewWindow made{win, disp_unit, info};" if row.makes_window else "",
                target=target, file=file, captured=", &target" if one_sided else ", &file" if file else "",
                call=f"const Call call{{{', '.join(wrapper_call.call_fields(row))}}};",
                received=fill(RECEIVED, row) if row.has_status and row.receives else "",
                left_out=fill(LEFT_OUT, row) if wrapper_tests.has_unknown_size(row) else "",
                use=" use" if row.buffers else "", forwarded=", ".join(wrapper_call.forwarded(row)))
