"""Choice of a cluster and its credentials by the rules of kubectl, and the partial import of `kubernetes`.

`load` reads files and runs plugins at every call, and so finds rotated tokens and certificates. Errors name files,
contexts and users, and never quote the entry of a user. OpenSSL and the package `kubernetes` accept private keys only
from files. `load` deletes these files before it returns.

The module imports only the configuration and the REST layer of `kubernetes`, because the rest of the package would
double the time of a start.
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
"""REST clients by `Endpoint.connection`. Reading certificates takes milliseconds, and would stop the work on a
whole fleet at each renewal. So equal connections share a client.
"""


def allow_partial_import() -> None:
    """Make modules of `kubernetes.aio` importable without their packages.

    The `__init__` of the package imports a second client, for threads, with requests, oauthlib and websocket. This
    import takes a third of the startup time of a command. The configuration module imports the client of the models,
    which needs pydantic. That import takes a fifth of the remaining time. If other code has already imported a module,
    the module stays unchanged.
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
    """Import `ApiClient` on the first call, and return an instance."""
    return import_module(_CLIENT).ApiClient(**options)


IN_CLUSTER = "in-cluster"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """API server and credentials, as the configuration describes them."""

    name: str
    """Name of the context."""
    configuration: Any
    """Configuration of `kubernetes.aio`."""
    client: Any
    """REST client of `configuration`, with the certificates loaded."""
    server: str
    """Digest of the server's address and of all settings that verify its certificate. Equal digests mean the same
    server.
    """
    connection: str
    """Digest of `server` and the client certificate. While the digest stays equal, open connections also serve new
    tokens.
    """
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers that belong to every request."""
    namespace: str = "default"
    """Namespace for commands of a person who names no namespace."""


class KubeconfigSource(Protocol):
    """Place from which Levelgate reads the configuration of a cluster."""

    async def load(self) -> Endpoint:
        """Read the configuration as it is now.

        Raises: ConfigurationError.
        """


def choose_source(
    kubeconfig: str | None, context: str | None, *, environ: Mapping[str, str] = os.environ
) -> KubeconfigSource:
    """Return the source that kubectl would choose.

    Raises: ConfigurationError, whose text names the missing files.
    """
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
        return f"kubeconfig {files} does not exist; give the path of an existing file"
    subject = f"context {context!r}" if context else "a cluster"
    # A context names an entry of a kubeconfig. So with a context, the service account of a pod does not count.
    pod = "" if context else ", and the process does not run in a pod (KUBERNETES_SERVICE_HOST is not set)"
    return (
        f"no configuration for {subject}: found no file at {files}{pod}; "
        "give --kubeconfig, set KUBECONFIG, or try the command with --sandbox"
    )


@dataclass(frozen=True, slots=True)
class InCluster:
    """Service account of the pod in which the process runs."""

    async def load(self) -> Endpoint:
        """Read the token and certificate of the pod.

        Raises: ConfigurationError.
        """
        allow_partial_import()
        from kubernetes.aio.client.configuration import Configuration
        from kubernetes.aio.config.incluster_config import load_incluster_config

        configuration = Configuration()
        try:
            load_incluster_config(configuration)
        except Exception as error:
            raise ConfigurationError(
                f"Levelgate cannot use the service account of the pod: {error}; "
                "mount its token (automountServiceAccountToken), or give --kubeconfig"
            ) from None
        configuration.proxy = proxy_of(configuration.host)
        return _create_endpoint(IN_CLUSTER, configuration)


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Context of kubeconfig files.

    If several entries have the same name, the entry of the first file counts. Likewise, the first `current-context`
    counts.
    """

    paths: tuple[Path, ...]
    context: str | None

    async def load(self) -> Endpoint:
        """Read the files, and return the endpoint of the context.

        Raises: ConfigurationError.
        """
        try:
            return await self._load()
        except ConfigurationError:
            raise
        except Exception as error:  # the loader does not catch errors of YAML, files and plugins
            raise ConfigurationError(
                f"{self._files} cannot be used: {_redact_error(error)}; check the kubeconfig"
            ) from None

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
    """Current context of a kubeconfig that is already checked, and that names neither files nor plugins."""

    title: str
    """Origin of the kubeconfig, for messages."""
    document: Mapping[str, Any] = field(repr=False)

    async def load(self) -> Endpoint:
        """Return the endpoint of the current context.

        Raises: ConfigurationError.
        """
        document = dict(self.document)
        try:
            return await _load_context(document, [document], _choose_context([document], None, self.title))
        except ConfigurationError:
            raise
        except Exception as error:  # the text of the error may quote an entry, a certificate or a key
            raise ConfigurationError(
                f"{self.title} cannot be used: {type(error).__name__}; check the kubeconfig"
            ) from None


def _choose_context(documents: list[dict[str, Any]], wanted: str | None, title: str) -> str:
    # The merger of `kubernetes` takes the last current-context, but kubectl takes the first.
    name = wanted or next((d["current-context"] for d in documents if d.get("current-context")), None)
    context_names = [str(entry.get("name")) for document in documents for entry in document.get("contexts") or []]
    advice = f"choose one of {', '.join(context_names)} with --context" if context_names else "add a context"
    if not name:
        raise ConfigurationError(f"{title} sets no current-context; {advice}")
    if name not in context_names:
        raise ConfigurationError(f"{title} has no context {name!r}; {advice}")
    return str(name)


async def _load_context(config: Any, documents: list[dict[str, Any]], name: str) -> Endpoint:
    """Return the endpoint of the context `name`.

    Args:
        config: merged `documents`, in the form of the package `kubernetes`.

    Raises: ConfigurationError, and errors of the loader.
    """
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
    finally:  # no await since the files were written, so they belong to this call alone
        _cleanup_temp_files()


def _create_endpoint(
    name: str, configuration: Any, *, user: Mapping[str, Any] | None = None, namespace: str = "default"
) -> Endpoint:
    """Return the endpoint, after reading the files with certificates and keys.

    Raises: ConfigurationError.
    """
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
    # Without `authority`, the server is checked against the certificates of the system, which no digest covers.
    is_digest_complete = bool(authority) or not configuration.host.startswith("https:")
    client = _clients_in_use.get(connection) if is_digest_complete else None
    if client is None:
        client = _create_client(name, configuration)
    if is_digest_complete:
        _clients_in_use[connection] = client
    return Endpoint(name, configuration, client, server, connection, _impersonation_headers(user or {}), namespace)


def _create_client(context: str, configuration: Any) -> Any:
    """Return a REST client, after reading the files with certificates and keys.

    Raises: ConfigurationError.
    """
    from kubernetes.aio.client.rest import RESTClientObject

    configuration.connection_pool_maxsize = 0  # unlimited: `client` bounds requests in flight
    try:
        return RESTClientObject(configuration)
    except OSError as error:  # includes ssl.SSLError
        raise ConfigurationError(f"context {context}: invalid certificates: {error}; correct the kubeconfig") from None


def _find_user(documents: list[dict[str, Any]], context: str) -> Mapping[str, Any]:
    """Return the entry of the user of `context`, or an empty entry if the context has no user."""
    name = _find_entry(documents, "contexts", context).get("context", {}).get("user")
    return _find_entry(documents, "users", name).get("user") or {}


def _find_entry(documents: list[dict[str, Any]], section: str, name: Any) -> Mapping[str, Any]:
    entries = (entry for document in documents for entry in document.get(section) or [])
    return next((entry for entry in entries if entry.get("name") == name), {})


def _check_plugin(user: Mapping[str, Any], *, configuration: Any, context: str) -> None:
    """Check that a credential plugin has returned credentials.

    The package `kubernetes` only logs a failing plugin. Without the check, the first request would end with a 401.

    Raises: ConfigurationError.
    """
    if user.get("exec") and not configuration.api_key and not configuration.cert_file:
        command = user["exec"].get("command")
        raise ConfigurationError(
            f"context {context}: the credential plugin {command!r} returned no credentials; "
            "run the command by hand, and correct the fault"
        )


def _impersonation_headers(user: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the headers for the field `as` of a kubeconfig user, which the package `kubernetes` ignores.

    Without these headers, requests would have the rights of the credentials, and not the rights of the user in `as`.

    Raises: ConfigurationError if the entry has fields that Levelgate does not support.
    """
    if user.get("as-groups") or user.get("as-user-extra"):
        raise ConfigurationError(
            "kubeconfig: as-groups and as-user-extra are not supported; give Levelgate its own user or service account"
        )
    headers = {"Impersonate-User": user.get("as"), "Impersonate-Uid": user.get("as-uid")}
    return {name: str(value) for name, value in headers.items() if value}


def _redact_error(error: Exception) -> str:
    """Return the text of `error` without the entries that the loader quotes, because an entry may contain a token."""
    text = re.sub(r"\{.*\}", "{...}", str(error), flags=re.DOTALL).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
