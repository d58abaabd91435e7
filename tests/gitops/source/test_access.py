"""Credentials, refusals and broken connections: what a server can do, and what must never be seen of a secret."""

from __future__ import annotations

import base64
import logging
import socket
import threading
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest

from gitops.errors import RefusedUrl, SourceError, Throttled, Unauthorized, Unreachable
from gitops.source import BranchRef, Credentials, Mirror, ReadLimits, SourceTarget
from tests.support.git.repository import WorkTree
from tests.support.git.server import GitServer

TOKEN = "cAnArY/+token-7261"
FORMS = (
    TOKEN,
    quote(TOKEN, safe=""),
    base64.b64encode(TOKEN.encode()).decode(),
    base64.b64encode(f"bot:{TOKEN}".encode()).decode(),
)


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return Credentials(token_file=file, username="bot")


def everything_about(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__dict__)


def assert_no_token(text: str) -> None:
    assert [form for form in FORMS if form in text] == []


def test_a_token_is_offered_and_seen_nowhere(
    work: WorkTree, cache: Path, server: GitServer, credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    commit = work.commit(a="1")
    server.token = TOKEN
    seen: list[str] = []

    def look_around() -> None:
        for process in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    seen.append((process / name).read_bytes().decode(errors="replace"))
                except OSError:
                    continue

    server.before_pack = look_around
    assert Mirror(SourceTarget(server.url()), cache, credentials=credentials).fetch() == commit
    assert server.offered == {TOKEN}
    assert server.fetches == 1
    assert any("LEVELGATE_GIT_TOKEN_FILE" in text for text in seen) or not Path("/proc/self").exists()
    assert_no_token("\n".join(seen))
    assert_no_token(caplog.text)
    assert_no_token("".join(file.read_bytes().decode(errors="replace") for file in cache.rglob("*") if file.is_file()))


def test_a_rotated_token_is_used_at_once(
    work: WorkTree, cache: Path, server: GitServer, credentials: Credentials
) -> None:
    commit = work.commit(a="1")
    server.token = TOKEN
    mirror = Mirror(SourceTarget(server.url()), cache, credentials=credentials)
    assert mirror.find_tip().commit == commit
    server.token = "next"
    with pytest.raises(Unauthorized):
        mirror.find_tip()
    assert credentials.token_file is not None
    before = mirror.credential_states
    credentials.token_file.write_text("next")
    assert mirror.credential_states != before
    assert mirror.find_tip().commit == commit


def test_a_server_that_repeats_the_token(
    work: WorkTree, cache: Path, server: GitServer, credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    work.commit(a="1")
    server.token, server.echo = "another", True
    with pytest.raises(Unauthorized, match="check `credentials`") as caught:
        Mirror(SourceTarget(server.url()), cache, credentials=credentials).fetch()
    assert server.offered == {TOKEN}
    assert_no_token(everything_about(caught.value) + caplog.text)
    assert "ls-remote" not in everything_about(caught.value).replace("_ls_remote", "").replace('"ls-remote"', "")


def test_without_a_token_nobody_is_asked(work: WorkTree, cache: Path, server: GitServer) -> None:
    work.commit(a="1")
    server.token = TOKEN
    with pytest.raises(Unauthorized, match="the server refused access"):
        Mirror(SourceTarget(server.url()), cache).fetch()


def test_a_credentials_file_that_is_not_there(work: WorkTree, cache: Path, server: GitServer, tmp_path: Path) -> None:
    work.commit(a="1")
    with pytest.raises(Unauthorized, match=r"the credentials file .*absent cannot be read; check path"):
        Mirror(SourceTarget(server.url()), cache, credentials=Credentials(token_file=tmp_path / "absent")).find_tip()
    (tmp_path / "empty").touch()
    with pytest.raises(Unauthorized, match=r"the credentials file .*empty is empty; write the secret into the file"):
        Mirror(SourceTarget(server.url()), cache, credentials=Credentials(token_file=tmp_path / "empty")).find_tip()
    assert server.requests == []


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, Unauthorized),
        (403, Unauthorized),
        (404, Unreachable),
        (429, Throttled),
        (500, Unreachable),
        (503, Unreachable),
    ],
)
def test_refusals(work: WorkTree, cache: Path, server: GitServer, status: int, error: type[SourceError]) -> None:
    commit = work.commit(a="1")
    mirror = Mirror(SourceTarget(server.url()), cache)
    mirror.fetch()
    server.status = status
    with pytest.raises(error) as caught:
        mirror.fetch()
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
    assert mirror.read_snapshot(commit).files["a.yaml"].data == b"1"


@pytest.mark.parametrize(("status", "said", "heard"), [(429, "120", 120.0), (503, "7", 7.0), (429, "soon", None)])
def test_when_the_server_wants_to_be_asked_again(
    work: WorkTree,
    cache: Path,
    server: GitServer,
    credentials: Credentials,
    status: int,
    said: str,
    heard: float | None,
) -> None:
    """RFC 9110, 10.2.3. What else stands in the headers is seen nowhere."""
    work.commit(a="1")
    server.token = TOKEN
    mirror = Mirror(SourceTarget(server.url()), cache, credentials=credentials)
    mirror.fetch()
    server.status, server.headers = status, {"Retry-After": said, "X-Secret": "canary"}
    with pytest.raises(Unreachable) as caught:
        mirror.fetch()
    assert caught.value.retry_after == heard
    assert_no_token(everything_about(caught.value))
    assert "canary" not in str(caught.value)
    assert "header" not in str(caught.value)


def test_redirects_are_not_followed(work: WorkTree, cache: Path, server: GitServer, credentials: Credentials) -> None:
    work.commit(a="1")
    server.redirect_to = f"http://127.0.0.1:{server.port}/elsewhere"
    with pytest.raises(RefusedUrl, match="write the final URL"):
        Mirror(SourceTarget(server.url()), cache, credentials=credentials).find_tip()
    assert len(server.requests) == 1
    assert server.offered == set()


def test_nobody_listens(cache: Path) -> None:
    with pytest.raises(Unreachable, match="the server did not answer"):
        Mirror(SourceTarget("http://127.0.0.1:1/x"), cache).fetch()


@pytest.mark.parametrize("tenth", range(10))
def test_a_pack_that_breaks_off_changes_nothing(work: WorkTree, cache: Path, server: GitServer, tenth: int) -> None:
    first = work.commit(a="1")
    mirror = Mirror(SourceTarget(server.url(), BranchRef("main")), cache)
    mirror.fetch()
    second = work.commit(**{f"file{number}": f"{number}" * 200 for number in range(30)})
    server.cut_at = tenth / 10
    with pytest.raises(Unreachable):
        mirror.fetch()
    assert server.fetches == 2
    assert mirror.read_snapshot(first).files["a.yaml"].data == b"1"
    assert not list(cache.rglob("tmp_*")) or mirror.find_tip().commit == second
    server.cut_at = 1.0
    assert mirror.fetch() == second
    assert len(mirror.read_snapshot(second).files) == 31
    assert not list(cache.rglob("tmp_*"))


def test_a_first_fetch_that_breaks_off_leaves_no_revision(work: WorkTree, cache: Path, server: GitServer) -> None:
    commit = work.commit(**{f"file{number}": f"{number}" * 200 for number in range(30)})
    mirror = Mirror(SourceTarget(server.url()), cache)
    server.cut_at = 0.5
    with pytest.raises(Unreachable):
        mirror.fetch()
    with pytest.raises(SourceError):
        mirror.read_snapshot(commit)
    server.cut_at = 1.0
    assert mirror.fetch() == commit


def test_a_server_that_says_nothing(work: WorkTree, cache: Path, server: GitServer) -> None:
    work.commit(a="1")
    release = threading.Event()
    gave_up: list[bool] = []

    def hang() -> None:
        gave_up.append(not release.wait(600))

    server.before_pack = hang
    try:
        with pytest.raises(Unreachable, match="no end after 1 s"):
            Mirror(SourceTarget(server.url()), cache, limits=ReadLimits(network_timeout_seconds=1)).fetch()
        assert gave_up == []  # Git and its children were ended, not waited for
    finally:
        release.set()


def test_a_server_that_accepts_and_never_answers(cache: Path) -> None:
    """Asking where a ref stands has an end as well, and so have the processes that Git has started for it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        target = SourceTarget(f"http://127.0.0.1:{listening.getsockname()[1]}/x")
        with pytest.raises(Unreachable, match="no end after 1 s"):
            Mirror(target, cache, limits=ReadLimits(network_timeout_seconds=1)).find_tip()
        asked, _ = listening.accept()
        with asked:
            asked.settimeout(60)
            while asked.recv(4096):
                pass


def test_a_server_that_sends_byte_by_byte(work: WorkTree, cache: Path, server: GitServer) -> None:
    """Fault table, "slow-loris server": the whole has to come in time, not only the next byte; then it is as if nothing had come."""
    commit = work.commit(**{f"file{number}": f"{number}" * 200 for number in range(30)})
    server.drips = True
    mirror = Mirror(SourceTarget(server.url()), cache, limits=ReadLimits(network_timeout_seconds=1))
    with pytest.raises(Unreachable, match="no end after 1 s"):
        mirror.fetch()
    assert not mirror.has_commit(commit)
    assert not list(cache.rglob("tmp_*"))
    server.drips = False
    assert Mirror(mirror.target, cache).fetch() == commit


def test_ssh_is_strict_and_asks_nothing(tmp_path: Path) -> None:
    key, known = tmp_path / "id; touch x", tmp_path / "known hosts"
    key.write_text("key")
    known.touch()
    target = SourceTarget("git@git.example.com:platform.git")
    environment = Credentials(ssh_key_file=key, known_hosts_file=known).environment(target, tmp_path)
    command = environment["GIT_SSH_COMMAND"]
    assert f"-i '{key}'" in command
    assert "-oStrictHostKeyChecking=yes" in command
    assert "-oBatchMode=yes" in command
    assert f"'-oUserKnownHostsFile=\"{known}\"'" in command
    assert "StrictHostKeyChecking=yes" in Credentials().environment(target, tmp_path)["GIT_SSH_COMMAND"]


def test_https_trusts_the_named_authority_only(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("certificate")
    target = SourceTarget("https://git.example.com/platform.git")
    assert Credentials(ca_file=authority).environment(target, tmp_path) == {"GIT_SSL_CAINFO": str(authority)}
    assert Credentials().environment(target, tmp_path) == {}


def test_the_caller_s_git_variables_do_not_reach_git(
    work: WorkTree, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = work.commit(a="1")
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_TRACE", str(trace))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.ext::touch {tmp_path}/canary.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "/")
    assert Mirror(SourceTarget(str(work.path)), cache).fetch() == commit
    assert not trace.exists()
    assert not (tmp_path / "canary").exists()
