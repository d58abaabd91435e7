"""`python -m tests.support.golden record FILE` and `compare FILE`: did a change of the code change the outside of the program?

`python -m tests.support.golden local`: is it another one where a fleet has the cluster `local` alone?
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.golden.compare import differences
from tests.support.golden.local_cluster import record_both
from tests.support.golden.record import record


def main(arguments: list[str]) -> int:
    """Return 0 if all is alike, 1 if something differs."""
    parser = argparse.ArgumentParser(prog="tests.support.golden", description=__doc__)
    parser.add_argument("action", choices=("record", "compare", "local"))
    parser.add_argument("file", type=Path, nargs="?", default=Path(__file__).parent / "golden.json.gz")
    parser.add_argument("--only", action="append", default=[], help="a scenario, or sample-repo")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    if options.action == "local":
        alone, fleet = asyncio.run(record_both())
        return _report(differences(alone, fleet))
    actual = asyncio.run(record(options.only))
    print(f"{counts(actual)}, {time.monotonic() - begin:.0f} s")
    if options.action == "record":
        options.file.write_bytes(gzip.compress(json.dumps(actual, sort_keys=True, indent=1).encode(), mtime=0))
        return 0
    expected = json.loads(gzip.decompress(options.file.read_bytes()))
    if options.only:
        expected = {
            "scenarios": {name: steps for name, steps in expected["scenarios"].items() if name in options.only},
            **({name: expected[name] for name in ("sample-repo", "commands")} if "sample-repo" in options.only else {}),
        }
    return _report(differences(expected, actual))


def _report(lines: list[str]) -> int:
    print("\n".join([*lines, f"{len(lines)} differences"]))
    return 1 if lines else 0


def counts(found: dict[str, Any]) -> str:
    """Return the size of a record in words."""
    plays = [*found["scenarios"].values(), found.get("sample-repo", {})]
    steps = [step for play in plays for step in play.values()]
    writes = sum(len(step["writes"]) for step in steps)
    return f"{len(found['scenarios'])} scenarios, {len(steps)} steps, {writes} writes, {len(found.get('commands', {}))} commands"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
