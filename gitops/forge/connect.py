"""The forge of a repository, found by configuration and the repository's URL, and the connection to the forge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from applier.loopback import is_loopback
from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.forge.github import Gitea, GitHub
from gitops.forge.gitlab import GitLab
from gitops.forge.port import Forge
from gitops.forge.rest import Rest
from gitops.source.target import RepositoryAddress, redact, split_url
from renderer.frozen import dataclass

T = TypeVar("T")


class ForgeKind(StrEnum):
    """Kinds of forges that have an adapter. Each value is the name in the configuration."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"


_KINDS_BY_HOST: Final = {
    "github.com": ForgeKind.GITHUB,
    "gitlab.com": ForgeKind.GITLAB,
    "codeberg.org": ForgeKind.GITEA,
}


_ADAPTERS: Final[Mapping[ForgeKind, tuple[type[GitHub] | type[GitLab], Callable[[str, Path, Clock], Rest]]]] = {
    ForgeKind.GITHUB: (GitHub, partial(Rest, accept="application/vnd.github+json")),
    ForgeKind.GITEA: (Gitea, partial(Rest, scheme="token ")),
    ForgeKind.GITLAB: (GitLab, partial(Rest, header="PRIVATE-TOKEN", scheme="")),
}
"""Adapter of each kind of forge, and the constructor of an HTTP client that sends the token in the right header."""

_API_PATHS: Final = {ForgeKind.GITHUB: "/api/v3", ForgeKind.GITEA: "/api/v1", ForgeKind.GITLAB: "/api/v4"}


class UnknownForge(GitopsError):
    """Failure to find the forge of a repository. The text names the option that the person must add."""


@dataclass(frozen=True, slots=True)
class ForgeProject:
    """Repository at a forge."""

    kind: ForgeKind
    api: str
    """URL of the forge's API."""
    project: str
    """Name of the repository at the forge."""
    token_file: Path
    login: str
    """User name of the account that owns the token. If the token may read the name, the field may be empty."""

    @classmethod
    def from_url(
        cls, url: str, token_file: Path, *, kind: str = "", api: str = "", project: str = "", login: str = ""
    ) -> ForgeProject:
        """Return the project of the repository at `url`.

        If `kind`, `api` or `project` is empty, derive its value from the URL.

        Raises: UnknownForge if the URL does not give the kind, API or project, or if `_check_api_url` rejects the
        API's URL.
        """
        address = _parse_url(RepositoryAddress.from_url, url)
        if not (kind or address.host in _KINDS_BY_HOST):
            raise UnknownForge(
                f"{address.host or url}: unknown forge; name github, gitlab or gitea (--forge, or `kind`)"
            )
        forge_kind = ForgeKind(kind) if kind else _KINDS_BY_HOST[address.host]
        project = project or address.path
        if not project or not (api or address.host):
            raise UnknownForge(
                f"{redact(url)}: the forge cannot be derived from this URL; name the URL of its API (--api, or `url`) "
                "and the name of the repository (--project, or `repository`)"
            )
        return cls(forge_kind, _check_api_url(api or _default_api_url(forge_kind, address)), project, token_file, login)

    def connect(self, clock: Clock) -> tuple[Forge, Rest]:
        """Return the forge and its HTTP client, which the caller closes."""
        forge_class, create_client = _ADAPTERS[self.kind]
        client = create_client(self.api, self.token_file, clock)
        return forge_class(client, self.project, self.login), client


def _check_api_url(api: str) -> str:
    """Check that Levelgate may send a token to the URL `api`, and return the URL without a trailing slash.

    The URL must begin with https, or with http for this machine, and must not contain a credential.

    Raises: UnknownForge if the URL is not allowed.
    """
    parts = _parse_url(split_url, api)
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    if parts.username is not None:
        raise UnknownForge(
            f"{redact(api)}: contains a credential; put the token in a file and name it (--token-file, or `tokenFile`)"
        )
    if not host or parts.query or parts.fragment or not (scheme == "https" or (scheme == "http" and is_loopback(host))):
        raise UnknownForge(
            f"{redact(api.partition('?')[0])}: Levelgate sends no token to this URL; "
            "name the URL of an API, https://HOST/PATH"
        )
    return api.rstrip("/")


def _parse_url(parse: Callable[[str], T], url: str) -> T:
    try:
        return parse(url)
    except ValueError:
        raise UnknownForge(f"{redact(url)!r}: cannot be read as a URL; write https://HOST/PATH") from None


def _default_api_url(kind: ForgeKind, address: RepositoryAddress) -> str:
    if kind is ForgeKind.GITHUB and address.host == "github.com":
        return "https://api.github.com"
    return f"https://{address.host}{f':{address.port}' if address.port else ''}{_API_PATHS[kind]}"
