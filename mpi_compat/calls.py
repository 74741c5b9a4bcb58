"""Reads the table of calls (calls/*.txt, syntax in calls/README.md). Used by generate.py and by the table's tests."""

import dataclasses
import pathlib
import re

KINDS = ("buffers", "requests", "communicators", "none")
TREATMENTS = ("routed", "matched", "enqueued", "staged", "erroneous", "unread")
MARKS = ("blocking", "large", "pieces", "wrapper", "by-hand", "forms", "duplicates", "removed", "timed", "macro", "variadic",
         "lists")

# Open MPI 4.1 and 5.0 have all of MPI 3.1; any other function gets a wrapper only where the MPI in use has it.
ALWAYS_THERE = "MPI 3.1"


class TableError(Exception):
    pass


@dataclasses.dataclass
class Argument:
    type: str  # "const int", "void *", without name and brackets
    name: str
    brackets: str = ""  # "[]", "[][3]"

    @property
    def pointer_free(self):
        return "*" not in self.type and not self.brackets

    def declaration(self):
        space = "" if self.type.endswith("*") else " "
        return f"{self.type}{space}{self.name}{self.brackets}"

    def anonymous(self):
        """The type as it stands in a list of parameters without names."""
        if not self.brackets:
            return self.type
        rest = self.brackets[2:]
        return f"{self.type} (*){rest}" if rest else f"{self.type} *"


@dataclasses.dataclass
class Buffer:
    access: str  # in, out, inout
    name: str
    shape: str  # one, bytes, sum, own, address, or (ranks|local|sources|targets) with "", _vector, _bytes
    count: str = ""  # an argument, or "1"
    type: str = ""
    displs: str = ""
    times: str = ""  # an argument that multiplies the count
    at_root: bool = False


@dataclasses.dataclass
class InPlace:
    sentinel: str  # the buffer that may be MPI_IN_PLACE
    target: str  # the buffer that is then read too
    as_sentinel: bool  # `target` then has the sentinel's shape


OVER_A_FILE = re.compile("_(all|ordered)(_begin|_end)?(_c)?$")


@dataclasses.dataclass
class Row:
    name: str
    result: str
    arguments: list
    family: str = ""
    document: str = ""
    section: str = ""
    words: tuple = ()
    buffers: list = dataclasses.field(default_factory=list)
    in_place: InPlace = None
    small: str = ""  # the name of the form with int counts, for a form with large ones
    where: str = ""

    def has(self, word):
        return word in self.words

    @property
    def kinds(self):
        return [w for w in self.words if w in KINDS]

    @property
    def treatment(self):
        return next((w for w in self.words if w in TREATMENTS), "")

    @property
    def makes_window(self):
        """Tells whether the call makes a window over the program's memory."""
        return self.has("buffers") and any(a.type == "MPI_Win *" for a in self.arguments)

    @property
    def has_wrapper(self):
        """Tells whether the generator writes a wrapper."""
        return not self.has("by-hand") and (self.has("wrapper") or self.makes_group or self.has("duplicates")
                                            or self.treatment not in ("", "unread") or self.waits)

    @property
    def collective(self):
        """Tells whether all ranks of a communicator, a window or a file make the call, and may wait for each other."""
        if self.document.startswith(("Switchyard", "Open MPI")) or self.treatment == "matched" or self.has("requests"):
            return False
        if not (self.has("blocking") or self.has("communicators") or self.name.endswith("_begin")):
            return False
        owner = self.owner()
        if owner is None or self.family == "pack" or self.name in ("MPI_Comm_create_group", "MPI_Intercomm_create"):
            return False
        if owner.type == "MPI_Win":
            return self.name == "MPI_Win_fence"
        return owner.type == "MPI_Comm" or not self.has("buffers") or bool(OVER_A_FILE.search(self.name))

    @property
    def waits(self):
        """Tells whether the call has nothing for Switchyard to do but to wait for other ranks, which it does by its
        pointer of real.hpp."""
        return self.collective or self.name in ("MPI_Intercomm_create", "MPI_Win_start")

    @property
    def makes_group(self):
        """Tells whether the call makes an intracommunicator, for which its wrapper may have work to do."""
        return self.has("forms")

    @property
    def receives(self):
        return self.treatment == "matched" and any(b.access != "in" for b in self.buffers)

    @property
    def probes(self):
        return self.treatment == "matched" and not self.buffers

    @property
    def looks_for_envelopes(self):
        """Tells whether an envelope may come of the call, in place of a message."""
        return self.receives or self.probes

    @property
    def has_status(self):
        """Tells whether the call has a status that is tested for an envelope."""
        return self.treatment == "matched" and bool(self.named("status"))

    @property
    def has_id(self):
        return not self.has("none") or self.has("by-hand") or self.has("timed") or self.treatment == "matched"

    @property
    def optional(self):
        return self.document != ALWAYS_THERE

    def argument(self, name):
        for a in self.arguments:
            if a.name == name:
                return a
        raise TableError(f"{self.where}: {self.name} has no argument {name}")

    def first(self, test):
        return next((a for a in self.arguments if test(a)), None)

    def named(self, *names):
        """The name among these that an argument has, or an empty string."""
        found = self.first(lambda a: a.name in names)
        return found.name if found else ""

    def owner(self):
        """The argument whose error handler is called."""
        for handle in ("MPI_File", "MPI_Win", "MPI_Comm"):
            found = self.first(lambda a, h=handle: a.type == h and a.pointer_free)
            if found:
                return found
        return None

    def made(self):
        """The argument for the communicator that the call makes."""
        return self.first(lambda a: a.type == "MPI_Comm *")

    def op(self):
        return self.first(lambda a: a.type == "MPI_Op" and a.pointer_free)

    def root(self):
        return self.first(lambda a: a.name in ("root", "dest", "source", "target_rank") and a.pointer_free)

    def prototype(self):
        return f"{self.result} {self.name}({', '.join(a.declaration() for a in self.arguments) or 'void'})"


def parse_prototype(text, where=""):
    """A Row with name, result and arguments, from the text of a C prototype."""
    text = re.sub(r"\s+", " ", text).strip().rstrip(";").strip()
    match = re.fullmatch(r"((?:const )?\w+(?: \w+)*?) ?(\**) ?(\w+) ?\((.*)\)", text)
    if not match:
        raise TableError(f"{where}: no prototype: {text}")
    result, stars, name, arguments = match.groups()
    row = Row(name=name, result=(result + " " + stars).strip(), arguments=[], where=where)
    for part in [] if arguments.strip() in ("", "void") else arguments.split(","):
        row.arguments.append(parse_argument(part.strip(), where))
    return row


def parse_argument(text, where):
    if text == "...":
        return Argument("...", "")
    match = re.fullmatch(r"((?:const )?\w+ ?[* ]*?(?:const )?\**) ?(\w+) ?((?:\[\w*\])*)", text)
    if not match:
        raise TableError(f"{where}: no argument: {text}")
    type_, name, brackets = match.groups()
    type_ = re.sub(r" ?(\*+)", r" \1", re.sub(r"\* (?=\*)", "*", type_.strip()))
    return Argument(type_, name, brackets)


LAYOUT = re.compile(
    r"(?P<how>sum |own )?(?P<count>\w+)(?P<vector>\[\])?(?: at (?P<displs>\w+)\[\](?P<bytes> bytes)?)?"
    r" x (?P<type>\w+)(?P<types>\[\])?(?: per (?P<per>rank|local rank|source|target))?(?:, (?P<times>\w+) times)?")


def parse_buffer(access, name, text, where):
    at_root = text.endswith(", at root")
    text = text.removesuffix(", at root")
    if text == "address":
        return Buffer(access, name, "address")
    if match := re.fullmatch(r"(\w+) bytes", text):
        return Buffer(access, name, "bytes", count=match[1], at_root=at_root)
    match = LAYOUT.fullmatch(text)
    if not match:
        raise TableError(f"{where}: no layout of a buffer: {text}")
    shape = (match["how"] or "").strip() or {None: "one", "rank": "ranks", "local rank": "local", "source": "sources",
                                             "target": "targets"}[match["per"]]
    if match["bytes"]:
        shape += "_bytes"
    elif match["displs"]:
        shape += "_vector"
    return Buffer(access, name, shape, match["count"], match["type"], match["displs"] or "", match["times"] or "", at_root)


def check(row):
    for word in row.words:
        if word not in KINDS + TREATMENTS + MARKS:
            raise TableError(f"{row.where}: unknown word {word}")
    treated = bool(row.treatment) if row.treatment != "matched" else row.has("buffers")  # probes are matched too
    if not row.has("buffers") == bool(row.buffers) == treated:
        raise TableError(f"{row.where}: a row with `buffers` describes them and says what happens to them; others do not")
    if not row.kinds:
        raise TableError(f"{row.where}: {row.name} is of no kind")
    if row.makes_group and not row.made():
        raise TableError(f"{row.where}: {row.name} makes no communicator")
    for buffer in row.buffers:
        for name in (buffer.name, buffer.count, buffer.type, buffer.displs, buffer.times):
            if name and not name.isdigit():
                row.argument(name)
    choice = [a.name for a in row.arguments if a.type in ("void *", "const void *")]
    missing = [n for n in choice if n not in [b.name for b in row.buffers]]
    if row.has("buffers") and missing:
        raise TableError(f"{row.where}: {row.name}: {', '.join(missing)} is not described")


def large_form(row):
    """The row of MPI_X_c (MPI 4.0 section 2.5.8): int counts become MPI_Count, displacements MPI_Aint."""
    arguments = []
    displs = [b.displs for b in row.buffers if b.displs]
    for a in row.arguments:
        type_ = a.type
        if a.name in displs or a.name == "disp_unit":
            type_ = re.sub(r"\bint\b", "MPI_Aint", type_)
        elif a.name in ("outsize", "insize", "position"):
            type_ = re.sub(r"\b(int|MPI_Aint)\b", "MPI_Count", type_)
        elif re.search("count|^size$", a.name):
            type_ = re.sub(r"\bint\b", "MPI_Count", type_)
        arguments.append(Argument(type_, a.name, a.brackets))
    words = [w for w in row.words if w != "large"]
    return dataclasses.replace(row, name=row.name + "_c", arguments=arguments, words=tuple(words), document="MPI 4.0",
                               section="2.5.8", small=row.name)


FACTS = re.compile(r"(MPI \d\.\d|Open MPI \d\.\d|MPICH \d\.\d|Switchyard \d\.\d)( [\d.]+)?: (.*)")
BUFFER = re.compile(r"(in|out|inout) (\w+): (.*)")
IN_PLACE = re.compile(r"in place (\w+): (\w+) inout(, as \1)?")


def add_fact(row, text, where):
    if match := FACTS.fullmatch(text):
        row.document, row.section, row.words = match[1], (match[2] or "").strip(), tuple(match[3].split())
    elif match := IN_PLACE.fullmatch(text):
        row.in_place = InPlace(match[1], match[2], bool(match[3]))
    elif match := BUFFER.fullmatch(text):
        row.buffers.append(parse_buffer(*match.groups(), where))
    else:
        raise TableError(f"{where}: not understood: {text}")


def read_file(path):
    rows, family, prototype, row = [], "", "", None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.name}:{number}"
        text = line.strip()
        if prototype or (text and not line[0].isspace() and not text.startswith("==")):
            prototype += " " + text
            if prototype.endswith(")"):
                row = parse_prototype(prototype, where)
                row.family = family
                rows.append(row)
                prototype = ""
        elif text.startswith("=="):
            family = text[2:].split(":")[0].strip()
        elif text:
            if row is None:
                raise TableError(f"{where}: facts without a function")
            add_fact(row, text, where)
    return rows


def families(folder):
    """Family -> title, in the table's order."""
    found = {}
    for path in table_files(folder):
        for line in path.read_text().splitlines():
            if match := re.fullmatch(r"== (\w+): (.*)", line):
                found[match[1]] = match[2]
    return found


def table_files(folder):
    return sorted(pathlib.Path(folder).glob("*.txt"))


def read(folder):
    """All rows, those of the large-count forms after their small ones."""
    rows = []
    for path in table_files(folder):
        for row in read_file(path):
            check(row)
            rows.append(row)
            if row.has("large"):
                rows.append(large_form(row))
    names = [r.name for r in rows]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise TableError(f"listed twice: {', '.join(sorted(twice))}")
    return rows
