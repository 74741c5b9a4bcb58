"""The commands that documents show: in sh blocks, in indented ones, and within a sentence."""

import os
import re
import subprocess

from command import SOURCE

HERE = os.path.dirname(os.path.abspath(__file__))
TITLE = re.compile(r"^##+ (.*)$", re.MULTILINE)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:    .*\n)+")
IN_TEXT = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
# What makes a command of words in a sentence: a program's name with arguments, or with variables before it. The name of a
# subcommand alone is a name.
VARIABLES = r"(?:[A-Z_]+=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])* )+"
PROGRAMS = (r"switchyard \w+|switchyard-\w+|swycc|swycxx|swyfort|mpirun|mpicc|mpicxx|mpifort|ompi-server|srun|sbatch|module|docker|apptainer"
            r"|make(?= \S*=| \S+ )|(?:\./)?configure|pip|spack|eb|rattler-build|apt-get|dpkg-buildpackage|lintian|kill|gdb|nvcc|git|export|python3"
            r"|nsys|tau_exec|tests/[\w/.-]+|\./[\w/.-]+")
COMMAND = re.compile(rf"{VARIABLES}(?:\./)?[\w-]+\b(?!=)|(?:{PROGRAMS}) ")


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as document:
        return document.read()


def names():
    """The documents of the clone; None where this is none."""
    listed = subprocess.run(["git", "ls-files", "*.md", "debian/README.source", ":!third_party"], cwd=SOURCE, capture_output=True, text=True, check=False)
    return listed.stdout.split() if listed.returncode == 0 else None


def sections(text):
    """What stands under each title; before the first one, under ""."""
    parts = ["", *TITLE.split(text)]
    found = {}
    for title, part in zip(parts[0::2], parts[1::2]):
        found[title] = found.get(title, "") + part
    return found


def blocks(text, kind):
    """What stands in the fenced blocks of a kind."""
    return [inside for found, inside in FENCED.findall(text) if found == kind]


def lines(block):
    """The commands of a block, one a line, without comments."""
    joined = re.sub(r" *\\\n *", " ", block)
    return [line for line in (re.sub(r"(^|\s+)#( .*|)$", "", line).strip() for line in joined.splitlines()) if line]


def indented(text):
    return INDENTED.findall(FENCED.sub("", text))


def within_sentences(text):
    found = (re.sub(r"\s+", " ", inside) for inside in IN_TEXT.findall(INDENTED.sub("", FENCED.sub("", text))))
    return [command for command in found if COMMAND.match(command)]


def elsewhere():
    """The list of commands that manual_commands.test does not run: by document, the reason of each. What is no command is there by its first line."""
    listed, document, reason = {}, None, None
    with open(os.path.join(HERE, "commands_elsewhere.txt"), encoding="utf-8") as table:
        for line in table:
            if line.startswith("- "):
                reason = line[2:].strip()
            elif line.startswith("    "):
                listed[document][line.strip()] = reason
            elif line.strip() and not line.startswith("#"):
                document, reason = line.strip(), None
                listed[document] = {}
    return listed
