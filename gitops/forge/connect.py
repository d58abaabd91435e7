"""Which forge a repository is at, and how it is reached, from what a person says and what its URL tells."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.forge.github import Gitea, GitHub
from gitops.forge.gitlab import GitLab
from gitops.forge.port import Forge
from gitops.forge.rest import Rest


class Kind(StrEnum):
    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"


_KNOWN: Final = {"github.com": Kind.GITHUB, "gitlab.com": Kind.GITLAB, "codeberg.org": Kind.GITEA}


class UnknownForge(GitopsError):
    """It is not said where pull requests are; the text says what to add."""


def connected(
    url: str, token_file: Path, clock: Clock, *, kind: str = "", api: str = "", project: str = "", login: str = ""
) -> tuple[Forge, Rest]:
    """The forge of the repository at `url`, and its connection, to be closed by the caller. Raises UnknownForge."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if not (kind or host in _KNOWN):
        raise UnknownForge(f"{host or url}: which kind of forge is it? Add --forge github, gitlab or gitea")
    found = Kind(kind) if kind else _KNOWN[host]
    project = project or parts.path.strip("/").removesuffix(".git")
    if not project or not (api or host):
        raise UnknownForge(f"{url}: does not say where its forge is; add --api URL and --project OWNER/NAME")
    base = (api or _api(found, host, parts.port)).rstrip("/")
    match found:
        case Kind.GITHUB:
            rest = Rest(base, token_file, clock, accept="application/vnd.github+json")
            return GitHub(rest, project, login), rest
        case Kind.GITEA:
            rest = Rest(base, token_file, clock, scheme="token ")
            return Gitea(rest, project, login), rest
        case Kind.GITLAB:
            rest = Rest(base, token_file, clock, header="PRIVATE-TOKEN", scheme="")
            return GitLab(rest, project, login), rest


def _api(kind: Kind, host: str, port: int | None) -> str:
    server = f"https://{host}{f':{port}' if port else ''}"
    match kind:
        case Kind.GITHUB:
            return "https://api.github.com" if host == "github.com" else f"{server}/api/v3"
        case Kind.GITLAB:
            return f"{server}/api/v4"
        case Kind.GITEA:
            return f"{server}/api/v1"
