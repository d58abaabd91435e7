"""Signatures of commits, by real keys of ssh-keygen and GnuPG (threat 20; docs/configuration.md)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitops.config import ConfigErrors, read_config
from gitops.source import Verification
from gitops.source.signatures import find_unsigned_commit
from tests.support.git.platform import ONE, TWO, GitPlatform, config_maps, rewritten
from tests.support.git.repository import GIT_ENVIRONMENT

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is not installed")


@dataclass
class Signed(GitPlatform):
    """A source whose commits have to be signed by the keys in the file `allowed`."""

    @property
    def allowed(self) -> Path:
        return self.directory / "allowed_signers"

    def key(self, name: str) -> Path:
        found = self.directory / name
        if not found.exists():
            subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(found)), check=True)
        return found

    def allow(self, *names: str, options: str = "") -> None:
        public = {name: self.key(name).with_suffix(".pub").read_text().rsplit(" ", 1)[0] for name in names}
        self.allowed.write_text("".join(f"{name}@example.com {options} {key}\n" for name, key in public.items()))

    def sign(self, by: str, **files: str) -> str:
        for name, text in files.items():
            self.work.write(f"{name}.yaml", text)
        self.work.git("add", "--all")
        return self.sealed(by, "commit", "--quiet", "--allow-empty", "--message", f"by {by}")

    def sealed(self, by: str, *arguments: str) -> str:
        self.work.git("-c", "gpg.format=ssh", "-c", f"user.signingkey={self.key(by)}", *arguments, "-S")
        return self.work.git("rev-parse", "HEAD")


@contextmanager
def signed(directory: Path, *, every_commit: bool = False) -> Iterator[Signed]:
    """Yield a platform that trusts Ada alone, and has no commit."""
    with Signed(directory) as platform:
        platform.allow("ada")
        platform.configure(verification=Verification(every_commit, allowed_signers_file=platform.allowed))
        yield platform


def begin(platform: Signed) -> Signed:
    """Apply a first commit, which Ada signs."""
    platform.sign("ada", one=ONE)
    platform.settle()
    assert platform.listed("configmaps") == ["one"]
    return platform


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Signed]:
    with signed(tmp_path) as platform:
        yield begin(platform)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Signed]:
    with signed(tmp_path, every_commit=True) as platform:
        yield begin(platform)


def held(platform: Signed) -> str:
    """Why the newest commit is not taken; nothing of it is deployed."""
    platform.settle()
    record = platform.record()
    assert platform.listed("configmaps") == ["one"]
    assert (record.state, record.offered) == ("Held", platform.work.git("rev-parse", "HEAD"))
    assert record.causes[0]["reason"] == "Unsigned"
    return str(record.causes[0]["message"])


def test_an_unsigned_commit_is_held_told_once_and_healing_goes_on(
    platform: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not checked again either, until something has changed."""
    checked: list[str] = []

    def counted(*given: Any, **named: Any) -> str:
        checked.append(named["commit"])
        return find_unsigned_commit(*given, **named)

    monkeypatch.setattr("gitops.source.mirror.find_unsigned_commit", counted)
    commit = platform.work.commit(two=TWO)
    assert "it is not signed" in held(platform)
    count = len(platform.notices)
    assert held(platform)
    assert len(platform.notices) == count
    assert checked == [commit]


def test_a_key_that_is_not_allowed_is_no_signature(platform: Signed) -> None:
    platform.sign("eve", two=TWO)
    assert "not signed by a key that is allowed" in held(platform)


def test_what_is_signed_is_taken_and_what_was_held_too_once_it_is_signed(platform: Signed) -> None:
    platform.work.commit(two=TWO)
    held(platform)
    platform.sealed("ada", "commit", "--quiet", "--amend", "--no-edit")
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]


def test_a_key_that_is_allowed_later_lets_the_commit_go(platform: Signed) -> None:
    platform.sign("bob", two=TWO)
    held(platform)
    platform.allow("ada", "bob")
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]


def test_a_key_that_is_taken_out_signs_nothing_more_and_what_it_signed_stays(platform: Signed) -> None:
    platform.allow("bob")
    platform.restart()
    platform.settle()
    assert platform.record().state == "Settled"
    platform.sign("ada", two=TWO)
    assert "not signed by a key that is allowed" in held(platform)


def test_a_person_can_let_it_go(platform: Signed) -> None:
    commit = platform.work.commit(two=TWO)
    held(platform)
    platform.approve(commit)
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]
    platform.work.commit(two=TWO.replace("two", "three"))
    platform.settle()
    assert "three" not in platform.listed("configmaps")


def test_head_alone_does_not_vouch_for_its_parents_where_every_commit_counts(strict: Signed) -> None:
    """Good HEAD over bad parent."""
    bad = strict.work.commit(two=TWO)
    strict.sign("ada")
    assert held(strict).startswith(f"commit {bad[:7]} cannot be accepted: it is not signed; it is part of ")


def test_a_merge_brings_all_of_its_commits(strict: Signed) -> None:
    strict.work.git("checkout", "--quiet", "-b", "feature")
    strict.work.commit(two=TWO)
    strict.work.git("checkout", "--quiet", "main")
    strict.sealed("ada", "merge", "--quiet", "--no-ff", "--no-edit", "feature")
    assert "it is not signed; it is part of" in held(strict)


def test_where_head_counts_its_parents_need_no_signature(platform: Signed) -> None:
    platform.work.commit(two=TWO)
    platform.sign("ada")
    platform.settle()
    assert platform.listed("configmaps") == ["one", "two"]


def test_a_signature_is_not_carried_to_another_commit(platform: Signed) -> None:
    """Signature stripping and replay: the header of a good commit on other content."""
    good = platform.work.git("cat-file", "commit", "HEAD")
    tree = platform.work.commit(two=TWO)
    other = platform.work.git("rev-parse", f"{tree}^{{tree}}")
    header, _, rest = good.partition("\n")
    assert header.startswith("tree ")
    forged = f"tree {other}\nparent {platform.work.git('rev-parse', f'{tree}^')}\n{rest}\n"
    commit = platform.work.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=forged.encode())
    platform.work.git("reset", "--quiet", "--hard", commit)
    assert "cannot be accepted: its signature" in held(platform) or "not signed by" in held(platform)


def test_a_signature_for_something_else_is_none_for_git(platform: Signed) -> None:
    platform.allow("ada", options='namespaces="file"')
    platform.sign("ada", two=TWO)
    assert "its signature is not for Git" in held(platform)


@pytest.mark.parametrize("options", ['valid-before="20260101"', 'valid-after="20260501"'])
def test_a_key_counts_at_the_time_of_the_commit(platform: Signed, options: str) -> None:
    """The commits of the tests are of March 2026."""
    platform.allow("ada", options=options)
    platform.sign("ada", two=TWO)
    assert "it is not signed by a key that is allowed" in held(platform)


def test_a_long_history_waits_for_a_person_instead_of_being_checked_for_hours(
    strict: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitops.source.signatures.MAX_COMMITS", 1)
    strict.sign("ada", two=TWO)
    strict.sign("ada")
    assert "more than 1 commits since" in held(strict)


def test_certificates_of_x509_count_for_nothing(
    platform: Signed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Git would ask gpgsm, which trusts whatever authority the machine does."""
    trusting = tmp_path / "bin" / "gpgsm"
    trusting.parent.mkdir()
    trusting.write_text('#!/bin/sh\nprintf "[GNUPG:] %s\\\\n" NEWSIG "GOODSIG 0 eve" "TRUST_ULTIMATE 0 shell"\n')
    trusting.chmod(0o755)
    monkeypatch.setenv("PATH", f"{trusting.parent}:{os.environ['PATH']}")
    unsigned = platform.work.git("cat-file", "commit", platform.work.commit(two=TWO))
    header, _, message = unsigned.partition("\n\n")
    armour = "gpgsig -----BEGIN SIGNED MESSAGE-----\n \n AAAA\n -----END SIGNED MESSAGE-----"
    signed = f"{header}\n{armour}\n\n{message}\n".encode()
    platform.work.git(
        "reset", "--hard", platform.work.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=signed)
    )
    assert "cannot be accepted: its signature cannot be checked" in held(platform)


def test_without_gnupg_a_keyring_says_what_to_install(platform: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError

    platform.configure(verification=Verification(keyring_file=platform.allowed))
    platform.sign("ada", two=TWO)
    monkeypatch.setattr("gitops.source.signatures.subprocess.run", missing)
    platform.settle()
    assert platform.listed("configmaps") == ["one"]
    assert "install GnuPG, or use allowedSignersFile" in platform.notices[-1]


def test_keys_of_the_user_count_for_nothing(platform: Signed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither Git's configuration of the user nor their keyring is read."""
    home = tmp_path / "home"
    home.mkdir()
    platform.key("eve")
    (home / "signers").write_text(f"eve@example.com {(tmp_path / 'eve.pub').read_text()}")
    (home / ".gitconfig").write_text(f'[gpg "ssh"]\n\tallowedSignersFile = {home / "signers"}\n')
    monkeypatch.setenv("HOME", str(home))
    platform.sign("eve", two=TWO)
    assert "not signed by a key that is allowed" in held(platform)


def test_a_file_of_keys_that_is_gone_holds_everything(platform: Signed) -> None:
    platform.allowed.unlink()
    platform.sign("ada", two=TWO)
    assert "cannot be accepted" in held(platform)


def test_rewritten_history_is_asked_about_first(platform: Signed) -> None:
    rewritten(platform)
    platform.settle()
    assert platform.record().causes[0]["reason"] == "HistoryRewritten"


def test_an_unsigned_first_commit_is_not_applied_at_all(tmp_path: Path) -> None:
    with signed(tmp_path) as platform:
        platform.commit(config_maps("one"))
        assert platform.read_sources() == []
        assert "it is not signed" in platform.notices[-1]


@pytest.mark.skipif(not shutil.which("gpg"), reason="GnuPG is not installed")
def test_openpgp_keys_of_a_keyring_count(platform: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))

    def gpg(*arguments: str) -> bytes:
        command = ("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", *arguments)
        return subprocess.run(command, capture_output=True, check=True).stdout

    def revocation_of(user: str) -> Path:
        """What gpg writes with each new key, with a colon so that nobody imports it by mistake."""
        number = gpg("--with-colons", "--list-keys", user).split(b"fpr:::::::::")[1].partition(b":")[0]
        file = home / "openpgp-revocs.d" / f"{number.decode()}.rev"
        file.write_text(file.read_text().replace("\n:-----BEGIN", "\n-----BEGIN"))
        return file

    for name in ("grace", "mallory", "eve"):
        gpg("--quick-generate-key", f"{name}@example.com", "ed25519", "sign", "never")
    ring = tmp_path / "keyring.asc"
    ring.write_bytes(gpg("--armor", "--export", "grace@example.com"))
    platform.configure(verification=Verification(keyring_file=ring))
    monkeypatch.setattr("tests.support.git.repository.GIT_ENVIRONMENT", {**GIT_ENVIRONMENT, "GNUPGHOME": str(home)})
    try:
        for name in ("mallory", "eve", "grace"):
            platform.work.write("two.yaml", TWO)
            platform.work.git("add", "--all")
            platform.work.git("commit", "--quiet", "--allow-empty", "-m", name, f"-S{name}@example.com")
            if name == "mallory":
                assert "not signed by a key that is allowed" in held(platform)
            if name == "eve":
                gpg("--import", str(revocation_of("eve@example.com")))
                ring.write_bytes(gpg("--armor", "--export", "grace@example.com", "eve@example.com"))
                assert "it is signed by a revoked key" in held(platform)
        platform.settle()
        assert platform.listed("configmaps") == ["one", "two"]
    finally:
        subprocess.run(("gpgconf", "--homedir", str(home), "--kill", "all"), check=False)


def test_the_configuration_names_the_keys(tmp_path: Path) -> None:
    (tmp_path / "signers").write_text("")
    file = tmp_path / "levelgate.yaml"
    head = (
        "apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources:\n- name: a\n  url: https://git.example.com/a.git\n"
    )
    file.write_text(f"{head}  verify: {{mode: EveryCommit, allowedSignersFile: signers}}\n")
    assert read_config(file).sources[0].verification == Verification(True, tmp_path / "signers")
    file.write_text(f"{head}  verify: {{mode: Head}}\n")
    with pytest.raises(ConfigErrors, match="names no keys"):
        read_config(file)
    file.write_text(f"{head}  verify: {{mode: Head, keyringFile: nowhere}}\n")
    with pytest.raises(ConfigErrors, match="does not exist; relative"):
        read_config(file)
