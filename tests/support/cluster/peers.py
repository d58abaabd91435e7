"""Real clusters beside the control plane of a worker: at most one group of them at a time on this machine.

An API server takes 400 MiB, and with its controllers half a gigabyte. Were each worker of a run to start some, there would soon be no memory left.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.cluster.control_plane import ControlPlane

NAMES = ("c0", "c1", "c2")


@contextmanager
def only_group() -> Iterator[None]:
    """Wait until no other process on this machine has peers, and keep others from them until the block ends."""
    file = Path(tempfile.gettempdir()) / f"levelgate-peers-{os.getuid()}.lock"
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # A child that was forked meanwhile holds it open.


class PeerGroup:
    """The peers `NAMES` of a control plane, which run from the first `start` to `stop`."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._peers: dict[str, ControlPlane] = {}

    def start(self, hub: ControlPlane) -> dict[str, ControlPlane]:
        """Those that run, or new ones. Raises as `ControlPlane.start`."""
        if not self._peers:
            with ExitStack() as starting:
                starting.enter_context(only_group())
                self._peers = hub.start_peers(*NAMES)
                starting.callback(hub.stop_peers)
                self._running = starting.pop_all()
        for peer in self._peers.values():
            peer.check()
        return self._peers

    def stop(self) -> None:
        """Does nothing when they do not run."""
        self._peers = {}
        self._running.close()
