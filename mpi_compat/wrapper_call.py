"""What a wrapper tells the dispatcher of its call: its operands, its matching, and the arguments of the real call."""

from write_headers import call_id

SHAPES = {
    "one": "kOne", "bytes": "kOne", "sum": "kRanksSum", "own": "kRanksOwn", "address": "kAddress",
    "local": "kRanksLocal", "ranks": "kRanks", "ranks_vector": "kRanksVector", "ranks_bytes": "kRanksBytes",
    "sources": "kSources", "sources_vector": "kSourcesVector", "sources_bytes": "kSourcesBytes",
    "targets": "kTargets", "targets_vector": "kTargetsVector", "targets_bytes": "kTargetsBytes",
}
ACCESSES = {"in": "kIn", "out": "kOut", "inout": "kInOut"}

# Shapes with a count and a type that a transport may replace, where the call has them for this buffer alone.
SCALAR_SHAPES = ("one", "ranks", "local", "sources", "targets")

# The argument that fills a field of Matching, by name; `tag` is the tag of the only direction.
MATCHING = {
    "dest": ("dest",), "send_tag": ("sendtag", "tag"), "source": ("source",), "receive_tag": ("recvtag", "tag"),
    "status": ("status",), "flag": ("flag",), "message": ("message",), "request": ("request",),
}
# A tag is one of the direction that the call has.
DIRECTIONS = {"send_tag": "dest", "receive_tag": "source"}


def matching_fields(row):
    fields = []
    for field, names in MATCHING.items():
        name = row.named(*names)
        if name and row.named(DIRECTIONS.get(field, name)):
            fields.append(f".{field} = {'seen' if field == 'status' else name}")
    if row.probes:
        fields.append(".found = fastpath::is_envelope(*seen)")
    return fields


def vector(buffer):
    """Tells whether blocks have counts of their own."""
    return "_" in buffer.shape or buffer.shape in ("sum", "own")


def operand_fields(row, buffer):
    in_place = row.in_place if row.in_place and row.in_place.target == buffer.name else None
    argument = row.argument(buffer.name)
    address = f"const_cast<void*>({buffer.name})" if argument.type.startswith("const") else buffer.name
    fields = [f".address = {address}"]
    if buffer.shape != "address" and not vector(buffer):
        fields.append(f".count = {f'MPI_Count{{{buffer.count}}} * {buffer.times}' if buffer.times else buffer.count}")
    if buffer.shape == "bytes":
        fields.append(".type = MPI_BYTE")
    elif buffer.type and not buffer.shape.endswith("_bytes"):
        fields.append(f".type = {buffer.type}")
    access = f"Access::{ACCESSES[buffer.access]}"
    if in_place:
        access = f"{in_place.sentinel} == MPI_IN_PLACE ? Access::kInOut : {access}"
    fields.append(f".access = {access}")
    if buffer.at_root:
        fields.append(".at = At::kRoot")
    if width(row, buffer) != "kInt":
        fields.append(f".width = Width::{width(row, buffer)}")
    fields.append(f".shape = {shape(row, buffer, in_place)}")
    if vector(buffer):
        fields.append(f".count_array = {buffer.count}")
        if buffer.displs:
            fields.append(f".displ_array = {buffer.displs}")
        if buffer.shape.endswith("_bytes"):
            fields.append(f".types = {buffer.type}")
    return fields


def width(row, buffer):
    """The types of the numbers in the buffer's arrays, if it has some."""
    if vector(buffer) and "MPI_Count" in row.argument(buffer.count).type:
        return "kLarge"
    return "kOffset" if buffer.displs and "MPI_Aint" in row.argument(buffer.displs).type else "kInt"


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
    fields += [".made = &made"] if row.makes_window else []
    fields += [".target = &target"] if row.named("target_disp") else []
    fields += [".file = &file"] if row.has("pieces") else []
    return fields


def target_fields(row):
    """What a one-sided call names at its target: one element of its only type where it has no count."""
    count, type_ = row.named("target_count") or "1", row.named("target_datatype", "datatype")
    return ["target_disp", count, type_]


def forwarded(row):
    """The real call's arguments: the program's, except those that the transport may have replaced."""
    replaced = {}
    for i, buffer in enumerate(row.buffers):
        replaced[buffer.name] = f"use[{i}].address"
        alone = sum(b.count == buffer.count or b.type == buffer.type for b in row.buffers) == 1
        if buffer.shape in SCALAR_SHAPES and alone and not buffer.times:
            count = row.argument(buffer.count).type
            passed = f"use[{i}].count"
            replaced[buffer.count] = passed if count == "MPI_Count" else f"static_cast<{count}>({passed})"
            replaced[buffer.type] = f"use[{i}].type"
        elif buffer.displs:
            number = "int" if width(row, buffer) == "kInt" else "MPI_Aint"
            replaced[buffer.displs] = f"static_cast<const {number}*>(use[{i}].displ_array)"
            replaced[buffer.type] = f"use[{i}].type{'s' if buffer.shape.endswith('_bytes') else ''}"
    if row.named("target_disp"):
        replaced["target_disp"] = "target.disp"
    if row.named("target_count"):
        count = row.argument("target_count").type
        replaced["target_count"] = "target.count" if count == "MPI_Count" else f"static_cast<{count}>(target.count)"
        replaced["target_datatype"] = "target.type"
    if row.has("pieces"):
        replaced |= {"offset": "file.offset", "status": "file.status"}
    if row.op():
        replaced[row.op().name] = "combine"
    if row.has_status:
        replaced["status"] = "seen"
    return [replaced.get(a.name, a.name) for a in row.arguments]
