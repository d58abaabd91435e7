"""The storage of the API servers: one etcd, in which each of them has a prefix of its own."""

import json
from http import HTTPStatus
from pathlib import Path
from urllib.request import urlopen

from tests.support.cluster.binaries import Commands
from tests.support.cluster.ports import free_ports
from tests.support.cluster.process import STOP_WITHIN, Flags, ServerProcess, start_server


class Etcd:
    """An etcd on loopback that runs from `start` to `stop`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._process: ServerProcess | None = None

    def start(self, binaries: Commands) -> None:
        """Returns at once: API servers wait for it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._process = start_server(binaries["etcd"], self._flags(), self._directory / "etcd.log")

    @property
    def _running(self) -> ServerProcess:
        assert self._process, "etcd is not running"
        return self._process

    @property
    def pid(self) -> int:
        return self._running.pid

    def check(self) -> None:
        """Raises RuntimeError if it has ended."""
        self._running.check()

    def pause(self) -> None:
        """Requests to it hang until `resume`."""
        self._running.pause()

    def resume(self) -> None:
        """Ends `pause`; does nothing when it is not paused or does not run."""
        if self._process:
            self._process.resume()

    def alarm(self, action: str) -> None:
        """See etcd's `rpc Alarm`. The alarm is that of a member; which one does not matter."""
        body = json.dumps({"action": action, "memberID": 1, "alarm": "NOSPACE"}).encode()
        with urlopen(f"{self.url}/v3/maintenance/alarm", body, timeout=60.0) as answer:
            assert answer.status == HTTPStatus.OK, answer.read()

    def stop(self) -> None:
        """Ends it and waits for that. Does nothing when it does not run."""
        process, self._process = self._process, None
        if process:
            process.terminate()
            process.end(within=STOP_WITHIN)

    def _flags(self) -> Flags:
        return {
            "data-dir": self._directory / "etcd",
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": "http://127.0.0.1:0",
            "unsafe-no-fsync": "true",
        }
