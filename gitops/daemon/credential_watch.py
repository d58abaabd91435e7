"""Hints that credentials of clusters may have changed, from the hub's Secrets and from the kubeconfig directory.

A hint has no data, so its receiver reads the credentials. Without a watch, no hints arrive. So a listener calls
`tells_changes`. If the result is False, the listener polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import field
from pathlib import Path
from typing import Final

from applier.cluster import Cluster, WatchEvent, WatchTarget
from applier.errors import ClusterError
from applier.read.watches import Watches
from gitops.daemon.file_watch import DirectoryWatch
from gitops.fleet.access import CLUSTER_LABEL
from gitops.fleet.cluster_spec import ClusterAccess, FileAccess, SecretAccess
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind

CLUSTER_SECRETS: Final = WatchTarget(GroupKind("", "Secret"), OWN_NAMESPACE, selector=f"{CLUSTER_LABEL}=true")
"""Secrets with kubeconfigs of clusters."""


@dataclass
class CredentialWatch:
    """Watch of Secrets of the hub, and of the kubeconfig directory. The watch is active during `follow`."""

    hub: Cluster
    directory: Path | None
    """Directory with kubeconfig files, or None for a watch of Secrets alone."""

    notice: Callable[[str], None]
    """Receiver of a text for each failed watch."""

    _listeners: dict[asyncio.Event, ClusterAccess] = field(default_factory=dict, init=False)
    _is_refused: bool = field(default=False, init=False)

    @contextmanager
    def listen(self, access: ClusterAccess) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever the credentials at `access` may have changed.

        The listener clears the event.
        """
        event = asyncio.Event()
        self._listeners[event] = access
        try:
            yield event
        finally:
            del self._listeners[event]

    def tells_changes(self, access: ClusterAccess) -> bool:
        """Return whether a hint follows each change of the credentials at `access`.

        For a file, return False, because file systems may not report changes, and links may leave the directory.
        """
        return isinstance(access, SecretAccess) and not self._is_refused

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Watch the Secrets and the directory during the block."""
        with ExitStack() as stack:
            if self.directory is not None:
                stack.enter_context(DirectoryWatch(self.directory, self._files_changed, warn=self.notice))
            async with Watches(self.hub, self._secret_changed, self._begun, self._failed) as watches:
                await watches.set_targets([CLUSTER_SECRETS], ())
                yield

    def _secret_changed(self, change: WatchEvent) -> None:
        name = change.object["metadata"]["name"]
        self._wake(lambda access: isinstance(access, SecretAccess) and access.name == name)

    def _files_changed(self) -> None:
        self._wake(lambda access: isinstance(access, FileAccess))

    def _begun(self, _: WatchTarget) -> None:
        """Wake all listeners of Secrets, because a watch does not report changes from before its start."""
        self._is_refused = False
        self._wake(lambda access: isinstance(access, SecretAccess))

    def _failed(self, _: WatchTarget, error: ClusterError) -> None:
        """If the hub rejects the watch, fall back to polling."""
        # If the hub does not answer, polls fail too, so only a rejection counts.
        if error.status and not self._is_refused:
            self._is_refused = True
            self.notice(
                f"cannot watch the Secrets with credentials of clusters, so Levelgate reads them once a minute: {error}"
            )
            self._wake(lambda access: isinstance(access, SecretAccess))

    def _wake(self, is_concerned: Callable[[ClusterAccess], bool]) -> None:
        for event, access in self._listeners.items():
            if is_concerned(access):
                event.set()
