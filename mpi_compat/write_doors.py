"""The doors, a file a family: each describes its call and hands it to the router."""

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

# Layouts with a count and a type that a carrier may replace, where the call has them for this buffer alone.
SCALAR_SHAPES = ("one", "ranks", "local", "sources", "targets")


def files(rows, present, families):
    """File name -> text. The list of files is the same whatever the MPI at hand has and whichever rows say `door`: a file
    without doors is a file all the same."""
    found = {}
    for family, title in families.items():
        if any(r.family == family and (r.has_door or r.has("requests") or r.has("communicators")) for r in rows):
            doors = [r for r in present if r.family == family and r.has_door]
            found[f"doors_{family}.cpp"] = file(title, doors)
    return found


def file(title, rows):
    doors = "\n".join(door(r) for r in rows)
    return f"""{WARNING}// Doors: {title}.
#include "mpi_compat/door.hpp"

using namespace swy;

{doors}"""


def door(row):
    """Up to six functions, for what each needs on the stack would be paid for by the one before: the door itself, which also passes what is
    surely host memory, or has the next do so for receives; one that does so where something is left to do afterwards; the one that asks
    the driver, where nothing else is left to ask; the one that asks everything; and the one that describes the call to the router."""
    real = f"real::{real_name(row.name)}("
    head = fill(f'extern "C" SWY_EXPORT {row.result} {row.name}(', [a.declaration() for a in row.arguments], ") {", 4)
    straight = fill(f"        return {real}", [a.name for a in row.arguments], ");", 12)
    if row.makes_group:
        return group_door(row, head, straight)
    if row.has("duplicates"):
        return duplicate_door(row, head, straight)
    surely = surely_tests(row)
    asks = bool(host(row) or found(row))
    opens = bool(surely) and write_matching.looks_for_envelopes(row)
    following = "asked" if asks else "routed"
    open_gate = "state == gate::State::kOpen"
    if opens:
        known = f"    if ({open_gate}) [[likely]]\n    {handing_on(row, 'open')}\n"
    else:
        known = past_surely(row, [open_gate] + surely) if surely else ""
    closed = """    const gate::State state = gate::surely();
    if (state == gate::State::kClosed) [[likely]]""" if asks else "    if (gate::closed()) [[likely]]"
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
    """The way past the router for what is known to be host memory without a call of any function; what is not has the driver asked of it.
    What is known to be large is the router's at once."""
    sized = f"route::surely_small({row.buffers[-1].count}, {row.buffers[-1].type})"
    others = [t for t in tests if not t.startswith("route::on_host(") and t != sized]
    buffers = ", ".join(b.name for b in row.buffers)
    past = f"""        if (device::surely_host({buffers})) [[likely]]
{real_call(row, 12)}
    {handing_on(row, "mapped")}
"""
    if sized not in tests:
        return f"{condition(others)}\n{past}    }}\n"
    return f"""{condition(others)}
        const std::size_t below = route::small_below({row.buffers[-1].type});
        if (static_cast<std::size_t>({row.buffers[-1].count}) < below) [[likely]] {{
{textwrap.indent(past, "    ")}        }}
        if (below != 0)
        {to_router(row, row.op() and row.op().name)}
    }}
"""


def mapped(row):
    """All tests have held but that of the buffers, which may lie in the host's memory all the same: mapped memory does. A receive that does
    not go past has a status to come."""
    tests = [f"route::in_place_or_on_host({b.name})" if row.in_place and row.in_place.sentinel == b.name else f"route::on_host({b.name})"
             for b in row.buffers]
    following = handing_on(row, "asked") if write_matching.looks_for_envelopes(row) else to_router(row, row.op() and row.op().name)
    return function(row, "mapped", f"{condition(tests)}\n{real_call(row, 8)}\n    }}\n{following}")


def real_call(row, indent):
    return fill(f"{' ' * indent}return real::{real_name(row.name)}(", [a.name for a in row.arguments], ");", indent + 4)


def asked(row, straight):
    """Libraries that were loaded are looked at, and the driver is asked about the buffers."""
    tests = host(row)
    state = "    const gate::State state = gate::look();\n" if tests else ""
    way = past(row, ["state == gate::State::kOpen"] + tests, combined=True) if tests else ""
    own = "    MPI_Status own;\n" if write_matching.sees_status(row) else ""
    return function(row, "asked", f"""{state}    if ({"state" if tests else "gate::look()"} == gate::State::kClosed)
{straight}
{operator(row)}{way}{own}{to_router(row)}""")


def function(row, name, body):
    head = fill(f"static __attribute__((noinline)) {row.result} {name}_{row.name}(", [a.declaration() for a in row.arguments], ") {", 4)
    return f"{head}\n{body}\n}}\n\n"


def handing_on(row, name):
    return fill(f"    return {name}_{row.name}(", [a.name for a in row.arguments], ");", 8)


def to_router(row, combined=None):
    """Where nothing has been received yet."""
    values = {"seen": "p2p::to_see(status, own)", "code": "MPI_SUCCESS", "combine": combined or "combine"}
    passed = [a.name for a in handed_on(row)] + [values.get(name, name) for _, name in found(row)]
    return fill(f"    return routed_{row.name}(", passed, ");", 8)


def routed(row, real):
    """Describes the call. What the doors before it have found comes as further arguments."""
    declarations = [a.declaration() for a in handed_on(row)] + [f"{t} {name}" for t, name in found(row)]
    head = fill(f"static __attribute__((noinline)) {row.result} routed_{row.name}(", declarations, ") {", 4)
    return f"""{head}
{operands(row)}{write_matching.description(row)}{fill("    const Call call{", call_fields(row), "};", 8)}
{write_matching.envelope(row)}    return route::take(call, [=]({'const Operand* use' if row.buffers else 'const Operand*'}) {{
{fill(f"        return {real}", forwarded(row), ");", 12)}
    }});
}}
"""


def handed_on(row):
    return [a for a in row.arguments if a.name != "status" or not write_matching.sees_status(row)]


def found(row):
    """Type and name of what the router's part has from the doors before it."""
    seen = [("MPI_Status*", "seen")] if write_matching.sees_status(row) else []
    code = [("int", "code")] if write_matching.envelope(row) else []
    return seen + code + ([("MPI_Op", "combine")] if row.op() else [])


def group_door(row, head, straight):
    """The router hears of the communicator that the real call has made."""
    parent = row.owner().name if row.has("derives") else "MPI_COMM_NULL"
    return f"""{head}
    const int code =
{straight.replace("return ", "", 1)}
    return gate::closed() || code != MPI_SUCCESS ? code : route::has_made({parent}, *{row.made().name});
}}
SWY_PAIR({row.name})
"""


def duplicate_door(row, head, straight):
    """The router hears that MPI begins to duplicate a communicator without blocking."""
    return f"""{head}
    if (!gate::closed())
        route::duplicates({row.owner().name});
{straight.replace("        ", "    ", 1)}
}}
SWY_PAIR({row.name})
"""


def operator(row):
    """The operator that MPI gets: its own, but for types and an operator that it does not have."""
    if not row.op():
        return ""
    may_average = "true" if averages(row) else "false"
    return f"    const MPI_Op combine = datatype::operator_for({row.op().name}, {row.buffers[-1].type}, {may_average});\n"


def averages(row):
    return re.fullmatch("MPIX?_I?(all)?reduce(_scatter(_block)?)?(_init)?(_c)?", row.name, re.I) is not None


def host(row):
    """What must hold for the way past the router, of buffers that are plainly host memory; nothing where there is none, since displacements
    must be looked at."""
    if write_matching.looks_for_envelopes(row):
        return write_matching.host(row)
    if not row.buffers or any("_" in b.shape or b.shape == "address" or not buffer_type(b) for b in row.buffers):
        return []
    tests = [f"!datatype::averages({row.op().name})"] if averages(row) else []
    types = list(dict.fromkeys(buffer_type(b) for b in row.buffers))
    if row.has("routed") and all(b.shape == "one" for b in row.buffers):
        tests += [f"route::small({row.buffers[-1].count}, {t})" for t in types]
    elif row.has("routed") and all(b.shape in ("one", "ranks", "local") for b in row.buffers):
        # The one that every rank passes has the size of a block.
        sized = [b for b in row.buffers if not b.at_root][-1]
        rooted = any(b.at_root for b in row.buffers)
        tests += [f"{sized.name} != MPI_IN_PLACE"] if rooted else []
        tests += [f"route::plain({t})" for t in types if t != sized.type]
        tests += [f"route::small_on_all({sized.count}, {sized.type}, {row.owner().name})"]
    else:
        tests += (["!route::job_agrees"] if row.has("routed") else []) + [f"route::plain({t})" for t in types]
    # The driver is asked last: of calls that go to the router anyway, that one asks it.
    return tests + [f"route::on_host({b.name})" for b in row.buffers]


# What a test becomes that calls no function: where it says no, that is no answer.
SURELY = (("route::plain(", "datatype::surely_predefined("), ("route::small(", "route::surely_small("),
          ("p2p::under_limit(", "p2p::surely_under_limit("))


def surely_tests(row):
    """What must hold for the way past the router, with nothing but the buffers that asks anybody. None for collectives whose size depends on
    the number of ranks, and for receives that leave something to do but with a status."""
    tests = host(row)
    if not tests or calls_mpi_inside(row) or any(t.startswith("route::small_on_all(") for t in tests):
        return []
    if write_matching.looks_for_envelopes(row) and not write_matching.may_go_unseen(row):
        return []
    for asks, knows in SURELY:
        tests = [t.replace(asks, knows) for t in tests]
    tests = (["!datatype::extended()"] if row.op() else []) + [t for t in tests if not t.startswith("!datatype::averages(")]
    return sorted(tests, key=lambda t: t.startswith("route::on_host("))


def past(row, tests, combined):
    """The real call where the tests hold. `combined`: on an operator that may stand for the program's."""
    if write_matching.looks_for_envelopes(row):
        return write_matching.past(row, tests)
    operator_name = row.op().name if row.op() else ""
    arguments = ["combine" if combined and a.name == operator_name else a.name for a in row.arguments]
    guard = "        const route::Inside guard;\n" if calls_mpi_inside(row) else ""
    return f"{condition(tests)}\n{guard}{fill(f'        return real::{real_name(row.name)}(', arguments, ');', 12)}\n    }}\n"


def calls_mpi_inside(row):
    """MPI-IO does. Message passing of plain host memory calls no function of the program's that may call MPI, but for error handlers, whose
    calls are the program's own."""
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
    """The real call's arguments: the program's, but for what a carrier may have replaced."""
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
