"""Levelgate beside kro at the same work: `python -m bench.beside_kro [INSTANCES [RESOURCES]]` (1000 and 10).

Each system has a fresh control plane, one after another. The systems are Levelgate, the leanest possible client
(`bare`) with the requests of Levelgate, kro without limits, and kro as shipped. The report is Markdown, and progress
goes to stderr. `--only levelgate,kro` runs some systems. `--rows first,drift` plays some rows; the first deployment is
always one of them. docs/performance.md describes the rows and figures. The bench builds kro once, with Go.

If a row does not reach the wanted state, or a process ends, the bench still prints the earlier figures. Then the bench
ends with exit code 1.
"""

from __future__ import annotations

import argparse
import compileall
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import ClientError

import applier
import gitops
import renderer
from bench.kro import bare, binary
from bench.kro.bare import RecordedRequest
from bench.kro.fleet import Fleet
from bench.kro.report import COLUMNS, Report
from bench.kro.rows import FEWEST, ROWS, History
from bench.kro.systems import Kro, Levelgate, LiftedKro, System
from bench.kro.watching import StuckError
from tests.support.cluster.binaries import NotBuiltError
from tests.support.cluster.control_plane import DEFAULT_CONTROLLERS, ControlPlane

SYSTEMS: Final[dict[str, type[System]]] = {kind.name: kind for kind in (Levelgate, LiftedKro, Kro)}
BARE_ROWS: Final = ("first", "at-once")
"""Rows that the bare client also plays."""

FAILURES: Final = (StuckError, AssertionError, RuntimeError, OSError, ClientError, NotBuiltError, binary.KroError)
"""Errors that end the bench with a message instead of a traceback."""

_LOG_LINES: Final = 15


@dataclass(frozen=True)
class Options:
    """Arguments of the command."""

    instances: int
    resources: int
    only: tuple[str, ...]
    rows: tuple[str, ...]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Options:
        """Parse the arguments. Raises: SystemExit for an invalid argument."""
        parser = argparse.ArgumentParser(prog="python -m bench.beside_kro", description=(__doc__ or "").split("\n")[0])
        parser.add_argument("instances", nargs="?", type=int, default=1_000)
        parser.add_argument("resources", nargs="?", type=int, default=10, help="ConfigMaps of each instance")
        parser.add_argument("--only", default=",".join(COLUMNS), help=f"some of: {', '.join(COLUMNS)}")
        parser.add_argument("--rows", default=",".join(ROWS), help=f"some of: {', '.join(ROWS)}")
        found = parser.parse_args(arguments)
        if found.instances < FEWEST or found.resources < 1:
            parser.error(f"give {FEWEST} instances and 1 resource at least")
        only, rows = found.only.split(","), found.rows.split(",")
        for option, words, known in (("--only", only, COLUMNS), ("--rows", rows, ROWS)):
            if wrong := [word for word in words if word not in known]:
                parser.error(f"{option}: not known: {', '.join(wrong)}. There are {', '.join(known)}")
        chosen = tuple(row for row in ROWS if row in rows or row == "first")
        return cls(found.instances, found.resources, tuple(name for name in COLUMNS if name in only), chosen)

    @property
    def bare_rows(self) -> tuple[str, ...]:
        return tuple(row for row in BARE_ROWS if row in self.rows) if "bare" in self.only else ()


def main(arguments: Sequence[str]) -> int:
    options = Options.parse(arguments)
    for package in (applier, gitops, renderer):
        compileall.compile_dir(package.__path__[0], quiet=1)  # as pip does when it installs them
    report, failed = Report(options.instances, options.resources), False
    try:
        if {Kro.name, LiftedKro.name} & set(options.only):
            binary.install()
        with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name:
            run(options, report, Path(name))
    except FAILURES as error:
        print(f"error: {error}", file=sys.stderr)
        failed = True
    for line in report.lines():
        print(line)
    return int(failed)


def run(options: Options, report: Report, directory: Path) -> None:
    """Measure the systems and rows of `options`, and fill `report`."""
    recorded: dict[str, list[RecordedRequest]] = {}
    if Levelgate.name in options.only or options.bare_rows:
        rows = options.rows if Levelgate.name in options.only else options.bare_rows
        recorded = _play(Levelgate, rows, options, report, directory)
    if options.bare_rows:
        with fresh(directory / "bare", ()) as server:
            for row in options.bare_rows:
                print(f"bare: {ROWS[row]}", file=sys.stderr, flush=True)
                requests = recorded.pop(row)
                report.bare[row] = bare.play(server, bare.prepare(server, requests) if row == "first" else requests)
    for kind in (LiftedKro, Kro):
        if kind.name in options.only:
            _play(kind, options.rows, options, report, directory)


@contextmanager
def fresh(directory: Path, controllers: Sequence[str]) -> Iterator[ControlPlane]:
    """Return a control plane. At its end, delete its files, which take gigabytes with many objects."""
    with ControlPlane.start(directory, controllers) as server:
        yield server
    shutil.rmtree(directory)


def _play(
    kind: type[System], rows: Collection[str], options: Options, report: Report, directory: Path
) -> dict[str, list[RecordedRequest]]:
    """Take one system through the rows, and return the requests that the bare client sends again, by row."""
    with fresh(directory / kind.name, DEFAULT_CONTROLLERS) as server:
        report.kubernetes = server.request("GET", "/version").body["gitVersion"]
        system = kind(server)
        history = History(system, Fleet.of_size(options.instances, options.resources), options.bare_rows)
        if kind.name in options.only:
            report.systems[kind.name] = history.taken
        try:
            history.play(rows)
        except RuntimeError:  # It has the log of the process that ended.
            raise
        except Exception:
            log = (server.directory / f"{kind.name}.log").read_text(errors="replace").splitlines()
            print("\n".join([f"the end of the log of {kind.name}:", *log[-_LOG_LINES:]]), file=sys.stderr)
            raise
        return history.taken.recorded


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
