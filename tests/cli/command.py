"""How the tests of the switchyard command start it: from the build folder, in an environment of their own."""

import atexit
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
import textwrap

BUILD = os.environ["SWY_BUILDDIR"]
SOURCE = os.environ["SWY_SRCDIR"]
COMMAND = os.path.join(BUILD, "switchyard")
LIBRARY = os.path.join(BUILD, ".libs", "libswitchyard.so")
VIRTUAL_GPUS = os.path.join(BUILD, "vgpu", "lib")


def environment(**changes):
    """This process's environment without the variables that the command reads; a value of None removes one."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not re.match(r"SWITCHYARD|VGPU_|LD_PRELOAD$|LD_LIBRARY_PATH$|CUDA_VISIBLE_DEVICES$", name)
    }
    for name, value in changes.items():
        kept.pop(name, None)
        if value is not None:
            kept[name] = value
    return kept


def switchyard(*words, env=None, **options):
    return subprocess.run(
        [COMMAND, *words], env=env or environment(), capture_output=True, text=True, timeout=300, check=False, **options
    )


def on_terminal(*words, columns, **changes):
    """Its exit status and what it prints to a terminal so wide."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    settings = environment(TERM="xterm", **{"NO_COLOR": None, "COLUMNS": None, **changes})
    done = subprocess.Popen([COMMAND, *words], env=settings, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower)
    os.close(follower)
    text = b""
    try:
        while part := os.read(leader, 65536):
            text += part
    except OSError:  # the other end is closed
        pass
    os.close(leader)
    return done.wait(timeout=60), text.decode().replace("\r\n", "\n")


def info(*words, **changes):
    """`switchyard info --format=json` as an object, and the finished process."""
    done = switchyard("info", "--format=json", *words, env=environment(**changes))
    return json.loads(done.stdout), done


def configured(name):
    """A value that configure has put into tests/launch."""
    with open(os.path.join(BUILD, "tests", "launch"), encoding="utf-8") as launch:
        found = re.search(rf"^{name}='(.*)'$", launch.read(), re.MULTILINE)
    return found.group(1)


def run_options():
    """What `switchyard run` needs here to start a real job: the MPI of this build, and the sanitizers' runtime in front."""
    options = ["--mpirun", configured("mpirun")]
    folder = configured("mpi_prefix_lib")
    if not folder.startswith("/usr/lib"):
        options += ["-x", f"LD_LIBRARY_PATH={folder}"]
    runtime = {"address": "libasan.so", "thread": "libtsan.so"}
    for name in configured("sanitizers").split(","):
        if name in runtime:
            asked = [configured("cxx").split()[0], f"-print-file-name={runtime[name]}"]
            options += ["-x", "LD_PRELOAD=" + subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()]
    return options


class FakeMpirun:
    """A folder with an mpirun that notes how it was called and exits with a given status."""

    def __init__(self, status=0):
        self.folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "mpirun")
        self.noted = os.path.join(self.folder, "noted")
        with open(self.path, "w", encoding="utf-8") as script:
            script.write(
                textwrap.dedent(
                    f"""\
                    #!/bin/sh
                    {{ printf '%s\\n' "$@"; echo --environment; env; }} >'{self.noted}'
                    exit {status}
                    """
                )
            )
        os.chmod(self.path, 0o755)

    def path_first(self):
        return self.folder + ":" + os.environ["PATH"]

    def calls(self):
        """The words it was given and the environment it had."""
        with open(self.noted, encoding="utf-8") as noted:
            words, _, env = noted.read().partition("--environment\n")
        return words.splitlines(), dict(line.split("=", 1) for line in env.splitlines() if "=" in line)
