"""Credentials of a cluster, read from the place that `spec.access` of the `Cluster` names.

Invariants:

- Git contains references to credentials, never credentials.
- Levelgate rejects a kubeconfig from a Secret or a ClusterProfile that runs a program or names a file.
- Levelgate uses the kubeconfig in a Secret only if the label `levelgate.dev/cluster` of the Secret is `true`.
- A kubeconfig file must be below the operator's directory. Levelgate trusts the file as if the operator had written it.
- Error messages do not repeat secrets.
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
"""Label of Secrets that contain a kubeconfig. If the value is not `true`, Levelgate ignores the Secret."""

PROFILE_KIND: Final = GroupKind("multicluster.x-k8s.io", "ClusterProfile")

PLUGIN_REST_SECONDS: Final = 10.0
"""Seconds for which Levelgate reuses a plugin's credentials, so that rejected credentials cause few plugin runs."""


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Settings of `fleet` in `levelgate.yaml` for access to clusters."""

    directory: Path | None
    """Directory of kubeconfig files, or None if `levelgate.yaml` names no directory."""
    plugins: tuple[CredentialPlugin, ...]
    """Credential plugins of the operator. Levelgate uses the first plugin that fits a cluster."""
    profile_namespace: str
    """Namespace of the ClusterProfiles on the hub."""


@dataclass
class AccessSource:
    """Credentials of one cluster for `applier.kube.connect_to`, read again at each `load`.

    The credentials come from the hub, a file or a plugin.
    """

    cluster: ClusterName
    access: ClusterAccess
    settings: AccessSettings
    hub: Reader
    """Reader of the Secrets and ClusterProfiles."""
    elapsed: Callable[[], float] = time.monotonic
    """Function that returns the seconds of a monotonic clock."""
    expires_at: datetime | None = field(default=None, init=False)
    """Time in UTC at which the last credentials expire, or None if no plugin has returned such a time."""
    _plugin_answer: tuple[float, Mapping[str, Any], PluginCredentials] | None = field(default=None, init=False)

    async def load(self) -> Endpoint:
        """Return the present address and credentials of the cluster.

        Raises: AccessRefused if a person has to act, ConfigurationError if the hub or a file is unreadable.
        """
        try:
            return await (await self._read()).load()
        except ClusterError as error:
            raise ConfigurationError(
                f"cluster {self.cluster}: its credentials cannot be read from the hub: {error}; "
                "check the API server of the hub"
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
        """Return a kubeconfig with the server that a ClusterProfile names and the credentials that a plugin returns."""
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
    """Return the kubeconfig under `key` of a Secret of the hub.

    Raises: AccessRefused if a person has to correct the Secret, ClusterError if the hub does not return the Secret.
    """
    secret_key = ObjectKey("", "Secret", OWN_NAMESPACE, name)
    secret = await hub.get(secret_key)
    where = title(secret_key)
    if secret is None:
        raise AccessRefused(
            f'{where} does not exist in the hub; create it with the label {CLUSTER_LABEL}: "true", '
            "or correct spec.access.secretRef"
        )
    if (secret["metadata"].get("labels") or {}).get(CLUSTER_LABEL) != "true":
        raise AccessRefused(
            f'{where} has no label {CLUSTER_LABEL}: "true", so it is not read; if the kubeconfig is in it, run: '
            f"kubectl label secret {name} -n {OWN_NAMESPACE} {CLUSTER_LABEL}=true"
        )
    data = secret.get("data") or {}
    if key not in data:
        raise AccessRefused(
            f"{where} has no key {key!r}, its keys are: {', '.join(sorted(data)) or 'none'}; "
            "correct spec.access.secretRef.key, or add the key"
        )
    try:
        return parse_kubeconfig(f"{where}, key {key}", base64.b64decode(data[key], validate=True))
    except (binascii.Error, ValueError):
        raise AccessRefused(f"{where}, key {key}: is not base64; write the kubeconfig into the Secret again") from None


def find_file_kubeconfig(directory: Path | None, name: str) -> Kubeconfig:
    """Return the kubeconfig in a file below the operator's directory.

    Follow symbolic links, because mounted volumes consist of links. Reject a link to a file outside of the directory.

    Raises: AccessRefused if the directory is missing, or the file is outside of the directory, unreadable or too large.
    """
    if directory is None:
        raise AccessRefused(
            f"file {name!r} is not read: levelgate.yaml names no directory for kubeconfigs; set fleet.directory"
        )
    escape = AccessRefused(f"file {name!r} is outside of {directory}; name a file in that directory")
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise escape
    try:
        root, file = directory.resolve(strict=True), (directory / name).resolve(strict=True)
        size = file.stat().st_size
    except (OSError, ValueError, RuntimeError) as error:
        reason = (error.strerror or "") if isinstance(error, OSError) else "not the name of a file"
        raise AccessRefused(
            f"file {name!r} of {directory} cannot be read: {reason}; correct the file, or spec.access.file"
        ) from None
    if not file.is_relative_to(root):
        raise escape
    if not file.is_file():
        raise AccessRefused(f"file {name!r} of {directory} is not a file; name a kubeconfig")
    if size > MAX_KUBECONFIG_BYTES:
        raise AccessRefused(
            f"file {name!r} of {directory} has {size:,} bytes; write at most {MAX_KUBECONFIG_BYTES:,} bytes"
        )
    return Kubeconfig((file,), None)


async def _get_profile(hub: Reader, key: ObjectKey) -> Object:
    try:
        profile = await hub.get(key)
    except KindNotServed:
        raise AccessRefused(
            f"{title(key)}: the hub does not serve the kind {PROFILE_KIND}; install the cluster inventory, "
            "or use spec.access.secretRef"
        ) from None
    if profile is None:
        raise AccessRefused(
            f"{title(key)} does not exist in the hub; correct spec.access.profile, "
            "or the namespace of profiles in levelgate.yaml"
        )
    return profile


def choose_provider(profile: Object, plugins: tuple[CredentialPlugin, ...]) -> tuple[CredentialPlugin, dict[str, Any]]:
    """Return the first plugin for which the profile has an access provider, and the cluster that this provider names.

    `status.accessProviders` overrides `status.credentialProviders`, the older name of the field. As is the default in
    KEP-5339, the function ignores the arguments and variables that a profile requests.

    Raises: AccessRefused if no plugin fits, or the status of the profile is malformed.
    """
    where, status = title(ObjectKey.from_manifest(profile)), profile.get("status") or {}
    providers: dict[str, Any] = {}
    for field_name in ("credentialProviders", "accessProviders"):
        entries = status.get(field_name) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise AccessRefused(
                f"{where}: status.{field_name} is not a list of providers; correct the cluster manager that writes it"
            )
        providers |= {str(entry.get("name")): entry.get("cluster") for entry in entries}
    for plugin in plugins:
        if plugin.name in providers:
            if not isinstance(cluster := providers[plugin.name], dict):
                raise AccessRefused(
                    f"{where}: access provider {plugin.name} lacks the field `cluster`; "
                    "correct the cluster manager that writes it"
                )
            return plugin, cluster
    offered, known = ", ".join(sorted(providers)) or "none", ", ".join(plugin.name for plugin in plugins) or "none"
    raise AccessRefused(
        f"{where}: no credential plugin of levelgate.yaml is for this cluster; add a plugin for one of its providers "
        f"({offered}) to fleet.plugins (now: {known})"
    )
