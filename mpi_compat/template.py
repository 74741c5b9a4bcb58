"""Fills in templates of C++ text, and breaks the lines that come out too long."""

import string

COLUMNS = 120


def fill(template, fields):
    """Puts the fields' values in place of their names ($name). A field on a line of its own may have several lines, or
    none: then its line goes."""
    lines = []
    for line in template.strip("\n").split("\n"):
        code = line.lstrip()
        indent = line[:len(line) - len(code)]
        filled = string.Template(code).substitute(fields).strip("\n")
        if filled or not code:
            lines += [indent + part if part else "" for part in filled.split("\n")]
    return "\n".join(lines) + "\n"


def broken(line):
    """Breaks a line of code as clang-format does: after a comma or an operator in as few brackets as possible, with the
    rest aligned to what is in the same brackets."""
    if len(line) <= COLUMNS or line.lstrip().startswith("//"):
        return line
    starts = [len(line) - len(line.lstrip())]
    depth, end, start = len(line), None, 0
    for column, character in enumerate(line[:COLUMNS + 1]):
        if character in "([{":
            starts.append(column + 1)
        elif character in ")]}" and starts:
            starts.pop()
        elif line[:column].endswith((",", "&&")) and starts:
            if len(starts) <= depth:
                depth, end, start = len(starts), column, starts[-1]
    return line if end is None else f"{line[:end]}\n{broken(' ' * start + line[end + 1:])}"
