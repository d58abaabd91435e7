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

from applier.token_bucket import Rate, TokenBucket
from gitops.source.target import canonical_name
from gitops.source_config import SourceConfig
from renderer.frozen import dataclass

MAX_BODY_BYTES: Final = 1024 * 1024
"""Bytes of a body; what is larger is not read."""

CALL_RATE: Final = Rate(per_second=2.0, burst=20)
"""At which calls of one hook are taken."""

_FORM_PREFIX: Final = b"payload="
_MAX_SECRETS: Final = 8


@dataclass(frozen=True, slots=True)
class Provider:
    """`signature` is the header that proves the body: with `prefix` and the HMAC-SHA256 in hexadecimal digits, or, a `token`, the secret itself.

    `urls` are the places in the body that may hold a URL of the repository.
    """

    signature: str
    prefix: str = ""
    token: bool = False
    urls: tuple[tuple[str, ...], ...] = ()


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
    """One a line, so that a new one can be set before the old one goes; empty where the file cannot be read."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()][:_MAX_SECRETS]


def is_genuine(provider: Provider, header: str, body: bytes, secrets: Iterable[bytes]) -> bool:
    """Does the header prove that the body comes from somebody who knows one of the secrets? All are tried, each in constant time."""
    received_proof = header.encode(errors="surrogateescape")
    expected_proofs = [_compute_proof(provider, secret, body) for secret in secrets]
    return sum(hmac.compare_digest(received_proof, proof) for proof in expected_proofs) > 0


def _compute_proof(provider: Provider, secret: bytes, body: bytes) -> bytes:
    if provider.token:
        return secret
    return provider.prefix.encode() + hmac.new(secret, body, hashlib.sha256).hexdigest().encode()


def repository_urls(provider: Provider, body: bytes) -> Iterator[str]:
    """URLs of the repository that the body is about; none where it says nothing of the kind."""
    try:
        document = orjson.loads(_json_body(body))
    except orjson.JSONDecodeError:
        return
    for path in provider.urls:
        yield from _texts_at_path(document, path)


def _json_body(body: bytes) -> bytes:
    """GitHub and Gitea send a form unless they are told otherwise; its one field has the JSON."""
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
    """Names of the sources whose repository one of these is, however it is reached: host and path count, not the transport or who asks."""
    canonical_urls = set(map(canonical_name, urls)) - {""}
    return [source_entry.name for source_entry in sources if canonical_name(source_entry.target.url) in canonical_urls]


@dataclass
class RateLimit:
    """So many calls of each name at once, and so many a second."""

    rate: Rate = CALL_RATE
    _buckets: dict[str, TokenBucket] = field(default_factory=dict)

    def allows(self, name: str, now_seconds: float) -> bool:
        bucket = self._buckets.get(name, TokenBucket(self.rate))
        if bucket.next_at > now_seconds:
            return False
        self._buckets[name] = bucket.take(now_seconds)
        return True
