"""Figures of the sandbox: start, throughput, size, and conditions that do not change the throughput.

Rates are per second of CPU of the answering process, so that other work of the machine counts little.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import orjson

from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request

ROOT = Path(__file__).resolve().parents[1]
OBJECTS, ROUND, IN_FLIGHT = 10_000, 2_000, 16
_APPLY = {"content-type": "application/apply-patch+yaml"}


def main() -> None:
    print(f"\n{'sandbox':<64} {'':>14}")
    _row("seconds of CPU: import, and answer a first request", f"{min(_start() for _ in range(5)):.3f}")
    rate = max(_rate(Sandbox(), offset * ROUND) for offset in range(3))
    _row("applies that create, in process, per second of CPU", f"{rate:,.0f}")
    crowded = Sandbox()
    _fill(crowded, OBJECTS)
    _row(f"the same beside {OBJECTS:,} others, as a ratio", f"{_best(crowded, OBJECTS) / rate:.2f}")
    watched = Sandbox()
    asyncio.run(_watched(watched, rate))
    served = _served()
    _row("applies that create, over HTTP, per second of the server's CPU", f"{served:,.0f}")
    _row(f"MB for {OBJECTS:,} small ConfigMaps, all of the process", f"{_size():.0f}")


def _row(label: str, figure: str) -> None:
    print(f"{label:<64} {figure:>14}")


def _start() -> float:
    code = "from gitops.sandbox import new_sandbox as n; from applier.sandbox.wire import Request as R; n().handle(R('GET', '/api/v1/pods'))"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _apply(number: int) -> tuple[str, bytes]:
    """Return the target and the body of an apply of a small ConfigMap."""
    name = f"config-{number}"
    metadata = {"name": name, "labels": {"app": "bench"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": str(number), "b": "text"}}
    return f"/api/v1/namespaces/default/configmaps/{name}?fieldManager=bench&force=true", orjson.dumps(body)


def _fill(sandbox: Sandbox, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        target, body = _apply(number)
        assert sandbox.handle(Request("PATCH", target, _APPLY, body)).status == 201


def _rate(sandbox: Sandbox, start: int) -> float:
    begun = time.process_time()
    _fill(sandbox, ROUND, start)
    return ROUND / (time.process_time() - begun)


def _best(sandbox: Sandbox, start: int) -> float:
    return max(_rate(sandbox, start + offset * ROUND) for offset in range(3))


async def _watched(sandbox: Sandbox, rate: float, watchers: int = 1000) -> None:
    """Measure writes while many clients watch another kind."""
    streams: list[AsyncIterator[bytes]] = []
    for _ in range(watchers):
        stream = sandbox.handle(Request("GET", "/api/v1/secrets?watch=1")).stream
        assert stream is not None
        await anext(stream)
        streams.append(stream)
    _row(f"the same while {watchers:,} watch another kind, as a ratio", f"{_best(sandbox, 0) / rate:.2f}")
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]


def _served() -> float:
    """Return the rate over HTTP, with the real command. The kernel reports the CPU of the command."""
    with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name:
        command = (sys.executable, "-c", "from gitops.cli import main; main()", "sandbox", "--data", name)
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[3].rstrip(".")
            try:
                return asyncio.run(_drive(url, lambda: _cpu_of(process.pid)))
            finally:
                process.terminate()


async def _drive(url: str, cpu: Callable[[], float]) -> float:
    numbers = iter(range(ROUND))
    async with aiohttp.ClientSession() as session:

        async def work() -> None:
            for number in numbers:
                target, body = _apply(number)
                async with session.patch(
                    url + target, data=body, headers={"Content-Type": _APPLY["content-type"]}
                ) as answer:
                    assert answer.status == 201
                    await answer.read()

        before = cpu()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        return ROUND / (cpu() - before)


def _cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process so far. Source: proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _size() -> float:
    made = f"from bench.sandbox import _fill; from applier.sandbox.server import Sandbox; s = Sandbox(); _fill(s, {OBJECTS})"
    code = f"{made}; print(open('/proc/self/status').read())"
    out = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True).stdout
    resident = next(line for line in out.splitlines() if line.startswith("VmRSS"))
    return int(resident.split()[1]) / 1024


if __name__ == "__main__":
    main()
