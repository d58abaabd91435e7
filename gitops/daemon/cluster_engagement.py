"""Engagement of one cluster of a fleet: credentials, identity, the mark of the hub, and the Lease, in this order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from applier.cluster import Cluster, ClusterName
from applier.errors import ConfigurationError
from applier.kube import connect_to
from applier.kube.kubeconfig import Endpoint
from gitops.clock import wait_for_any
from gitops.daemon.fleet_environment import FleetEnvironment
from gitops.errors import GitopsError
from gitops.fleet.access import AccessSource
from gitops.fleet.cluster_record import read_cluster_records
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.connection import access_source, connect_cluster
from gitops.fleet.fleet_records import read_stored_numbers
from gitops.fleet.identity import AcceptedIdentity, claim_cluster, judge_recorded, read_cluster_uid
from gitops.fleet.kubeconfig_check import AccessRefused
from gitops.leadership import FLEET_LEASE_TIMES
from gitops.lease_thread import ThreadLeadership
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from applier.kube.cluster import KubeCluster

UNREACHABLE_SECONDS: Final = 5.0
"""Seconds for which the client retries a call to an unreachable cluster."""

IDENTIFY_SECONDS: Final = 30.0
"""Timeout in seconds for the read of a cluster's identity.

Without a limit, an endless response would block the member.
"""

CREDENTIALS_INTERVAL_SECONDS: Final = 60.0
"""Seconds between two reads of credentials that may change without a hint.

If a server rejects a token, the client reads the credentials again at once.
"""


class NotEngaged(GitopsError):
    """Failure to engage a cluster.

    Until a person acts or a later attempt succeeds, Levelgate must not write to the cluster.
    """


@dataclass
class ClusterEngagement:
    """Engagement of a cluster, with the access, limits and timeouts that Git declares when the engagement starts."""

    spec: ClusterSpec
    environment: FleetEnvironment
    credentials_changed: asyncio.Event
    """Event that the watch sets whenever the credentials may have changed."""

    _source: AccessSource = field(init=False)

    def __post_init__(self) -> None:
        self._source = access_source(self.spec, self.environment.access, self.environment.hub)

    @property
    def name(self) -> ClusterName:
        return self.spec.name

    async def connect(self, stack: AsyncExitStack) -> KubeCluster:
        """Connect to the cluster until `stack` closes. Raises: ConfigurationError, ClusterError."""
        self.credentials_changed.clear()
        connecting = connect_cluster(
            self.spec,
            self._source,
            concurrency=self.environment.concurrency,
            unreachable_seconds=UNREACHABLE_SECONDS,
        )
        return await stack.enter_async_context(connecting)

    async def lead(
        self,
        stack: AsyncExitStack,
        cluster: Cluster,
        *,
        ended_epoch: int,
        on_wait: Callable[[str], None],
        is_patient: bool,
    ) -> ThreadLeadership:
        """Identify the cluster, mark the cluster for this hub, and wait until this process leads in the cluster.

        When `stack` closes, the process releases the Lease.

        Args:
            stack: exit stack that releases the Lease.
            cluster: connected cluster.
            ended_epoch: term of the previous engagement, or 0 for the first engagement.
            on_wait: function that receives the name of each leading process for which this process waits.
            is_patient: True to wait while another process leads.

        Raises: NotEngaged, ClusterClaimed, NotLeading if another process leads and `is_patient` is false, ClusterError.
        """
        environment = self.environment
        await self.identify(cluster)
        is_new = await claim_cluster(cluster, self.name, environment.hub_id)
        environment.recorder.sources.hear(self.name, {} if is_new else await read_stored_numbers(cluster))
        connect = partial(_connect_in_thread, self._source, self.name, asyncio.get_running_loop())
        leadership = await stack.enter_async_context(
            ThreadLeadership(
                environment.lease_thread,
                connect,
                environment.identity,
                environment.clock,
                FLEET_LEASE_TIMES,
                ended_epoch=ended_epoch,
            )
        )
        stack.push_async_callback(leadership.release)
        await leadership.acquire(on_wait, patient=is_patient)
        return leadership

    async def identify(self, cluster: Cluster) -> None:
        """Check and record the identity of the cluster. Raises: NotEngaged if the record has another identity."""
        try:
            async with asyncio.timeout(IDENTIFY_SECONDS):
                seen_uid = await read_cluster_uid(cluster)
        except TimeoutError:
            raise NotEngaged(
                f"cluster {self.name} did not return its identity within {IDENTIFY_SECONDS:g} s; "
                "check the server in its credentials"
            ) from None
        # If two members reach one cluster at the same time, the second member finds the record of the first.
        async with self.environment.recorder.identifying:
            await self._record_identity(seen_uid)

    async def _record_identity(self, seen_uid: str) -> None:
        records = await read_cluster_records(self.environment.hub)
        judgement = judge_recorded(self.name, seen_uid, records, self.environment.hub_id)
        if not isinstance(judgement, AcceptedIdentity):
            raise NotEngaged(judgement.message)
        await self.environment.recorder.write(self.name, {"uid": seen_uid, "forgotten": ""})

    async def renew_credentials(self, renew: Callable[[], Coroutine[Any, Any, bool]]) -> NoReturn:
        """Renew the credentials of the running connection whenever the credentials may have changed.

        If a read of the credentials fails, keep the current credentials.

        Args:
            renew: function that reads the credentials, and returns False if they belong to another server.

        Raises: NotEngaged if the credentials are for another server.
        """
        is_read = True
        while True:
            await self._until_credentials_may_differ(is_read=is_read)
            self.credentials_changed.clear()
            try:
                is_same_server = await renew()
            except AccessRefused:  # A person has to change the credentials, which sets the event.
                is_read = True
            except ConfigurationError:
                is_read = False
            else:
                is_read = True
                if not is_same_server:
                    raise NotEngaged(f"cluster {self.name} has another server or authority now; connecting again")

    async def _until_credentials_may_differ(self, *, is_read: bool) -> None:
        assert self.spec.access is not None
        changed = self.credentials_changed.wait()
        if is_read and self.environment.credentials.tells_changes(self.spec.access):
            await changed
        else:
            # The interval is random, so that the reads for all clusters spread over time.
            seconds = CREDENTIALS_INTERVAL_SECONDS * random.uniform(0.75, 1.25)
            await wait_for_any(changed, self.environment.clock.sleep(seconds))


@dataclass(frozen=True, slots=True)
class _LoadedInLoop:
    """Credentials for a connection in another thread. The event loop that owns the source reads the credentials."""

    source: AccessSource
    loop: asyncio.AbstractEventLoop
    """Event loop that owns `source`."""

    async def load(self) -> Endpoint:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.source.load(), self.loop))


@asynccontextmanager
async def _connect_in_thread(
    source: AccessSource, name: ClusterName, loop: asyncio.AbstractEventLoop
) -> AsyncIterator[Cluster]:
    cluster = await connect_to(_LoadedInLoop(source, loop), name=name, concurrency=2)
    try:
        yield cluster
    finally:
        await cluster.close()
