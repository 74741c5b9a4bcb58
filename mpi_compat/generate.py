#!/usr/bin/env python3
"""Writes, from the table of calls (calls/*.txt), what is not written by hand. The build runs it; by hand:

  python3 mpi_compat/generate.py --available AVAILABLE --headers DIR --sources DIR
      headers: call_ids.hpp (ids, names and facts of calls), real.hpp (the real MPI functions), gated_calls.inc (those
               that are collective)
      sources: real.cpp, wrappers_FAMILY.cpp
      AVAILABLE lists the symbols that the MPI in use exports, one a line; functions that are not in MPI 3.1 get
      wrappers only where it has them. Without --available: MPI 3.1 alone.
  python3 mpi_compat/generate.py --coverage docs/coverage.md     every function and what happens to a device buffer in it
  python3 mpi_compat/generate.py --manual switchyard-routes.7    the same as a manual page, by what happens
  python3 mpi_compat/generate.py --list optional|files|wrappers     names, one a line: functions with generated wrappers
                                                                 that are not in MPI 3.1, files written to
                                                                 --sources, wrappers for the MPI in use

Needs Python 3.9 and its standard library. Files whose content has not changed are not touched.
"""

import argparse
import pathlib
import sys

sys.dont_write_bytecode = True  # the source folder may be read-only, and is not ours to fill

import calls  # noqa: E402
import write_coverage  # noqa: E402
import write_wrappers  # noqa: E402
import write_headers  # noqa: E402
import write_manual  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", default=HERE / "calls", help="the table's folder")
    parser.add_argument("--available", help="symbols of the MPI at hand")
    parser.add_argument("--headers", help="folder for headers")
    parser.add_argument("--sources", help="folder for sources")
    parser.add_argument("--coverage", help="file for the coverage page")
    parser.add_argument("--manual", help="file for the manual page")
    parser.add_argument("--list", choices=("optional", "files", "wrappers"))
    options = parser.parse_args()
    try:
        rows = calls.read(options.calls)
    except calls.TableError as error:
        sys.exit(f"{options.calls}: {error}")
    present = [r for r in rows if is_present(r, available(options.available))]
    families = calls.families(options.calls)
    if options.headers:
        write(options.headers, {"call_ids.hpp": write_headers.call_ids(rows, families),
                                "real.hpp": write_headers.real_header(rows, present),
                                "gated_calls.inc": write_headers.gated_calls(present)})
    if options.sources:
        write(options.sources, {"real.cpp": write_headers.real_source(present)})
        write(options.sources, write_wrappers.files(rows, present, families))
    if options.coverage:
        path = pathlib.Path(options.coverage)
        write(path.parent, {path.name: write_coverage.page(rows, families)})
    if options.manual:
        path = pathlib.Path(options.manual)
        write(path.parent, {path.name: write_manual.page(rows, families)})
    if options.list:
        print("\n".join(listed(options.list, rows, present, families)))


def listed(what, rows, present, families):
    if what == "optional":
        return [r.name for r in rows if r.optional and r.has_wrapper]
    if what == "files":
        return ["real.cpp", *write_wrappers.files(rows, present, families)]
    return [r.name for r in present if r.has_wrapper or r.has("by-hand")]


def available(path):
    return set(pathlib.Path(path).read_text().split()) if path else set()


def is_present(row, symbols):
    """Tells whether the MPI in use has the function under its public name: a program cannot call one that has a
    profiling name only."""
    return not row.optional or row.name in symbols


def write(folder, files):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main()
