"""Webhooks of forges: signed notifications of a change. The only effect is an early fetch of the repository's sources.

Before parsing a body, Levelgate verifies the signature of the raw body in constant time. From a body, Levelgate reads
only the URLs of the repository. The URLs only select sources of the configuration.

Source: GitHub, "Validating webhook deliveries"; GitLab, "Webhooks"; Gitea, "Webhooks"; Bitbucket, "Manage webhooks";
RFC 2104.
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

from applier.token_bucket import Rate, TokenBucket
from gitops.source.target import canonical_name
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

MAX_BODY_BYTES: Final = 1024 * 1024
"""Maximum number of bytes in a body. The server rejects a larger body."""

CALL_RATE: Final = Rate(per_second=2.0, burst=20)
"""Maximum rate of accepted calls of one provider."""

_FORM_PREFIX: Final = b"payload="
_MAX_SECRETS: Final = 8


@dataclass(frozen=True, slots=True)
class Provider:
    """Format of the webhooks of a forge: the proof of the sender, and the places of the repository's URLs in a body."""

    signature: str
    """Name of the header with the signature of the body or with the secret."""
    prefix: str = ""
    """Text before the hexadecimal digits of the HMAC-SHA256 in the header."""
    token: bool = False
    """True if the header is the secret itself."""
    urls: tuple[tuple[str, ...], ...] = ()
    """Paths in the body to URLs of the repository."""


_GITHUB_URLS = (
    ("repository", "clone_url"),
    ("repository", "ssh_url"),
    ("repository", "git_url"),
    ("repository", "html_url"),
)
PROVIDERS: Final[Mapping[str, Provider]] = {
    "github": Provider("X-Hub-Signature-256", "sha256=", urls=_GITHUB_URLS),
    "gitea": Provider("X-Gitea-Signature", urls=_GITHUB_URLS),
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


def read_secrets(file: Path) -> list[bytes]:
    """Return the secrets in `file`, one on each line. If the file is unreadable, return an empty list.

    With several secrets, a person can add a new secret before removing the old secret.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()][:_MAX_SECRETS]


def is_genuine(provider: Provider, header: str, body: bytes, secrets: Iterable[bytes]) -> bool:
    """Return whether `header` proves that the sender of `body` knows one of `secrets`.

    Try every secret, each in constant time, so that the duration reveals no secret.
    """
    received_proof = header.encode(errors="surrogateescape")
    expected_proofs = [_compute_proof(provider, secret, body) for secret in secrets]
    return sum(hmac.compare_digest(received_proof, proof) for proof in expected_proofs) > 0


def _compute_proof(provider: Provider, secret: bytes, body: bytes) -> bytes:
    if provider.token:
        return secret
    return provider.prefix.encode() + hmac.new(secret, body, hashlib.sha256).hexdigest().encode()


def repository_urls(provider: Provider, body: bytes) -> Iterator[str]:
    """Yield the URLs of the repository in `body`. If `body` is not JSON, yield nothing."""
    try:
        document = orjson.loads(_json_body(body))
    except orjson.JSONDecodeError:
        return
    for path in provider.urls:
        yield from _texts_at_path(document, path)


def _json_body(body: bytes) -> bytes:
    """Return the JSON of a body. GitHub and Gitea can send the JSON as the only field of a form."""
    return unquote_to_bytes(body[len(_FORM_PREFIX) :].replace(b"+", b" ")) if body.startswith(_FORM_PREFIX) else body


def _texts_at_path(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    match value, path:
        case str(), ():
            yield value
        case dict(), (name, *rest):
            yield from _texts_at_path(value.get(name), tuple(rest))
        case list(), _:
            for item in value:
                yield from _texts_at_path(item, path)


def find_sources(urls: Iterable[str], sources: Iterable[SourceConfig]) -> list[str]:
    """Return the sources with one of `urls`. Compare only host and path, and ignore protocol and user."""
    canonical_urls = set(map(canonical_name, urls)) - {""}
    return [source_entry.name for source_entry in sources if canonical_name(source_entry.target.url) in canonical_urls]


@dataclass
class RateLimit:
    """Limit on the rate of verified calls, separate for each provider."""

    rate: Rate = CALL_RATE
    _buckets: dict[str, TokenBucket] = field(default_factory=dict)

    def allows(self, name: str, now_seconds: float) -> bool:
        """Return whether the limit allows a call of the provider `name` now. Count an allowed call."""
        bucket = self._buckets.get(name, TokenBucket(self.rate))
        if bucket.next_at > now_seconds:
            return False
        self._buckets[name] = bucket.take(now_seconds)
        return True
