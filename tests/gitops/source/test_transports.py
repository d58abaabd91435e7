"""Git over TLS with an authority of its own, over a real sshd, and servers that lead elsewhere (fault table, threats 6, 7 and 17)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops.errors import RefusedUrl, Unauthorized
from gitops.source import BranchRef, Credentials, Mirror, SourceTarget
from tests.support.environment import IN_CI
from tests.support.git.repository import WorkTree
from tests.support.git.secure_server import IS_MISSING, MISSING, Authority, Sshd, new_key, sshd
from tests.support.git.server import GitServer, serving

TOKEN = "token-7261"


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """Without them these tests are skipped; with `CI=true` they fail."""
    if IS_MISSING:
        pytest.fail(MISSING) if IN_CI else pytest.skip(MISSING)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("tls") / "ours")


def private(tmp_path: Path, authority: Authority | None) -> Credentials:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return Credentials(token_file=file, ca_file=authority.file if authority else None)


def test_a_certificate_of_the_named_authority_is_accepted(work: WorkTree, tmp_path: Path, authority: Authority) -> None:
    commit = work.commit(a="1")
    with serving(tmp_path, authority.context()) as server:
        server.token = TOKEN
        mirror = Mirror(SourceTarget(server.url()), tmp_path / "cache", credentials=private(tmp_path, authority))
        assert mirror.fetch() == commit
        assert mirror.read_snapshot(commit).files["a.yaml"].data == b"1"


@pytest.mark.parametrize(
    ("name", "days", "trusted"),
    [
        pytest.param("IP:127.0.0.1", 30, "system", id="an authority that nobody knows"),
        pytest.param("IP:127.0.0.1", 30, "other", id="another authority than the named one"),
        pytest.param("DNS:elsewhere.example.com", 30, "ours", id="the certificate of another host"),
        pytest.param("IP:127.0.0.1", -1, "ours", id="a certificate that has ended"),
    ],
)
def test_any_other_certificate_is_refused_and_no_token_is_sent(
    work: WorkTree, tmp_path: Path, authority: Authority, name: str, days: int, trusted: str
) -> None:
    work.commit(a="1")
    other = Authority.made(tmp_path / "other") if trusted == "other" else None
    credentials = private(tmp_path, {"ours": authority, "other": other}.get(trusted))
    with serving(tmp_path, authority.context(name, days)) as server:
        server.token = TOKEN
        with pytest.raises(
            Unauthorized,
            match=r"the server's certificate is not trusted .*set `caFile` to a file with the certificate",
        ):
            Mirror(SourceTarget(server.url()), tmp_path / "cache", credentials=credentials).fetch()
        assert (server.offered, server.requests) == (set(), [])


@pytest.mark.parametrize("part", ["everything", "the pack"])
def test_a_server_that_leads_elsewhere_takes_no_credential_there(
    work: WorkTree, tmp_path: Path, server: GitServer, part: str
) -> None:
    """Another server, from the first request on or in the middle of a fetch: nobody goes there."""
    work.commit(a="1")
    server.token = TOKEN
    with serving(tmp_path) as elsewhere:
        place = f"http://127.0.0.1:{elsewhere.port}"
        mirror = Mirror(SourceTarget(server.url()), tmp_path / "cache", credentials=private(tmp_path, None))
        if part == "everything":
            server.redirect_to = place
        else:
            server.pack_at = place
        with pytest.raises(RefusedUrl, match="the server redirects to another URL, and Levelgate follows no redirect"):
            mirror.fetch()
        assert (elsewhere.requests, elsewhere.offered) == ([], set())


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("ssh") / "d") as found:
        if refusal := found.refusal():
            message = f"sshd does not let this user in: {refusal}"
            pytest.fail(message) if IN_CI else pytest.skip(message)
        yield found


def test_a_key_opens_a_repository_over_ssh(work: WorkTree, cache: Path, ssh: Sshd) -> None:
    commit = work.commit(a="1")
    credentials = Credentials(ssh_key_file=ssh.key, known_hosts_file=ssh.known_hosts)
    mirror = Mirror(SourceTarget(ssh.url(work.path), BranchRef("main")), cache, credentials=credentials)
    assert mirror.fetch() == commit
    second = work.commit(a="2")
    assert mirror.fetch() == second
    assert mirror.read_snapshot(second).files["a.yaml"].data == b"2"


def test_a_key_that_was_withdrawn(work: WorkTree, cache: Path, ssh: Sshd, tmp_path: Path) -> None:
    work.commit(a="1")
    credentials = Credentials(ssh_key_file=new_key(tmp_path / "other"), known_hosts_file=ssh.known_hosts)
    with pytest.raises(Unauthorized, match=r"the server refused access .*Permission denied \(publickey\).*check `cred"):
        Mirror(SourceTarget(ssh.url(work.path)), cache, credentials=credentials).fetch()


@pytest.mark.parametrize("known", ["another key", "nothing"])
def test_a_host_that_is_not_the_known_one(work: WorkTree, cache: Path, ssh: Sshd, tmp_path: Path, known: str) -> None:
    """A changed host key, or one that nobody has seen before, is never accepted."""
    work.commit(a="1")
    hosts = Sshd(tmp_path, ssh.port)
    if known == "another key":
        hosts.know(new_key(tmp_path / "another"))
    else:
        hosts.known_hosts.touch()
    credentials = Credentials(ssh_key_file=ssh.key, known_hosts_file=hosts.known_hosts)
    with pytest.raises(Unauthorized, match=r"the server's host key differs from the known key .*update knownHostsFile"):
        Mirror(SourceTarget(ssh.url(work.path)), cache, credentials=credentials).fetch()


def test_a_repository_that_is_not_there_over_ssh(work: WorkTree, cache: Path, ssh: Sshd) -> None:
    credentials = Credentials(ssh_key_file=ssh.key, known_hosts_file=ssh.known_hosts)
    target = SourceTarget(ssh.url(work.path.with_name("absent")))
    with pytest.raises(Exception, match="no such repository, or no permission to see it"):
        Mirror(target, cache, credentials=credentials).fetch()
