"""Connection from the hub to a cluster of its fleet, by the cluster's name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from applier.cluster import LOCAL_CLUSTER
from applier.errors import Unavailable
from applier.kube.cluster import KubeCluster
from gitops.cli.options import CONFIG_VARIABLE
from gitops.explain.fleet_overview import FleetOverview, UnknownCluster
from gitops.fleet.access import AccessSettings
from gitops.fleet.cluster_spec import ClusterAccess, FileAccess, SecretAccess
from gitops.fleet.connection import access_source, connect_cluster
from gitops.fleet.kubeconfig_check import AccessRefused
from renderer.identity import OWN_NAMESPACE


@asynccontextmanager
async def connect_member(
    hub: KubeCluster, text: str, config: Path | None, *, concurrency: int, timeout_seconds: float
) -> AsyncIterator[KubeCluster]:
    """Connect to the cluster called `text`. If `text` is the hub's own name, yield the hub.

    Raises: UnknownCluster, ConfigurationError, ConfigErrors, ClusterError.
    """
    overview = await FleetOverview.from_hub(hub)
    name = overview.find(text)
    if name == LOCAL_CLUSTER:
        yield hub
        return
    spec = overview.spec_of(name)
    if spec is None or spec.access is None:
        raise UnknownCluster(
            f"the credentials of cluster {name} are not recorded, and Git no longer declares the cluster; "
            "use --context with a context of that cluster"
        )
    settings = read_access_settings(name, spec.access, config)
    source = access_source(spec, settings, hub)
    async with connect_cluster(spec, source, concurrency=concurrency, unreachable_seconds=timeout_seconds) as cluster:
        try:
            yield cluster
        except Unavailable as error:
            advice = f"to see how the hub finds the cluster, run `levelgate explain cluster/{name}`"
            if error.status:
                raise
            raise error.with_rewritten_text(lambda said: f"{said} (cluster {name}: {advice})") from None


def read_access_settings(name: str, access: ClusterAccess, config: Path | None) -> AccessSettings:
    """Return the places where the operator keeps credentials. If a Secret of the hub holds them, ignore `config`.

    Raises: AccessRefused, ConfigErrors.
    """
    if config and not isinstance(access, SecretAccess):
        from gitops.config import read_config

        if fleet := read_config(config).fleet:
            return fleet.access
    if isinstance(access, FileAccess):
        which = f"{config} has no fleet" if config else "you name no configuration"
        raise AccessRefused(
            f"cluster {name}: its kubeconfig is the file {access.name!r} in the fleet.directory of levelgate.yaml, "
            f"but {which}; name the configuration with --config FILE, or else with {CONFIG_VARIABLE}=FILE"
        )
    return AccessSettings(None, (), OWN_NAMESPACE)
