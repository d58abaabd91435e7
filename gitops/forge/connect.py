"""Which forge a repository is at, and how it is reached, from what a person says and what its URL tells."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult

from applier.loopback import is_loopback
from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.forge.github import Gitea, GitHub
from gitops.forge.gitlab import GitLab
from gitops.forge.port import Forge
from gitops.forge.rest import Rest
from gitops.source.target import RepositoryAddress, redact, split_url
from renderer.frozen import dataclass


class ForgeKind(StrEnum):
    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"


_KINDS_BY_HOST: Final = {
    "github.com": ForgeKind.GITHUB,
    "gitlab.com": ForgeKind.GITLAB,
    "codeberg.org": ForgeKind.GITEA,
}


class UnknownForge(GitopsError):
    """It is not said where pull requests are; the text says what to add."""


@dataclass(frozen=True, slots=True)
class ForgeProject:
    """One repository at one forge: the URL of its `api`, what that calls it, and the file with the token. `login` is our name there, for tokens that
    may not ask for it.
    """

    kind: ForgeKind
    api: str
    project: str
    token_file: Path
    login: str = ""

    @classmethod
    def from_url(
        cls, url: str, token_file: Path, *, kind: str = "", api: str = "", project: str = "", login: str = ""
    ) -> ForgeProject:
        """Where the repository at `url` is, as far as that tells; the rest has to be said. Raises UnknownForge."""
        address = _parse_address(url)
        if not (kind or address.host in _KINDS_BY_HOST):
            raise UnknownForge(f"{address.host or url}: which forge? Say github, gitlab or gitea (--forge, or `kind`)")
        forge_kind = ForgeKind(kind) if kind else _KINDS_BY_HOST[address.host]
        project = project or address.path
        if not project or not (api or address.host):
            raise UnknownForge(
                f"{redact(url)}: does not say where its forge is; name the URL of its API (--api, or `url`), "
                "and what it calls the repository (--project, or `repository`)"
            )
        return cls(forge_kind, _check_api_url(api or _default_api_url(forge_kind, address)), project, token_file, login)

    def connect(self, clock: Clock) -> tuple[Forge, Rest]:
        """The forge, and its connection, to be closed by the caller."""
        match self.kind:
            case ForgeKind.GITHUB:
                client = Rest(self.api, self.token_file, clock, accept="application/vnd.github+json")
                return GitHub(client, self.project, self.login), client
            case ForgeKind.GITEA:
                client = Rest(self.api, self.token_file, clock, scheme="token ")
                return Gitea(client, self.project, self.login), client
            case ForgeKind.GITLAB:
                client = Rest(self.api, self.token_file, clock, header="PRIVATE-TOKEN", scheme="")
                return GitLab(client, self.project, self.login), client


def _check_api_url(api: str) -> str:
    """A place that a token may be sent to. Raises UnknownForge."""
    parts = _split_url(api)
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    if parts.username is not None:
        raise UnknownForge(
            f"{redact(api)}: holds a credential; put the token in a file and name that (--token-file, or `tokenFile`)"
        )
    if not host or parts.query or parts.fragment or not (scheme == "https" or (scheme == "http" and is_loopback(host))):
        raise UnknownForge(
            f"{redact(api.partition('?')[0])}: a token is not sent there; write the URL of an API, https://HOST/PATH"
        )
    return api.rstrip("/")


def _split_url(url: str) -> SplitResult:
    try:
        return split_url(url)
    except ValueError:
        raise _unreadable_url_error(url) from None


def _unreadable_url_error(url: str) -> UnknownForge:
    return UnknownForge(f"{redact(url)!r}: cannot be read as a URL; write https://HOST/PATH")


def _parse_address(url: str) -> RepositoryAddress:
    try:
        return RepositoryAddress.from_url(url)
    except ValueError:
        raise _unreadable_url_error(url) from None


def _default_api_url(kind: ForgeKind, address: RepositoryAddress) -> str:
    web = f"https://{address.host}{f':{address.port}' if address.port else ''}"
    match kind:
        case ForgeKind.GITHUB:
            return "https://api.github.com" if address.host == "github.com" else f"{web}/api/v3"
        case ForgeKind.GITLAB:
            return f"{web}/api/v4"
        case ForgeKind.GITEA:
            return f"{web}/api/v1"
