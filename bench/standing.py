"""Figures of a daemon over 10,000 objects on a real API server: `python -m bench.standing [SECONDS]`.

What its start costs, what it costs for so many SECONDS (60) in which nothing happens, and how long after a commit its first write is sent. Requests
are those of the audit log. Seconds are of CPU, that of Git's processes included, where nothing else is said. In ten minutes the daemon looks at
everything once: `python -m bench.standing 660`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.applying import Bench
from tests.controlplane.audit import AuditEvent, AuditLog
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import eventually

OBJECTS: Final = 10_000
SECONDS: Final = 60.0
STILL: Final = 5.0
"""Seconds without work after which it has come to rest."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def main(seconds: float = SECONDS) -> None:
    with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name, ControlPlane.start(Path(name)) as server:
        bench, audit = Bench(server, OBJECTS), AuditLog(server.audit_log)
        repository = bench.repository("standing")
        bench.run(bench.command(repository))
        begun = audit.mark()
        command = [word for word in bench.command(repository) if word != "--once"]
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig("levelgate")), "XDG_CACHE_HOME": name}
        process = subprocess.Popen([*command, "--listen", "off"], env=environment, stdout=subprocess.DEVNULL)
        try:
            _rested(process.pid)
            started, resting = _cpu(process.pid), audit.mark()
            print(f"\n{f'daemon, {OBJECTS:,} objects':<44} {'':>12}")
            print(f"{'start, seconds':<44} {started:>12.2f}")
            print(f"{'  requests':<44} {_told(audit.events(user='levelgate', since=begun))}")
            print(f"{'memory at rest, and at most, MiB':<44} {_memory(process.pid):>12}")
            time.sleep(seconds)
            spent = (_cpu(process.pid) - started) / seconds
            print(f"{f'nothing happens for {seconds:.0f} s, of a core':<44} {spent:>12.2%}")
            print(f"{'  requests':<44} {_told(audit.events(user='levelgate', since=resting)) or 'none'}")
            file = repository.path / "00000.json"
            repository.commit({file.name: file.read_text().replace("xxx", "yyy", 1)})
            committed, before = datetime.now(UTC), _cpu(process.pid)
            sent = eventually(lambda: _write(audit, resting), within=60)
            print(f"{'commit to first write, of wall clock':<44} {(sent - committed).total_seconds():>12.2f}")
            print(f"{'  of CPU':<44} {_cpu(process.pid) - before:>12.2f}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _rested(pid: int) -> None:
    before = -1.0
    while (now := _cpu(pid)) > before + 0.05 or now < 1:
        before = now
        time.sleep(STILL)


def _cpu(pid: int) -> float:
    """User and system time of a process and of those that it has waited for (proc(5)), in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def _memory(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return ", ".join(
        f"{int(size) // 1024}" for size in re.findall(r"^Vm(?:RSS|HWM):\s+(\d+)", status, re.MULTILINE)[::-1]
    )


def _write(audit: AuditLog, since: int) -> datetime:
    writes = [event for event in audit.events(user="levelgate", since=since) if event.name.startswith("item-")]
    assert writes, "the commit has not been taken yet"
    return writes[0].time


def _told(events: Iterable[AuditEvent]) -> str:
    counts = Counter(f"{event.verb}{' lease' if event.resource == 'leases' else ''}" for event in events)
    return ", ".join(f"{verb} {number}" for verb, number in sorted(counts.items()))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
