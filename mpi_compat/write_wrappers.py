"""Writes the wrappers, one file for each family of calls: each wrapper describes its call and passes it to the
dispatcher."""

import re
import textwrap

import write_matching
from write_headers import WARNING, call_id, condition, fill, real_name

SHAPES = {
    "one": "kOne", "bytes": "kOne", "sum": "kRanksSum", "own": "kRanksOwn", "address": "kAddress", "local": "kRanksLocal",
    "ranks": "kRanks", "ranks_vector": "kRanksVector", "ranks_bytes": "kRanksBytes",
    "sources": "kSources", "sources_vector": "kSourcesVector", "sources_bytes": "kSourcesBytes",
    "targets": "kTargets", "targets_vector": "kTargetsVector", "targets_bytes": "kTargetsBytes",
}
ACCESSES = {"in": "kIn", "out": "kOut", "inout": "kInOut"}

# Shapes with a count and a type that a carrier may replace, where the call has them for this buffer alone.
SCALAR_SHAPES = ("one", "ranks", "local", "sources", "targets")


def files(rows, present, families):
    """Returns file name -> text. The list of files is the same whatever the MPI in use has and whichever rows say
    `wrapper`: a file without wrappers is still written."""
    found = {}
    for family, title in families.items():
        if any(r.family == family and (r.has_wrapper or r.has("requests") or r.has("communicators")) for r in rows):
            wrappers = [r for r in present if r.family == family and r.has_wrapper]
            found[f"wrappers_{family}.cpp"] = file(title, wrappers)
    return found


def file(title, rows):
    wrappers = "\n".join(wrapper(r) for r in rows)
    return f"""{WARNING}// Wrappers: {title}.
#include "mpi_compat/wrapper.hpp"

using namespace swy;

{wrappers}"""


def wrapper(row):
    """Writes up to six functions, because each would otherwise pay for what the next one needs on the stack: the
    wrapper itself, which also makes the real call on buffers that are known to be host memory, or for receives has the
    next function do so; one that does so where something is left to do afterwards; one that asks the driver, where
    nothing else is left to test; one that makes all tests; and one that describes the call to the dispatcher."""
    real = f"real::{real_name(row.name)}("
    head = fill(f'extern "C" SWY_EXPORT {row.result} {row.name}(', [a.declaration() for a in row.arguments], ") {", 4)
    straight = fill(f"        return {real}", [a.name for a in row.arguments], ");", 12)
    if row.makes_group:
        return group_wrapper(row, head, straight)
    if row.has("duplicates"):
        return duplicate_wrapper(row, head, straight)
    surely = surely_tests(row)
    asks = bool(host(row) or found(row))
    opens = bool(surely) and write_matching.looks_for_envelopes(row)
    following = "asked" if asks else "routed"
    open_gate = "state == driver_watch::State::kOpen"
    if opens:
        known = f"    if ({open_gate}) [[likely]]\n    {handing_on(row, 'open')}\n"
    else:
        known = past_surely(row, [open_gate] + surely) if surely else ""
    closed = """    const driver_watch::State state = driver_watch::known();
    if (state == driver_watch::State::kClosed) [[likely]]""" if asks else "    if (driver_watch::closed()) [[likely]]"
    return f"""{routed(row, real)}
{asked(row, straight) if asks else ""}{mapped(row) if surely else ""}{opened(row, surely) if opens else ""}{head}
{closed}
{straight}
{known}{handing_on(row, following)}
}}
SWY_PAIR({row.name})
"""


def opened(row, surely):
    unseen = f"{condition(write_matching.unseen(row))}\n    {handing_on(row, 'unseen')}\n    }}\n"
    return function(row, "unseen", write_matching.past_unseen(row, surely) + handing_on(row, "asked")) + function(
        row, "open", past_surely(row, write_matching.small(row, surely)) + unseen + handing_on(row, "asked"))


def past_surely(row, tests):
    """The real call, without the dispatcher, for buffers that are known to be host memory without a call of any
    function; the driver is asked about the others. What is known to be large goes to the dispatcher at once."""
    sized = f"fastpath::known_small({row.buffers[-1].count}, {row.buffers[-1].type})"
    others = [t for t in tests if not t.startswith("fastpath::on_host(") and t != sized]
    buffers = ", ".join(b.name for b in row.buffers)
    past = f"""        if (device::known_host({buffers})) [[likely]]
{real_call(row, 12)}
    {handing_on(row, "mapped")}
"""
    if sized not in tests:
        return f"{condition(others)}\n{past}    }}\n"
    return f"""{condition(others)}
        const std::size_t below = fastpath::small_below({row.buffers[-1].type});
        if (static_cast<std::size_t>({row.buffers[-1].count}) < below) [[likely]] {{
{textwrap.indent(past, "    ")}        }}
        if (below != 0)
        {to_router(row, row.op() and row.op().name)}
    }}
"""


def mapped(row):
    """Reached when all tests have passed except that of the buffers, which may be host memory all the same, as mapped
    memory is. A receive that is not made here still needs its status."""
    tests = [f"fastpath::in_place_or_on_host({b.name})" if row.in_place and row.in_place.sentinel == b.name else f"fastpath::on_host({b.name})"
             for b in row.buffers]
    following = handing_on(row, "asked") if write_matching.looks_for_envelopes(row) else to_router(row, row.op() and row.op().name)
    return function(row, "mapped", f"{condition(tests)}\n{real_call(row, 8)}\n    }}\n{following}")


def real_call(row, indent):
    return fill(f"{' ' * indent}return real::{real_name(row.name)}(", [a.name for a in row.arguments], ");", indent + 4)


def asked(row, straight):
    """Looks for newly loaded libraries, and asks the driver about the buffers."""
    tests = host(row)
    state = "    const driver_watch::State state = driver_watch::look();\n" if tests else ""
    way = past(row, ["state == driver_watch::State::kOpen"] + tests, combined=True) if tests else ""
    own = "    MPI_Status own;\n" if write_matching.sees_status(row) else ""
    return function(row, "asked", f"""{state}    if ({"state" if tests else "driver_watch::look()"} == driver_watch::State::kClosed)
{straight}
{operator(row)}{way}{own}{to_router(row)}""")


def function(row, name, body):
    head = fill(f"static __attribute__((noinline)) {row.result} {name}_{row.name}(", [a.declaration() for a in row.arguments], ") {", 4)
    return f"{head}\n{body}\n}}\n\n"


def handing_on(row, name):
    return fill(f"    return {name}_{row.name}(", [a.name for a in row.arguments], ");", 8)


def to_router(row, combined=None):
    """Passes the call to the dispatcher where nothing has been received yet."""
    values = {"seen": "fastpath::to_see(status, own)", "code": "MPI_SUCCESS", "combine": combined or "combine"}
    passed = [a.name for a in handed_on(row)] + [values.get(name, name) for _, name in found(row)]
    return fill(f"    return routed_{row.name}(", passed, ");", 8)


def routed(row, real):
    """Describes the call. What the functions before it have found is passed in further arguments."""
    declarations = [a.declaration() for a in handed_on(row)] + [f"{t} {name}" for t, name in found(row)]
    head = fill(f"static __attribute__((noinline)) {row.result} routed_{row.name}(", declarations, ") {", 4)
    return f"""{head}
{operands(row)}{write_matching.description(row)}{fill("    const Call call{", call_fields(row), "};", 8)}
{write_matching.envelope(row)}    return dispatch::dispatch(call, [=]({'const Operand* use' if row.buffers else 'const Operand*'}) {{
{fill(f"        return {real}", forwarded(row), ");", 12)}
    }});
}}
"""


def handed_on(row):
    return [a for a in row.arguments if a.name != "status" or not write_matching.sees_status(row)]


def found(row):
    """Types and names of the arguments by which the functions before it pass what they have found."""
    seen = [("MPI_Status*", "seen")] if write_matching.sees_status(row) else []
    code = [("int", "code")] if write_matching.envelope(row) else []
    return seen + code + ([("MPI_Op", "combine")] if row.op() else [])


def group_wrapper(row, head, straight):
    """Tells src/coll of the communicator that the real call has made."""
    parent = row.owner().name if row.has("derives") else "MPI_COMM_NULL"
    return f"""{head}
    const int code =
{straight.replace("return ", "", 1)}
    return driver_watch::closed() || code != MPI_SUCCESS ? code : coll::on_comm_created({parent}, *{row.made().name});
}}
SWY_PAIR({row.name})
"""


def duplicate_wrapper(row, head, straight):
    """Tells src/coll that MPI begins to duplicate a communicator without blocking."""
    return f"""{head}
    if (!driver_watch::closed())
        coll::duplicates({row.owner().name});
{straight.replace("        ", "    ", 1)}
}}
SWY_PAIR({row.name})
"""


def operator(row):
    """The operator that MPI gets: the program's, except for the types and the operator of the extensions."""
    if not row.op():
        return ""
    may_average = "true" if averages(row) else "false"
    return f"    const MPI_Op combine = datatype::operator_for({row.op().name}, {row.buffers[-1].type}, {may_average});\n"


def averages(row):
    return re.fullmatch("MPIX?_I?(all)?reduce(_scatter(_block)?)?(_init)?(_c)?", row.name, re.I) is not None


def host(row):
    """The tests for the real call without the dispatcher, on buffers that are host memory; none where that is
    impossible, since displacements must be looked at."""
    if write_matching.looks_for_envelopes(row):
        return write_matching.host(row)
    if not row.buffers or any("_" in b.shape or b.shape == "address" or not buffer_type(b) for b in row.buffers):
        return []
    tests = [f"!datatype::averages({row.op().name})"] if averages(row) else []
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
        tests += (["!call::job_agrees"] if row.has("routed") else []) + [f"fastpath::is_predefined({t})" for t in types]
    tests += write_matching.synchronous(row)
    # The driver is asked last: for calls that go to the dispatcher anyway, that asks it.
    return tests + [f"fastpath::on_host({b.name})" for b in row.buffers]


# The form of each test that calls no function; where that is false, it leaves the answer open.
SURELY = (("fastpath::is_predefined(", "datatype::known_predefined("), ("fastpath::small(", "fastpath::known_small("),
          ("fastpath::under_limit(", "fastpath::known_under_limit("))


def surely_tests(row):
    """The tests for the real call without the dispatcher of which only those of the buffers call a function. None for
    collectives whose size depends on the number of ranks, and for receives that leave something to do unless they have
    a status."""
    tests = host(row)
    if not tests or calls_mpi_inside(row) or any(t.startswith("fastpath::small_on_all(") for t in tests):
        return []
    if write_matching.looks_for_envelopes(row) and not write_matching.may_go_unseen(row):
        return []
    for asks, knows in SURELY:
        tests = [t.replace(asks, knows) for t in tests]
    tests = (["!datatype::extended()"] if row.op() else []) + [t for t in tests if not t.startswith("!datatype::averages(")]
    return sorted(tests, key=lambda t: t.startswith("fastpath::on_host("))


def past(row, tests, combined):
    """The real call where the tests pass. `combined`: with an operator that may replace the program's."""
    if write_matching.looks_for_envelopes(row):
        return write_matching.past(row, tests)
    operator_name = row.op().name if row.op() else ""
    arguments = ["combine" if combined and a.name == operator_name else a.name for a in row.arguments]
    guard = "        const call::Inside guard;\n" if calls_mpi_inside(row) else ""
    return f"{condition(tests)}\n{guard}{fill(f'        return real::{real_name(row.name)}(', arguments, ');', 12)}\n    }}\n"


def calls_mpi_inside(row):
    """Tells whether MPI calls its own functions inside the call: MPI-IO does. Message passing on host memory calls no
    function of the program that may call MPI, except error handlers, whose calls are the program's own."""
    return not row.has("routed") and row.treatment != "matched"


def buffer_type(buffer):
    return "MPI_BYTE" if buffer.shape == "bytes" else buffer.type


def operands(row):
    if not row.buffers:
        return ""
    described = ",\n".join(fill("        {", operand_fields(row, b), "}", 9) for b in row.buffers)
    return f"    const Operand operands[] = {{\n{described},\n    }};\n"


def operand_fields(row, buffer):
    in_place = row.in_place if row.in_place and row.in_place.target == buffer.name else None
    argument = row.argument(buffer.name)
    address = f"const_cast<void*>({buffer.name})" if argument.type.startswith("const") else buffer.name
    fields = [f".address = {address}"]
    vector = "_" in buffer.shape or buffer.shape in ("sum", "own")
    large = vector and "MPI_Count" in row.argument(buffer.count).type
    if buffer.shape != "address" and not vector:
        fields.append(f".count = {f'MPI_Count{{{buffer.count}}} * {buffer.times}' if buffer.times else buffer.count}")
    if buffer.shape == "bytes":
        fields.append(".type = MPI_BYTE")
    elif buffer.type and not buffer.shape.endswith("_bytes"):
        fields.append(f".type = {buffer.type}")
    access = f"Access::{ACCESSES[buffer.access]}"
    if in_place:
        access = f"{in_place.sentinel} == MPI_IN_PLACE ? Access::kInOut : {access}"
    fields.append(f".access = {access}")
    fields.append(f".shape = {shape(row, buffer, in_place) if not large else 'Shape::kAddress'}")
    if buffer.at_root:
        fields.append(".at = At::kRoot")
    if vector and not large:
        fields.append(f".counts = {buffer.count}")
        if buffer.displs:
            offsets = "MPI_Aint" in row.argument(buffer.displs).type
            fields.append(f".{'offsets' if offsets else 'displs'} = {buffer.displs}")
        if buffer.shape.endswith("_bytes"):
            fields.append(f".types = {buffer.type}")
    return fields


def shape(row, buffer, in_place):
    name = f"Shape::{SHAPES[buffer.shape]}"
    if in_place and in_place.as_sentinel:
        other = next(b for b in row.buffers if b.name == in_place.sentinel)
        return f"{in_place.sentinel} == MPI_IN_PLACE ? Shape::{SHAPES[other.shape]} : {name}"
    return name


def call_fields(row):
    fields = [f".id = CallId::{call_id(row.name)}"]
    fields.append(f".owner = Owner({row.owner().name})" if row.owner() else ".owner = Owner()")
    fields.append(".operands = operands" if row.buffers else ".operands = {}")
    if row.op():
        fields.append(f".op = {row.op().name}")
    if row.root():
        fields.append(f".root = {row.root().name}")
    if row.treatment == "matched":
        fields.append(".matching = &matching")
    elif row.treatment in ("staged", "routed") and not row.has("blocking"):
        request = row.first(lambda a: a.type == "MPI_Request *")
        fields += [f".request = {request.name}"] if request else []
    return fields


def forwarded(row):
    """The real call's arguments: the program's, except those that a carrier may have replaced."""
    replaced = {}
    for i, buffer in enumerate(row.buffers):
        replaced[buffer.name] = f"use[{i}].address"
        alone = sum(b.count == buffer.count or b.type == buffer.type for b in row.buffers) == 1
        if buffer.shape in SCALAR_SHAPES and alone and not buffer.times:
            count = row.argument(buffer.count).type
            replaced[buffer.count] = f"use[{i}].count" if count == "MPI_Count" else f"static_cast<{count}>(use[{i}].count)"
            replaced[buffer.type] = f"use[{i}].type"
        elif buffer.displs and "MPI_Count" not in row.argument(buffer.count).type:
            offsets = "MPI_Aint" in row.argument(buffer.displs).type
            replaced[buffer.displs] = f"use[{i}].{'offsets' if offsets else 'displs'}"
            replaced[buffer.type] = f"use[{i}].type{'s' if buffer.shape.endswith('_bytes') else ''}"
    if row.op():
        replaced[row.op().name] = "combine"
    if write_matching.sees_status(row):
        replaced["status"] = "seen"
    return [replaced.get(a.name, a.name) for a in row.arguments]
