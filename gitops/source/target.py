"""The address of a source: a repository, a ref, and a path inside it.

Invariant: a SourceTarget is safe to pass to Git. The URL uses a permitted transport and contains no password. The ref
obeys git-check-ref-format(1). The path stays inside the repository. Git cannot mistake the URL, the ref or the path
for an option.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from applier.loopback import is_loopback
from gitops.errors import RefusedUrl
from gitops.source.version_range import VersionRange
from renderer.frozen import dataclass

SCHEMES = ("https", "ssh", "http", "file")
_DEFAULT_PORTS = {"https": 443, "ssh": 22, "http": 80}

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FULL_REF = re.compile(r"refs/(?!(?:heads|tags)/?$)[^/]+/.")
_SCP = re.compile(r"(?P<user>[A-Za-z0-9_.][\w.-]*)@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>[^-:\s][^\s]*)")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\.?")
_TRANSPORT_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")
_REF_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(?:/|$)|(?:^|/)\.|\.$|/$|^/|^-|^@$")
_USERINFO = re.compile(r"//(?:[^/\s:@]*:(?!\d+/)\S*|[^/\s]*)@")
"""Pattern of the user information in a URL, up to the last `@`.

An unescaped password may contain any character, so all text after a colon that is not a port counts as a password.
"""
_METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "instance-data"})


@dataclass(frozen=True, slots=True)
class DefaultBranchRef:
    """The default branch of the server. If the server changes the default, the next request uses the new branch."""

    def __str__(self) -> str:
        return "the default branch"


@dataclass(frozen=True, slots=True)
class BranchRef:
    """A branch, by its name without `refs/heads/`. Raises: RefusedUrl for a name that Git does not allow."""

    name: str

    def __post_init__(self) -> None:
        _check_ref_name(self.name)

    def __str__(self) -> str:
        return f"branch {self.name}"


@dataclass(frozen=True, slots=True)
class TagRef:
    """A tag, by its name without `refs/tags/`. Raises: RefusedUrl for a name that Git does not allow."""

    name: str

    def __post_init__(self) -> None:
        _check_ref_name(self.name)

    def __str__(self) -> str:
        return f"tag {self.name}"


@dataclass(frozen=True, slots=True)
class FullRef:
    """A ref that is neither a branch nor a tag, by its full name, such as `refs/pull/7/head`.

    Raises: RefusedUrl for a name that Git does not allow.
    """

    name: str

    def __post_init__(self) -> None:
        _check_ref_name(self.name)
        if not _FULL_REF.match(self.name):
            raise RefusedUrl(
                repr(self.name), "is not the full name of a ref", advice="write refs/..., such as refs/pull/7/head"
            )

    def __str__(self) -> str:
        return f"ref {self.name}"


@dataclass(frozen=True, slots=True)
class CommitRef:
    """A fixed commit, by its full id. Raises: RefusedUrl for a shorter id."""

    sha: str

    def __post_init__(self) -> None:
        if not _COMMIT.fullmatch(self.sha):
            raise RefusedUrl(repr(self.sha), "is not a full commit id", advice="write all 40 hexadecimal digits")

    def __str__(self) -> str:
        return f"commit {self.sha[:7]}"


@dataclass(frozen=True, slots=True)
class VersionRef:
    """The tag with the highest version in a range (`>=1.0.0 <2.0.0`) at the time of the request.

    `v1.2.0` and `1.2.0` are the same version.
    """

    range: VersionRange

    def __str__(self) -> str:
        return f"versions {self.range}"


Ref = BranchRef | TagRef | FullRef | CommitRef | VersionRef | DefaultBranchRef


@dataclass(frozen=True, slots=True)
class SourceTarget:
    """A repository, the ref to follow, and the directory to read.

    Raises: RefusedUrl if `url` or `path` is not permitted.
    """

    url: str
    """URL with https, ssh or file, `user@host:path`, or a local path. Only URLs of this machine may use http."""
    ref: Ref = DefaultBranchRef()
    path: str = ""
    """Path from the top of the repository, without leading or trailing slash. An empty path means all files."""

    def __post_init__(self) -> None:
        check_url(self.url)
        object.__setattr__(self, "path", _normalise_path(self.path))

    @property
    def scheme(self) -> str:
        """Return the only transport that Git needs for this URL: `https`, `ssh`, `http` or `file`."""
        if _SCP.fullmatch(self.url):
            return "ssh"
        return urlsplit(self.url).scheme.lower() if "://" in self.url else "file"

    @property
    def location(self) -> str:
        """Return the URL for Git. Make a local path absolute, so that Git cannot mistake the path for an option."""
        return self.url if self.scheme != "file" else _local_path(self.url)

    @property
    def server(self) -> str:
        """Return the host and port of the server, such as `git.example.com:443`. Return "" for a local path."""
        if self.scheme == "file":
            return ""
        if match := _SCP.fullmatch(self.url):
            host, port = match["host"], None
        else:
            parts = split_url(self.url)
            host, port = parts.hostname or "", parts.port
        return f"{host.lower().rstrip('.')}:{port or _DEFAULT_PORTS[self.scheme]}"

    def __str__(self) -> str:
        return redact(self.url)


def parse_ref(text: str) -> Ref:
    """Parse a ref in the forms that people write.

    Valid forms are `main`, `refs/heads/main`, `refs/tags/v1`, `refs/pull/7/head` and a full commit id. An empty text or
    `HEAD` means the default branch.

    Raises: RefusedUrl if Git does not allow the name.
    """
    match text.partition("/tags/" if text.startswith("refs/tags/") else "/heads/"):
        case ["refs", "/tags/", name]:
            return TagRef(name)
        case ["refs", "/heads/", name]:
            return BranchRef(name)
    if text in {"", "HEAD"}:
        return DefaultBranchRef()
    if _COMMIT.fullmatch(text):
        return CommitRef(text)
    if text.startswith("refs/"):
        return FullRef(text)
    return BranchRef(text)


def parse_full_ref(text: str) -> Ref:
    """Parse the full name of a branch, a tag or any other ref. Raises: RefusedUrl if `text` is not a full name."""
    return parse_ref(text) if text.startswith("refs/") else FullRef(text)


def is_url(text: str) -> bool:
    """Return whether `text` has the form of a URL, and not the form of a local path.

    The result may be True for an invalid URL. Forms of a URL are `https://...` and `git@host:path`.
    """
    return "://" in text or bool(_TRANSPORT_HELPER.match(text)) or bool(_SCP.fullmatch(text))


def redact(text: str) -> str:
    """Return `text` with `***` in place of the user information of each URL."""
    return _USERINFO.sub("//***@", text)


class RepositoryAddress(NamedTuple):
    """The host, port and path of a repository's URL."""

    host: str
    """Host name in lower case. For this machine, the name is empty."""
    port: int | None
    """Port of the URL, or None. For ssh, the port is None, because the forge's web API uses another port than ssh."""
    path: str
    """Path without leading or trailing slash, and without the ending `.git`."""

    @classmethod
    def from_url(cls, url: str) -> RepositoryAddress:
        """Parse a URL. Raises: ValueError for an invalid URL. The text of the error may repeat the URL."""
        if match := _SCP.fullmatch(url):
            host, port, path = match["host"], None, match["path"]
        else:
            parts = split_url(url)
            host, path = parts.hostname or "", parts.path
            port = parts.port if parts.scheme in {"http", "https"} else None
        return cls(host.lower(), port, path.strip("/").removesuffix(".git"))


def canonical_name(url: str) -> str:
    """Return a name such as `git.example.com/shop/deploy`, or an empty string for a local path.

    URLs that differ only in transport, user or letter case have the same canonical name.
    """
    try:
        server = RepositoryAddress.from_url(url)
    except ValueError:
        return ""
    return f"{server.host}/{server.path.lower()}" if server.host and server.path else ""


def identity(url: str) -> str:
    """Return a name that all URLs of one repository share: the canonical name, or the absolute local path."""
    return canonical_name(url) or _local_path(url).removesuffix("/.git")


def check_url(url: str) -> None:
    """Check that Git may send requests to `url`. Raises: RefusedUrl if `url` is not permitted."""
    if not url or url.startswith("-") or not url.isprintable() or _TRANSPORT_HELPER.match(url):
        raise _refused_url(url, "is not the URL of a repository")
    if _SCP.fullmatch(url):
        _check_host(url, url.partition("@")[2].partition(":")[0])
        return
    if "://" in url:
        _check_parts(url)


def _check_parts(url: str) -> None:
    """Check a URL that contains `://`. Raises: RefusedUrl if the URL is not permitted."""
    try:
        parts = split_url(url)
    except ValueError:
        raise _refused_url(url, "cannot be read as a URL") from None
    if parts.scheme.lower() not in SCHEMES:
        raise _refused_url(url, f"the transport {parts.scheme!r} is rejected")
    if parts.query or parts.fragment or " " in url:
        raise _refused_url(url, "contains a query, a fragment or a blank", "write only the URL of the repository")
    if parts.scheme.lower() == "file":
        if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
            raise _refused_url(url, "names another machine", "write file:///absolute/path")
        if not unquote(parts.path).isprintable():
            raise _refused_url(url, "contains a control character", "write the path without this character")
        return
    _check_userinfo(url, parts)
    _check_host(url, parts.hostname or "")
    if parts.port == 0 or parts.path in {"", "/"} or parts.path.startswith("/-"):
        raise _refused_url(url, "does not name a repository", "add the path of the repository to the URL")
    if parts.scheme.lower() == "http" and not is_loopback(parts.hostname or ""):
        raise _refused_url(url, "http is not encrypted, so only URLs of this machine may use http")


def _check_userinfo(url: str, parts: SplitResult) -> None:
    if parts.password is not None or (parts.username and parts.scheme.lower() != "ssh"):
        raise _refused_url(
            url, "holds a credential", "put the credential in a file and name the file under `credentials` (tokenFile)"
        )
    if parts.username is not None and not re.fullmatch(r"[A-Za-z0-9_.][\w.-]*", parts.username):
        raise _refused_url(url, "the user name is not valid", "use letters, digits, dots, hyphens and underscores")


def _check_host(url: str, host: str) -> None:
    """Reject hosts that have no repositories: link-local and multicast addresses, and metadata services of clouds.

    Raises: RefusedUrl if `host` is not permitted.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if not _HOST.fullmatch(host) or host.lower().rstrip(".") in _METADATA_HOSTS:
            raise _refused_url(url, "the host cannot be a Git server", "write the host of the Git server") from None
        return
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        raise _refused_url(url, "the address cannot be a Git server", "write the host of the Git server")


def split_url(url: str) -> SplitResult:
    """Split `url`, and check the form of its port and host.

    Raises: ValueError for an invalid URL. The text of the error may repeat the URL.
    """
    parts = urlsplit(url)
    _ = parts.port, (parts.hostname or "").encode("idna")
    return parts


def _local_path(url: str) -> str:
    return str(Path(unquote(urlsplit(url).path) if "://" in url else url).absolute())


def _refused_url(url: str, message: str, advice: str = "") -> RefusedUrl:
    redacted = redact(url).split("?", 1)[0]
    return RefusedUrl(repr(redacted), message, advice=advice or "use https, ssh or user@host:path")


def _check_ref_name(name: str) -> None:
    if not name or _REF_FORBIDDEN.search(name):
        raise RefusedUrl(repr(name), "is not a name that Git allows for a branch or tag", advice="correct the name")


def _normalise_path(path: str) -> str:
    """Return `path` without empty parts. Raises: RefusedUrl if `path` could leave the repository."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if path.startswith("/") or ".." in parts or not path.isprintable() or "\\" in path:
        raise RefusedUrl(repr(path), "is not a path inside the repository", advice="write the path relative to the top")
    return "/".join(parts)
