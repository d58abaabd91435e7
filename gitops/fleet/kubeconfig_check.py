"""Validation of untrusted kubeconfigs, which must neither run a program nor name a file on Levelgate's machine.

Invariants:

- The check accepts or rejects a kubeconfig as a whole, before Levelgate sends a request.
- An error names the place and the field. The error repeats no value, because values are secrets.

Source: CVE-2022-24817 (Flux ran the `exec` of kubeconfigs in Secrets).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from applier.errors import ConfigurationError
from applier.kube.kubeconfig import InlineKubeconfig
from applier.loopback import is_loopback
from renderer import documents

MAX_KUBECONFIG_BYTES: Final = 256 * 1024

_USER_FIELDS: Final = frozenset(
    {
        *("token", "client-certificate-data", "client-key-data", "username", "password"),
        *("as", "as-uid", "as-groups", "as-user-extra", "extensions"),
    }
)
_CLUSTER_FIELDS: Final = frozenset(
    {
        *("server", "certificate-authority-data", "tls-server-name", "insecure-skip-tls-verify"),
        *("proxy-url", "disable-compression", "extensions"),
    }
)
_PROGRAM: Final = (
    "would run a program where Levelgate runs; write `token`, or `client-certificate-data` and `client-key-data`"
)
_FILE: Final = "would read a file of the machine that Levelgate runs on; write its content as"
_REFUSED_FIELDS: Final = {
    "exec": _PROGRAM,
    "auth-provider": _PROGRAM,
    "tokenFile": f"{_FILE} `token`",
    "client-certificate": f"{_FILE} `client-certificate-data`, in base64",
    "client-key": f"{_FILE} `client-key-data`, in base64",
    "certificate-authority": f"{_FILE} `certificate-authority-data`, in base64",
}
"""Forbidden fields of a kubeconfig, each with the reason and the remedy."""

Place = Callable[[str], str]
"""Function from a path such as `users[0].user` to the text for messages, with the line if the line is known."""


class AccessRefused(ConfigurationError):
    """Failure before any request, because credentials are missing or rejected. A person must act on the message."""


def parse_kubeconfig(title: str, data: bytes) -> InlineKubeconfig:
    """Return the kubeconfig in `data`, which must contain only addresses and credentials.

    Args:
        title: words that name the place of `data` in messages.

    Raises: AccessRefused if `data` is too large, malformed, or contains more than addresses and credentials.
    """
    if len(data) > MAX_KUBECONFIG_BYTES:
        raise AccessRefused(
            f"{title}: the kubeconfig has {len(data):,} bytes, more than {MAX_KUBECONFIG_BYTES:,}, and is not read; "
            "write a kubeconfig with this cluster alone"
        )
    found, problems = documents.load(title, data)
    if problems:  # the messages may quote secrets, so only the line is reported
        line = f", line {problems[0].line}" if problems[0].line else ""
        raise AccessRefused(f"{title}{line}: is not YAML that kubectl would read; write a kubeconfig")
    if len(found) != 1:
        raise AccessRefused(f"{title}: {len(found)} documents; write one kubeconfig")
    document = found[0]
    return check_kubeconfig(title, document.value, lambda path: f"{title}, line {document.line_of(path)}: {path}")


def check_kubeconfig(title: str, document: Mapping[str, Any], place: Place) -> InlineKubeconfig:
    """Return `document` as a kubeconfig. Also check the entries that no context uses.

    Raises: AccessRefused if `document` is malformed, or contains more than addresses and credentials.
    """
    for path, cluster in _entries(document, "clusters", "cluster", place):
        check_cluster(cluster, path, place)
    for path, user in _entries(document, "users", "user", place):
        _check_user(user, path, place)
    contexts = dict(_entries(document, "contexts", "context", place))
    if not isinstance(current := document.get("current-context"), str) or not current:
        raise AccessRefused(f"{title}: sets no current-context; set it to the context of this cluster")
    for index, path in enumerate(contexts):
        if document["contexts"][index]["name"] == current:
            return _check_context(title, document, contexts[path], place(path))
    raise AccessRefused(f"{title}: current-context is not among its contexts; set it to an existing context")


def _entries(
    document: Mapping[str, Any], section: str, field: str, place: Place
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the entries of a section, each with its path.

    Args:
        field: field with the content of an entry, such as `user`.

    Raises: AccessRefused if the section or an entry is malformed.
    """
    entries = document.get(section) or []
    if not isinstance(entries, list):
        raise AccessRefused(
            f"{place(section)}: is not a list; write a kubeconfig as `kubectl config view --raw --flatten` shows it"
        )
    contents: list[tuple[str, Mapping[str, Any]]] = []
    for index, entry in enumerate(entries):
        path = f"{section}[{index}]"
        content = (entry.get(field) or {}) if isinstance(entry, dict) else None
        if not isinstance(content, dict) or not isinstance(entry.get("name"), str):
            raise AccessRefused(f"{place(path)}: is not an object with `name` and `{field}`; write both")
        contents.append((f"{path}.{field}", content))
    return contents


def check_cluster(cluster: Mapping[str, Any], path: str, place: Place) -> None:
    """Check the `cluster` of a kubeconfig: the address of a server, and the authority of its certificate.

    Raises: AccessRefused if a field is unknown, forbidden or malformed.
    """
    _check_fields(cluster, _CLUSTER_FIELDS, path, place)
    _check_texts(cluster, ("server", "certificate-authority-data", "tls-server-name", "proxy-url"), path, place)
    if not isinstance(cluster.get("insecure-skip-tls-verify", False), bool):
        raise AccessRefused(f"{place(path)}: `insecure-skip-tls-verify` is not a boolean; write true or false")
    _check_base64(cluster, ("certificate-authority-data",), path, place)
    _check_server(str(cluster.get("server", "")), place(path))
    if (proxy := cluster.get("proxy-url")) and _split(proxy).scheme not in {"http", "https"}:
        raise AccessRefused(f"{place(path)}: `proxy-url` is not the URL of an HTTP proxy; write http://HOST:PORT")


def _check_server(url: str, place: str) -> None:
    parts = _split(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not url.isprintable() or " " in url:
        raise AccessRefused(f"{place}: `server` is not the URL of an API server; write https://HOST:PORT")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise AccessRefused(
            f"{place}: `server` contains more than an address; write https://HOST:PORT, and credentials under `users`"
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise AccessRefused(
            f"{place}: `server` is a URL without TLS, so the network can read the credentials; write https://"
        )


def _split(url: str) -> Any:
    """Return the parts of `url`. If `url` is invalid, the parts are empty."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for a port that is not a number
    except ValueError:
        return urlsplit("")
    return parts


def _check_user(user: Mapping[str, Any], path: str, place: Place) -> None:
    _check_fields(user, _USER_FIELDS, path, place)
    texts = ("token", "client-certificate-data", "client-key-data", "username", "password", "as", "as-uid")
    _check_texts(user, texts, path, place)
    _check_base64(user, ("client-certificate-data", "client-key-data"), path, place)
    if bool(user.get("client-certificate-data")) != bool(user.get("client-key-data")):
        raise AccessRefused(f"{place(path)}: lacks one of `client-certificate-data` and `client-key-data`; write both")
    for field in ("token", "as", "as-uid"):
        if not str(user.get(field, "")).isprintable() or " " in str(user.get(field, "")):
            raise AccessRefused(f"{place(path)}: `{field}` is more than one word; write its value alone, on one line")


def _check_context(title: str, document: Mapping[str, Any], context: Mapping[str, Any], place: str) -> InlineKubeconfig:
    """Return the kubeconfig, whose context must name an existing cluster and a user with credentials.

    Raises: AccessRefused if the cluster, the user or the credentials are missing.
    """
    for field, section in (("cluster", "clusters"), ("user", "users")):
        if context.get(field) not in [entry["name"] for entry in document.get(section) or []]:
            raise AccessRefused(f"{place}: names no `{field}` from {section}; name an entry of {section}")
    user = next(entry.get("user") or {} for entry in document["users"] if entry["name"] == context["user"])
    if not any(user.get(field) for field in ("token", "client-certificate-data", "password")):
        raise AccessRefused(
            f"{place}: its user has no credentials; write `token`, or `client-certificate-data` and `client-key-data`"
        )
    return InlineKubeconfig(title, document)


def _check_fields(entry: Mapping[str, Any], known: frozenset[str], path: str, place: Place) -> None:
    for field, advice in _REFUSED_FIELDS.items():
        if field in entry:
            raise AccessRefused(f"{place(path)}: `{field}` is rejected: it {advice}")
    if not known.issuperset(entry):
        raise AccessRefused(f"{place(path)}: has an unknown field; use only {', '.join(sorted(known))}")


def _check_texts(entry: Mapping[str, Any], fields: tuple[str, ...], path: str, place: Place) -> None:
    for field in fields:
        if not isinstance(entry.get(field, ""), str):
            raise AccessRefused(f"{place(path)}: `{field}` is not text; put it in quotes")


def _check_base64(entry: Mapping[str, Any], fields: tuple[str, ...], path: str, place: Place) -> None:
    for field in fields:
        try:
            base64.b64decode(entry.get(field, ""), validate=True)
        except (binascii.Error, ValueError):
            raise AccessRefused(f"{place(path)}: `{field}` is not base64; encode it with `base64 -w0`") from None
