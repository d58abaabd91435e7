"""Choice of a cluster and its credentials by kubectl's rules, and the partial import of the `kubernetes` package.

`load` reads files and runs plugins at every call, so that rotated tokens and certificates are seen. Errors name files,
contexts and users, and never repeat the content of a user's entry. OpenSSL and the package take private keys from files
only; these files are deleted before `load` returns.

Only the configuration and the REST layer of `kubernetes` are imported: the rest would be half of the cost of a start.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

from applier.errors import ConfigurationError
from applier.proxy import proxy_of
from renderer.frozen import dataclass
from renderer.identity import digest

_CLIENT = "kubernetes.aio.client"

_clients_in_use: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""REST clients by `Endpoint.connection`. To read certificates takes milliseconds, in which a fleet stands still at each renewal."""


def allow_partial_import() -> None:
    """Let parts of `kubernetes.aio` be imported by themselves.

    The package's own first lines import its second client, for threads, with all that this needs (requests, oauthlib, websocket), and then some:
    a third of what it costs to start a command that speaks to a cluster. Its configuration names the client of models, which needs pydantic, and
    uses it only to make one: that is a fifth of the rest. Parts that somebody else imports are found as ever.
    """
    for name in ("kubernetes", "kubernetes.aio"):
        if name not in sys.modules and (spec := find_spec(name)):
            sys.modules[name] = module_from_spec(spec)
    if "kubernetes.aio.config" not in sys.modules:
        client = import_module(_CLIENT)
        client.ApiClient = _api_client  # type: ignore[attr-defined]
        import_module("kubernetes.aio.config")
        del client.ApiClient


def _api_client(**options: Any) -> Any:
    """What is called by that name, imported when it is called."""
    return import_module(_CLIENT).ApiClient(**options)


IN_CLUSTER = "in-cluster"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One API server as configured: `name` of the context, `kubernetes.aio`'s configuration, its REST `client` with the
    certificates loaded, `headers` for every request, `namespace` where a person names none.

    `server` stands for the address and for what its certificate is checked against: where it is the same, so is the server. `connection` stands
    for that and the client's certificate: where it is the same, open connections serve other tokens as well. Both are digests.
    """

    name: str
    configuration: Any
    client: Any
    server: str
    connection: str
    headers: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "default"


class KubeconfigSource(Protocol):
    """Where the configuration of a cluster comes from."""

    async def load(self) -> Endpoint:
        """Read everything anew. Raises ConfigurationError."""


def choose_source(
    kubeconfig: str | None, context: str | None, *, environ: Mapping[str, str] = os.environ
) -> KubeconfigSource:
    """The source that kubectl would take. Raises ConfigurationError, naming what was looked at, if there is none."""
    candidates = _candidate_paths(kubeconfig, environ)
    existing = tuple(path for path in candidates if path.is_file())
    if existing:
        return Kubeconfig(existing, context)
    if kubeconfig is None and context is None and environ.get("KUBERNETES_SERVICE_HOST"):
        return InCluster()
    raise ConfigurationError(_describe_missing(candidates, context=context, is_explicit=kubeconfig is not None))


def _candidate_paths(kubeconfig: str | None, environ: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        return [Path(kubeconfig).expanduser()]
    environment_paths = [Path(part).expanduser() for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return environment_paths or [Path("~/.kube/config").expanduser()]


def _describe_missing(candidates: Iterable[Path], *, context: str | None, is_explicit: bool) -> str:
    files = ", ".join(map(str, candidates))
    if is_explicit:
        return f"kubeconfig {files} does not exist: give the path of an existing file"
    subject = f"context {context!r}" if context else "a cluster"
    return (
        f"no configuration for {subject}: {files} does not exist, and this is not a pod "
        "(KUBERNETES_SERVICE_HOST is not set): give --kubeconfig, set KUBECONFIG, or try it with --sandbox"
    )


@dataclass(frozen=True, slots=True)
class InCluster:
    """The service account of the pod that this runs in."""

    async def load(self) -> Endpoint:
        allow_partial_import()
        from kubernetes.aio.client.configuration import Configuration
        from kubernetes.aio.config.incluster_config import load_incluster_config

        configuration = Configuration()
        try:
            load_incluster_config(configuration)
        except Exception as error:
            raise ConfigurationError(
                f"the pod's service account cannot be used: {error}: "
                "mount its token (automountServiceAccountToken), or give --kubeconfig"
            ) from None
        configuration.proxy = proxy_of(configuration.host)
        return _create_endpoint(IN_CLUSTER, configuration)


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One context of one or several kubeconfig files; of entries with the same name, and of current-context, the
    first wins.
    """

    paths: tuple[Path, ...]
    context: str | None

    async def load(self) -> Endpoint:
        try:
            return await self._load()
        except ConfigurationError:
            raise
        except Exception as error:  # the loader lets errors of YAML, files and plugins through
            raise ConfigurationError(f"{self._files} cannot be used: {_redact_error(error)}") from None

    async def _load(self) -> Endpoint:
        allow_partial_import()
        from kubernetes.aio.config.kube_config import KubeConfigMerger

        merger = KubeConfigMerger(os.pathsep.join(map(str, self.paths)))
        documents: list[dict[str, Any]] = list(merger.config_files.values())
        return await _load_context(merger.config, documents, _choose_context(documents, self.context, self._files))

    @property
    def _files(self) -> str:
        return "kubeconfig " + ", ".join(map(str, self.paths))


@dataclass(frozen=True, slots=True)
class InlineKubeconfig:
    """The current context of a kubeconfig that was read elsewhere, and checked: it names no file and no plugin. `title` says where it stands."""

    title: str
    document: Mapping[str, Any] = field(repr=False)

    async def load(self) -> Endpoint:
        document = dict(self.document)
        try:
            return await _load_context(document, [document], _choose_context([document], None, self.title))
        except ConfigurationError:
            raise
        except Exception as error:  # it may quote an entry, a certificate or a key
            raise ConfigurationError(f"{self.title} cannot be used: {type(error).__name__}") from None


def _choose_context(documents: list[dict[str, Any]], wanted: str | None, title: str) -> str:
    # The package's merger takes the last current-context; kubectl takes the first.
    name = wanted or next((d["current-context"] for d in documents if d.get("current-context")), None)
    context_names = [str(entry.get("name")) for document in documents for entry in document.get("contexts") or []]
    advice = (
        f"choose one with --context; there are: {', '.join(context_names)}" if context_names else "it has no contexts"
    )
    if not name:
        raise ConfigurationError(f"{title} sets no current-context: {advice}")
    if name not in context_names:
        raise ConfigurationError(f"{title} has no context {name!r}: {advice}")
    return str(name)


async def _load_context(config: Any, documents: list[dict[str, Any]], name: str) -> Endpoint:
    """`config` is what the documents say together, as the package takes it."""
    allow_partial_import()
    from kubernetes.aio.client.configuration import Configuration
    from kubernetes.aio.config.kube_config import KubeConfigLoader, _cleanup_temp_files

    configuration = Configuration()
    loader = KubeConfigLoader(config, active_context=name, config_base_path=None)
    user = _find_user(documents, name)
    namespace = _find_entry(documents, "contexts", name).get("context", {}).get("namespace") or "default"
    try:
        await loader.load_and_set(configuration)
        return _create_endpoint(name, configuration, user=user, namespace=namespace)
    finally:  # without an await since they were made, so they are this call's alone
        _cleanup_temp_files()


def _create_endpoint(
    name: str, configuration: Any, *, user: Mapping[str, Any] | None = None, namespace: str = "default"
) -> Endpoint:
    """Reads the files with certificates and keys. Raises ConfigurationError."""
    _check_plugin(user or {}, configuration=configuration, context=name)
    configuration.proxy = configuration.proxy or proxy_of(configuration.host)
    authority, *own_certificate = (
        Path(file).read_bytes().hex() if file else ""
        for file in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    )
    server = digest(
        [configuration.host, authority, configuration.tls_server_name, configuration.proxy, configuration.verify_ssl]
    )
    connection = digest([server, *own_certificate])
    is_told_whole = bool(authority) or not configuration.host.startswith("https:")
    client = _clients_in_use.get(connection) if is_told_whole else None
    if client is None:
        client = _create_client(name, configuration)
    if is_told_whole:  # The certificates of the system are no part of the digest.
        _clients_in_use[connection] = client
    return Endpoint(name, configuration, client, server, connection, _impersonation_headers(user or {}), namespace)


def _create_client(context: str, configuration: Any) -> Any:
    """Reads the files with certificates and keys. Raises ConfigurationError."""
    from kubernetes.aio.client.rest import RESTClientObject

    configuration.connection_pool_maxsize = 0  # who sends bounds requests in flight
    try:
        return RESTClientObject(configuration)
    except OSError as error:  # ssl.SSLError too
        raise ConfigurationError(f"context {context}: its certificates cannot be used: {error}") from None


def _find_user(documents: list[dict[str, Any]], context: str) -> Mapping[str, Any]:
    """The user's entry of a context; empty if there is none."""
    name = _find_entry(documents, "contexts", context).get("context", {}).get("user")
    return _find_entry(documents, "users", name).get("user") or {}


def _find_entry(documents: list[dict[str, Any]], section: str, name: Any) -> Mapping[str, Any]:
    entries = (entry for document in documents for entry in document.get(section) or [])
    return next((entry for entry in entries if entry.get("name") == name), {})


def _check_plugin(user: Mapping[str, Any], *, configuration: Any, context: str) -> None:
    """The package logs a failing credential plugin and goes on without credentials; say so here instead of waiting
    for a 401.
    """
    if user.get("exec") and not configuration.api_key and not configuration.cert_file:
        command = user["exec"].get("command")
        raise ConfigurationError(
            f"context {context}: the credential plugin {command!r} gave no credentials: run it by hand"
        )


def _impersonation_headers(user: Mapping[str, Any]) -> Mapping[str, str]:
    """`as` of a kubeconfig user, which the package leaves out: without it requests would be sent with more rights
    than asked for.
    """
    if user.get("as-groups") or user.get("as-user-extra"):
        raise ConfigurationError(
            "kubeconfig: as-groups and as-user-extra are not supported: use a user or service account of its own"
        )
    headers = {"Impersonate-User": user.get("as"), "Impersonate-Uid": user.get("as-uid")}
    return {name: str(value) for name, value in headers.items() if value}


def _redact_error(error: Exception) -> str:
    """An error of the loader without the entries that it quotes (they hold tokens)."""
    text = re.sub(r"\{.*\}", "{...}", str(error), flags=re.DOTALL).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
