"""The table of calls lists every function of the mpi.h at hand, with its signature, and describes every buffer.

Usage: table.py SOURCE_FOLDER PREPROCESSED_MPI_H AVAILABLE
"""

import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "mpi_compat"))
import calls  # noqa: E402

failures = []


def expect(condition, text):
    if not condition:
        failures.append(text)


def declarations(text):
    """Name -> the prototype's text, of every MPI_* and MPIX_* function in a preprocessed header."""
    attribute = r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)"
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    text = re.sub(r"\s+", " ", re.sub(attribute, "", text))
    found = {}
    for statement in text.split(";"):
        statement = statement.strip().removeprefix("extern ")
        match = re.fullmatch(r"(?!typedef)[\w ]+[ *]+(MPIX?_\w+) ?\((.*)\)", statement)
        if match:
            found[match[1]] = statement
    return found


def signature(row):
    """What a caller sees: result and argument types, with arrays as the pointers that they are."""
    return [re.sub(r"\s+", "", t) for t in [row.result] + [a.anonymous() for a in row.arguments]]


def compare(rows, declared, symbols):
    for name, text in declared.items():
        if name not in rows:
            failures.append(f"{name} is in mpi.h but not in the table: {text}")
            continue
        there = calls.parse_prototype(text, name)
        expect(signature(there) == signature(rows[name]),
               f"{name}: mpi.h has\n    {text}\n  the table\n    {rows[name].prototype()}")
    for row in rows.values():
        expect(row.optional or row.name in declared or row.has("macro"), f"{row.name} is not in mpi.h")
        expect(not (row.has_wrapper or row.has("by-hand")) or row.optional or row.name in symbols,
               f"{row.name} is not a symbol of the MPI library: its wrapper could not work")
    expect(len(declared) > 400, f"only {len(declared)} functions found in mpi.h: the reading of it is broken")


def describe(rows):
    """A choice buffer that no row describes would pass by the wrappers."""
    for row in rows.values():
        choice = [a for a in row.arguments if a.type in ("void *", "const void *") and not a.brackets]
        values = [a.name for a in choice if a.name in ("extra_state", "attribute_val", "attr_val", "obj_handle", "baseptr")]
        handed_back = row.name == "MPI_Buffer_detach" or row.name.startswith("MPI_T_")
        expect(row.has("buffers") or handed_back or len(values) == len(choice),
               f"{row.name} has a choice buffer but is not marked `buffers`")
        if row.has("blocking") or not row.has("buffers"):
            continue
        begins = re.fullmatch(r"MPI_File_\w+_begin(_c)?", row.name) is not None
        # These are finished by a call that synchronises the window, or detaches the memory.
        one_sided = row.family in ("one_sided", "windows")
        finishes_later = row.treatment in ("staged", "routed") and (row.has("requests") or begins or one_sided)
        expect(finishes_later or row.treatment in ("matched", "enqueued", "erroneous", "unread"),
               f"{row.name} is not blocking: it cannot be {row.treatment}")
    for row in rows.values():
        takes_requests = any(a.type.startswith("MPI_Request") and a.brackets + a.type != "MPI_Request" for a in row.arguments)
        expect(not takes_requests or row.has("requests") or row.name.endswith(("c2f", "f2c")),
               f"{row.name} handles requests but is not marked so")
        makes = any(a.type == "MPI_Comm *" for a in row.arguments)
        expect(not makes or row.has("communicators"), f"{row.name} makes or frees a communicator but is not marked so")


def files_are_built(source):
    """A new family has a new file of wrappers, which the Makefile must know."""
    command = [sys.executable, source / "mpi_compat/generate.py", "--list", "files"]
    made = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    fragment = (source / "mpi_compat/local.mk").read_text()
    for name in made:
        expect(f"mpi_compat/{name}" in fragment, f"mpi_compat/local.mk does not list {name}")
    for path in calls.table_files(source / "mpi_compat/calls"):
        expect(f"calls/{path.name}" in fragment, f"mpi_compat/local.mk does not list calls/{path.name}")


def main():
    source, preprocessed, available = map(pathlib.Path, sys.argv[1:])
    rows = {r.name: r for r in calls.read(source / "mpi_compat/calls")}
    compare(rows, declarations(preprocessed.read_text()), set(available.read_text().split()))
    describe(rows)
    files_are_built(source)
    page = source / "docs/coverage.md"
    sys.path.insert(0, str(source / "mpi_compat"))
    import write_coverage
    expect(page.read_text() == write_coverage.page(list(rows.values()), calls.families(source / "mpi_compat/calls")),
           f"{page} is not what the table says: make coverage-page")
    print("\n".join(failures) or f"{len(rows)} rows agree with mpi.h")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
