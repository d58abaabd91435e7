"""From the access that a cluster declares to its credentials, read anew each time.

Invariants: Git holds references, never credentials. What a Secret or a ClusterProfile holds is data: it can neither run a program nor read a file
here (`kubeconfig_check`), and a Secret counts only where a label says that it is meant for this. A file is below the operator's directory, and its
kubeconfig may do what the operator's own may. No error repeats a secret.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from applier.cluster import ClusterName, Object, Reader
from applier.errors import ClusterError, ConfigurationError, KindNotServed
from applier.kube.kubeconfig import Endpoint, InlineKubeconfig, Kubeconfig, KubeconfigSource
from gitops.fleet.cluster_spec import ClusterAccess, FileAccess, ProfileAccess, SecretAccess
from gitops.fleet.credential_plugin import CredentialPlugin, PluginCredentials, run_plugin
from gitops.fleet.kubeconfig_check import (
    MAX_KUBECONFIG_BYTES,
    AccessRefused,
    check_cluster,
    check_kubeconfig,
    parse_kubeconfig,
)
from gitops.text import title
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, is_same

CLUSTER_LABEL: Final = "levelgate.dev/cluster"
"""A Secret with the value `true` holds the kubeconfig of a cluster that Levelgate may use; no other Secret is read for that."""

PROFILE_KIND: Final = GroupKind("multicluster.x-k8s.io", "ClusterProfile")

PLUGIN_REST_SECONDS: Final = 10.0
"""Seconds for which the answer of a program serves, so that a cluster that refuses it does not start one for each request."""


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """What the operator says of it in `levelgate.yaml`. Without a `directory` no file is read. `plugins` are in the order in which they are
    preferred; `profile_namespace` is where the inventory has its ClusterProfiles.
    """

    directory: Path | None
    plugins: tuple[CredentialPlugin, ...]
    profile_namespace: str


@dataclass
class AccessSource:
    """The credentials of one cluster, for `applier.kube.connect_to`: read at each `load`, from the `hub` or the machine.

    `expires_at`: until when those that were read last are good, where a program has said so.
    """

    cluster: ClusterName
    access: ClusterAccess
    settings: AccessSettings
    hub: Reader
    elapsed: Callable[[], float] = time.monotonic
    expires_at: datetime | None = field(default=None, init=False)
    _plugin_answer: tuple[float, Mapping[str, Any], PluginCredentials] | None = field(default=None, init=False)

    async def load(self) -> Endpoint:
        """Raises ConfigurationError: AccessRefused where somebody has to change something."""
        try:
            return await (await self._read()).load()
        except ClusterError as error:
            raise ConfigurationError(
                f"cluster {self.cluster}: its credentials cannot be read from the hub: {error}"
            ) from None
        except AccessRefused as error:
            raise AccessRefused(f"cluster {self.cluster}: {error}") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"cluster {self.cluster}: {error}") from None

    async def _read(self) -> KubeconfigSource:
        match self.access:
            case SecretAccess(name, key):
                return await read_secret_kubeconfig(self.hub, name, key)
            case FileAccess(name):
                return find_file_kubeconfig(self.settings.directory, name)
            case ProfileAccess(name):
                return await self._read_profile(name)

    async def _read_profile(self, name: str) -> InlineKubeconfig:
        profile_key = ObjectKey(*PROFILE_KIND, self.settings.profile_namespace, name)
        plugin, cluster = choose_provider(await _get_profile(self.hub, profile_key), self.settings.plugins)
        where = f"{title(profile_key)}, access provider {plugin.name}"
        check_cluster(cluster, "cluster", lambda path: f"{where}: {path}")
        credentials = await self._ask_plugin(plugin, cluster)
        self.expires_at = credentials.expires_at
        document = {
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": plugin.name, "user": credentials.user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": plugin.name}}],
            "current-context": name,
        }
        return check_kubeconfig(where, document, lambda path: f"{where}: {path}")

    async def _ask_plugin(self, plugin: CredentialPlugin, cluster: Mapping[str, Any]) -> PluginCredentials:
        now = self.elapsed()
        if self._plugin_answer is not None:
            asked_at, asked_for, answer = self._plugin_answer
            if now - asked_at < PLUGIN_REST_SECONDS and is_same(asked_for, cluster):
                return answer
        credentials = await run_plugin(plugin, cluster)
        self._plugin_answer = (now, cluster, credentials)
        return credentials


async def read_secret_kubeconfig(hub: Reader, name: str, key: str) -> InlineKubeconfig:
    """The kubeconfig in a Secret of the hub. Raises AccessRefused, ClusterError."""
    secret_key = ObjectKey("", "Secret", OWN_NAMESPACE, name)
    secret = await hub.get(secret_key)
    where = title(secret_key)
    if secret is None:
        raise AccessRefused(
            f'{where} does not exist in the hub; create it with the label {CLUSTER_LABEL}: "true", or correct spec.access.secretRef'
        )
    if (secret["metadata"].get("labels") or {}).get(CLUSTER_LABEL) != "true":
        raise AccessRefused(
            f'{where} has no label {CLUSTER_LABEL}: "true", so it is not read; if it is meant for this: '
            f"kubectl label secret {name} -n {OWN_NAMESPACE} {CLUSTER_LABEL}=true"
        )
    data = secret.get("data") or {}
    if key not in data:
        raise AccessRefused(f"{where} has no key {key!r}; there are: {', '.join(sorted(data)) or 'none'}")
    try:
        return parse_kubeconfig(f"{where}, key {key}", base64.b64decode(data[key], validate=True))
    except (binascii.Error, ValueError):
        raise AccessRefused(f"{where}, key {key}: is not base64") from None


def find_file_kubeconfig(directory: Path | None, name: str) -> Kubeconfig:
    """The kubeconfig in a file below the operator's directory. Links within it are followed, as those of mounted volumes. Raises AccessRefused."""
    if directory is None:
        raise AccessRefused(
            f"file {name!r} is not read: levelgate.yaml names no directory for such files; set fleet.directory in it"
        )
    escape = AccessRefused(f"file {name!r} leads out of {directory}; name one that is in it")
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise escape
    try:
        root, file = directory.resolve(strict=True), (directory / name).resolve(strict=True)
        size = file.stat().st_size
    except (OSError, ValueError, RuntimeError) as error:
        reason = (error.strerror or "") if isinstance(error, OSError) else "not a name of a file"
        raise AccessRefused(f"file {name!r} of {directory} cannot be read: {reason}") from None
    if not file.is_relative_to(root):
        raise escape
    if not file.is_file():
        raise AccessRefused(f"file {name!r} of {directory} is not a file; name a kubeconfig")
    if size > MAX_KUBECONFIG_BYTES:
        raise AccessRefused(
            f"file {name!r} of {directory} has {size:,} bytes; a kubeconfig has at most {MAX_KUBECONFIG_BYTES:,}"
        )
    return Kubeconfig((file,), None)


async def _get_profile(hub: Reader, key: ObjectKey) -> Object:
    try:
        profile = await hub.get(key)
    except KindNotServed:
        raise AccessRefused(
            f"{title(key)}: the hub knows no ClusterProfile ({PROFILE_KIND}); install the inventory, or use spec.access.secretRef"
        ) from None
    if profile is None:
        raise AccessRefused(
            f"{title(key)} does not exist in the hub; correct spec.access.profile, or the namespace of profiles in levelgate.yaml"
        )
    return profile


def choose_provider(profile: Object, plugins: tuple[CredentialPlugin, ...]) -> tuple[CredentialPlugin, dict[str, Any]]:
    """The first program that the cluster has an access provider for, and where that is. Raises AccessRefused.

    `status.accessProviders` goes before `status.credentialProviders`, its name in earlier inventories. What an inventory wants to add to the
    arguments and variables of the program is left out, as KEP-5339 has it where the operator does not say otherwise.
    """
    where, status = title(ObjectKey.from_manifest(profile)), profile.get("status") or {}
    providers: dict[str, Any] = {}
    for field_name in ("credentialProviders", "accessProviders"):
        entries = status.get(field_name) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise AccessRefused(
                f"{where}: status.{field_name} is not a list of providers; its cluster manager wrote it wrongly"
            )
        providers |= {str(entry.get("name")): entry.get("cluster") for entry in entries}
    for plugin in plugins:
        if plugin.name in providers:
            if not isinstance(cluster := providers[plugin.name], dict):
                raise AccessRefused(f"{where}: access provider {plugin.name} does not say where the cluster is")
            return plugin, cluster
    offered, known = ", ".join(sorted(providers)) or "none", ", ".join(plugin.name for plugin in plugins) or "none"
    raise AccessRefused(
        f"{where}: no credential plugin of levelgate.yaml is for this cluster; it offers: {offered}; plugins: {known}"
    )
