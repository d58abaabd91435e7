"""Which URLs, refs and paths are ever handed to Git."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.errors import RefusedUrl
from gitops.source import (
    BranchRef,
    CommitRef,
    DefaultBranchRef,
    FullRef,
    Ref,
    SourceTarget,
    TagRef,
    is_url,
    parse_ref,
    redact,
)
from gitops.source.target import canonical_name, identity

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("https://git.example.com/team/deploy.git", "https"),
        ("https://git.example.com:8443/deploy", "https"),
        ("https://[2001:db8::1]/deploy.git", "https"),
        ("ssh://git@git.example.com/platform.git", "ssh"),
        ("ssh://git@git.example.com:2222/~ana/platform.git", "ssh"),
        ("git@git.example.com:team/platform.git", "ssh"),
        ("file:///srv/git/platform.git", "file"),
        ("/srv/git/platform.git", "file"),
        ("../platform", "file"),
        ("http://localhost:3000/x", "http"),
        ("http://127.0.0.1/x", "http"),
        ("http://[::1]:80/x", "http"),
    ],
)
def test_allowed_urls(url: str, scheme: str) -> None:
    assert SourceTarget(url).scheme == scheme


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://git.example.com/team/deploy.git", "git.example.com:443"),
        ("https://GIT.example.com.:8443/deploy", "git.example.com:8443"),
        ("ssh://git@git.example.com/platform.git", "git.example.com:22"),
        ("ssh://git@git.example.com:2222/platform.git", "git.example.com:2222"),
        ("git@Git.example.com:team/platform.git", "git.example.com:22"),
        ("http://localhost/x", "localhost:80"),
        ("/srv/git/platform.git", ""),
    ],
)
def test_a_server_is_known_by_host_and_port(url: str, server: str) -> None:
    assert SourceTarget(url).server == server


@pytest.mark.parametrize(
    "url",
    [
        "",
        "-uupload",
        "--upload-pack=touch /tmp/x",
        "ext::sh -c touch% /tmp/x",
        "fd::17",
        "file::/etc",
        "ext::https://git.example.com/x",
        "git://git.example.com/x",
        "ftp://git.example.com/x",
        "javascript:alert(1)//x://",
        "http://git.example.com/x",
        "http://127.0.0.1.example.com/x",
        "https://-oProxyCommand=touch/x",
        "ssh://-oProxyCommand=touch/x",
        "ssh://-l@git.example.com/x",
        "ssh://git@-oProxyCommand=touch/x",
        "ssh://git@git.example.com/-x",
        "https://git.example.com",
        "https:///x",
        "https://git.example.com:99999/x",
        "https://git.example.com/x?private_token=abc",
        "https://git.example.com/x#y",
        "https://git.example.com/a b",
        "https://git.example.com/a\nb",
        "https://git.exa mple.com/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[fe80::1]/x",
        "https://metadata.google.internal/x",
        "https://0.0.0.0/x",
        "file://server/share",
        "file:///srv/%00x",
        "/srv/git\x00",
    ],
)
def test_refused_urls(url: str) -> None:
    with pytest.raises(RefusedUrl):
        SourceTarget(url)


@pytest.mark.parametrize(
    "url", ["https://ana:CANARY@git.example.com/x", "https://CANARY@git.example.com/x", "ssh://git:CANARY@host/x"]
)
def test_a_credential_in_the_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(
        RefusedUrl, match="put the credential in a file and name the file under `credentials`"
    ) as caught:
        SourceTarget(url)
    assert "CANARY" not in f"{caught.value!r} {caught.value} {caught.value.__dict__}"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("password", ["CAN/ARY", "CAN@ARY", "CA@N/A@RY", "CAN#ARY", "CAN?ARY"])
def test_a_password_that_nobody_escaped_is_not_repeated_either(password: str) -> None:
    with pytest.raises(RefusedUrl) as caught:
        SourceTarget(f"https://ana:{password}@git.example.com/x.git")
    assert not [part for part in re.split("[/@#?]", password) if len(part) > 1 and part in str(caught.value)]


def test_local_paths_reach_git_as_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert SourceTarget("a:b").location == f"{tmp_path}/a:b"
    assert SourceTarget("file:///srv/a%20b").location == "/srv/a b"
    assert SourceTarget("git@host:x").location == "git@host:x"


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("main", BranchRef("main")),
        ("refs/heads/team/x", BranchRef("team/x")),
        ("refs/tags/v1", TagRef("v1")),
        ("refs/pull/7/head", FullRef("refs/pull/7/head")),
        ("refs/notes/x", FullRef("refs/notes/x")),
        ("refs/tags/heads/x", TagRef("heads/x")),
        ("refs/heads/refs/heads/x", BranchRef("refs/heads/x")),
        (SHA, CommitRef(SHA)),
        ("", DefaultBranchRef()),
        ("HEAD", DefaultBranchRef()),
        ("0123456", BranchRef("0123456")),
    ],
)
def test_refs_as_people_write_them(text: str, ref: Ref) -> None:
    assert parse_ref(text) == ref


@pytest.mark.parametrize(
    "text",
    [
        *(
            "--output=x",
            "-x",
            "a..b",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "a@{1}",
            "@",
            "a//b",
            "/a",
            "a/",
        ),
        *(
            ".a",
            "a/.b",
            "a.",
            "a.lock",
            "a.lock/b",
            "a\x7f",
            "a\nb",
            "refs/notes/",
            "refs/x",
            "refs/heads/",
            "refs/heads/-x",
        ),
        "refs/tags/a..b",
    ],
)
def test_refused_refs(text: str) -> None:
    with pytest.raises(RefusedUrl):
        parse_ref(text)


@given(st.text(max_size=12))
def test_a_ref_is_refused_or_harmless(text: str) -> None:
    try:
        ref = parse_ref(text)
    except RefusedUrl:
        return
    assert ref == DefaultBranchRef() or not text.startswith("-")
    assert ".." not in text
    assert text.isascii() is False or not any(ord(letter) < 33 for letter in text)


@pytest.mark.parametrize("sha", ["abc", SHA[:-1], SHA.upper(), SHA + "0", "--" + SHA[2:]])
def test_commits_are_full_ids(sha: str) -> None:
    with pytest.raises(RefusedUrl, match="write all 40"):
        CommitRef(sha)


def test_paths() -> None:
    assert [SourceTarget("/x", path=path).path for path in ("", ".", "./a//b/", "a")] == ["", "", "a/b", "a"]
    for path in ("..", "a/../b", "/etc", "a\\b", "a\nb"):
        with pytest.raises(RefusedUrl):
            SourceTarget("/x", path=path)


def test_what_looks_like_a_url() -> None:
    assert [text for text in ("https://x/y", "git@host:x", "ext::sh", "file:///x") if not is_url(text)] == []
    assert [text for text in (".", "/x", "a/b", "platform", "C:x", "a@b") if is_url(text)] == []


def test_redaction() -> None:
    assert (
        redact("fatal: https://ana:secret@host/x and ssh://git@host") == "fatal: https://***@host/x and ssh://***@host"
    )
    told = "https://host:8443/a@b: broke off; ask ana@host, see https://host/x@v1"
    assert redact(told) == told


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://git.example.com/shop/deploy.git", "git.example.com/shop/deploy"),
        ("https://user@GIT.example.com:8443/shop/Deploy/", "git.example.com/shop/deploy"),
        ("ssh://git@git.example.com:2222/shop/deploy.git", "git.example.com/shop/deploy"),
        ("git@git.example.com:shop/deploy.git", "git.example.com/shop/deploy"),
        ("git@git.example.com:/shop/deploy.git", "git.example.com/shop/deploy"),
        ("/srv/git/deploy.git", ""),
        ("file:///srv/git/deploy.git", ""),
        ("https://[", ""),
        ("https://git.example.com", ""),
        ("", ""),
    ],
)
def test_a_repository_is_known_by_host_and_path(url: str, place: str) -> None:
    assert canonical_name(url) == place


@pytest.mark.parametrize(
    "url", ["/srv/git/deploy.git", "file:///srv/git/deploy.git", "/srv/git/deploy.git/", "/srv/git/deploy.git/.git"]
)
def test_a_local_repository_is_known_by_its_path(url: str) -> None:
    assert identity(url) == "/srv/git/deploy.git"
