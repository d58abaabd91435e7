"""Hooks of forges: a signed word that there is something new. Its only effect is that the sources of that repository are asked soon.

Nothing of the body is believed beyond which repository it is about, and that only finds sources that the operator configured. Signatures are
checked on the raw body, in constant time, before it is parsed. Sources: GitHub, "Validating webhook deliveries"; GitLab, "Webhooks"; Gitea,
"Webhooks"; Bitbucket, "Manage webhooks"; RFC 2104.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import orjson

from gitops.source.target import canonical
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

LARGEST: Final = 1024 * 1024
"""Bytes of a body; what is larger is not read."""

_FORM: Final = b"payload="
_MOST_SECRETS: Final = 8


@dataclass(frozen=True, slots=True)
class Provider:
    """`signature` is the header that proves the body: with `prefix` and the HMAC-SHA256 in hexadecimal digits, or, a `token`, the secret itself.

    `urls` are the places in the body that may hold a URL of the repository.
    """

    signature: str
    prefix: str = ""
    token: bool = False
    urls: tuple[tuple[str, ...], ...] = ()


_GITHUB = (
    ("repository", "clone_url"),
    ("repository", "ssh_url"),
    ("repository", "git_url"),
    ("repository", "html_url"),
)
PROVIDERS: Final[Mapping[str, Provider]] = {
    "github": Provider("X-Hub-Signature-256", "sha256=", urls=_GITHUB),
    "gitea": Provider("X-Gitea-Signature", urls=_GITHUB),
    "gitlab": Provider(
        "X-Gitlab-Token",
        token=True,
        urls=(
            ("project", "git_http_url"),
            ("project", "git_ssh_url"),
            ("project", "web_url"),
            ("repository", "git_http_url"),
            ("repository", "git_ssh_url"),
        ),
    ),
    "bitbucket": Provider(
        "X-Hub-Signature",
        "sha256=",
        urls=tuple(("repository", "links", link, "href") for link in ("html", "self", "clone")),
    ),
    "generic": Provider("X-Levelgate-Signature", "sha256=", urls=(("url",),)),
}


def secrets_in(file: Path) -> list[bytes]:
    """One a line, so that a new one can be set before the old one goes; empty where the file cannot be read."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()][:_MOST_SECRETS]


def is_genuine(provider: Provider, header: str, body: bytes, secrets: Iterable[bytes]) -> bool:
    """Does the header prove that the body comes from somebody who knows one of the secrets? All are tried, each in constant time."""
    given = header.encode(errors="surrogateescape")
    wanted = [_proof(provider, secret, body) for secret in secrets]
    return sum(hmac.compare_digest(given, proof) for proof in wanted) > 0


def _proof(provider: Provider, secret: bytes, body: bytes) -> bytes:
    if provider.token:
        return secret
    return provider.prefix.encode() + hmac.new(secret, body, hashlib.sha256).hexdigest().encode()


def repositories(provider: Provider, body: bytes) -> Iterator[str]:
    """URLs of the repository that the body is about; none where it says nothing of the kind."""
    try:
        found = orjson.loads(_unpacked(body))
    except orjson.JSONDecodeError:
        return
    for path in provider.urls:
        yield from _texts(found, path)


def _unpacked(body: bytes) -> bytes:
    """GitHub and Gitea send a form unless they are told otherwise; its one field has the JSON."""
    return unquote_to_bytes(body[len(_FORM) :].replace(b"+", b" ")) if body.startswith(_FORM) else body


def _texts(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    match value, path:
        case str(), ():
            yield value
        case dict(), (name, *rest):
            yield from _texts(value.get(name), tuple(rest))
        case list(), _:
            for one in value:
                yield from _texts(one, path)


def concerned(urls: Iterable[str], sources: Iterable[SourceConfig]) -> list[str]:
    """Names of the sources whose repository one of these is, however it is reached: host and path count, not the transport or who asks."""
    named = set(map(canonical, urls)) - {""}
    return [one.name for one in sources if canonical(one.target.url) in named]


@dataclass
class RateLimit:
    """So many at once, and one more in every so many seconds (a token bucket)."""

    burst: float = 20.0
    seconds: float = 0.5
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def allows(self, name: str, at: float) -> bool:
        left, before = self._left.get(name, (self.burst, at))
        left = min(self.burst, left + (at - before) / self.seconds)
        self._left[name] = (left - 1 if left >= 1 else left), at
        return left >= 1
