"""Verification of commit signatures by Git, against keys that the operator names.

An SSH signature counts if `allowedSignersFile` allows the key of the signature at the time of the commit. An OpenPGP
signature counts if `keyringFile` contains the key of the signature. GnuPG imports the keys of `keyringFile` into a
temporary keyring. Git and GnuPG do not read the user's own keys and Git configuration. If the check of a signature
fails, the signature does not count.

Source: ssh-keygen(1), "ALLOWED SIGNERS".
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from gitops.errors import SourceError
from gitops.source.git import Git, GitError
from renderer.frozen import dataclass

MAX_COMMITS: Final = 10_000
"""Largest number of commits in one check. A person has to approve a longer history."""

_TIMEOUT_SECONDS: Final = 60.0
_SIGNATURE_HEADER: Final = re.compile(rb"^gpgsig(-sha256)? ", re.MULTILINE)
_MESSAGES: Final = (
    ("BADSIG|incorrect signature", "its signature does not match its content"),
    ("EXPKEYSIG|KEYEXPIRED", "it is signed by an expired key"),
    ("EXPSIG|SIGEXPIRED", "its signature has expired"),
    ("REVKEYSIG", "it is signed by a revoked key"),
    (
        "NO_PUBKEY|no principal matched|allowedSignersFile needs|not valid at",
        "it is not signed by a key that is allowed",
    ),
    ("no matching namespace|namespace", "its signature is not for Git"),
)


@dataclass(frozen=True, slots=True)
class Verification:
    """Rule for signatures: the commits that need a signature, and the files with the keys that may sign commits."""

    every_commit: bool = False
    """True to check every commit after the accepted commit, instead of only the newest commit."""
    allowed_signers_file: Path | None = None
    keyring_file: Path | None = None

    @property
    def file_digests(self) -> tuple[object, ...]:
        """Return the digests of both files. If the content of a file changes, its digest changes."""
        files = filter(None, (self.allowed_signers_file, self.keyring_file))
        return tuple(_file_digest(file) for file in files)


def find_unsigned_commit(git: Git, verification: Verification, *, previous_commit: str, commit: str) -> str:
    """Return why `commit` must not replace `previous_commit` because of signatures, or an empty string if it may.

    If `previous_commit` is empty, check only `commit`. The repository of `git` has to contain both commits.

    Raises: SourceError if GnuPG is needed but not installed.
    """
    commits = [commit]
    if verification.every_commit and previous_commit:
        listing = git.run_text(
            "rev-list", f"--max-count={MAX_COMMITS + 1}", "--end-of-options", commit, f"^{previous_commit}"
        )
        commits = listing.split() or commits
        if len(commits) > MAX_COMMITS:
            return f"more than {MAX_COMMITS} commits since {previous_commit[:7]} need a check, which exceeds the limit"
    with _temporary_keyring(verification.keyring_file) as home:
        for candidate in commits:
            if problem := _signature_problem(git, verification, home, candidate):
                message = f"commit {candidate[:7]} cannot be accepted: {problem}"
                return message if candidate == commit else f"{message}; it is part of {commit[:7]}"
    return ""


def _signature_problem(git: Git, verification: Verification, home: Path, commit: str) -> str:
    """Return why the signature of a commit does not count, or an empty string if the signature counts."""
    if not _SIGNATURE_HEADER.search(git.run("cat-file", "commit", commit).partition(b"\n\n")[0]):
        return "it is not signed"
    settings = {
        "gpg.program": "gpg",
        "gpg.ssh.program": "ssh-keygen",
        "gpg.x509.program": "false",
        "gpg.ssh.allowedSignersFile": str((verification.allowed_signers_file or Path(os.devnull)).absolute()),
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    verifying_git = replace(git, environment={**git.environment, "GNUPGHOME": str(home)}, timeout=_TIMEOUT_SECONDS)
    try:
        verifying_git.run(*options, "verify-commit", "--raw", commit)
    except GitError as failure:
        stderr = failure.stderr
        return next(
            (message for pattern, message in _MESSAGES if re.search(pattern, stderr, re.IGNORECASE)),
            "its signature cannot be checked",
        )
    return ""


@contextmanager
def _temporary_keyring(file: Path | None) -> Iterator[Path]:
    """Yield a home directory for GnuPG with only the keys of `file`. Remove the directory after the block."""
    home = Path(tempfile.mkdtemp(prefix="levelgate-gnupg-"))
    try:
        if file is not None:
            _import_keys(file, home)
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _import_keys(file: Path, home: Path) -> None:
    """Import the keys of `file`. If `file` has no valid key, the keyring stays empty.

    With an empty keyring, every OpenPGP signature fails.

    Raises: SourceError if GnuPG is not installed, or does not end within 60 seconds.
    """
    command = ("gpg", "--batch", "--quiet", "--no-autostart", "--homedir", str(home), "--import", "--", str(file))
    try:
        subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        raise SourceError("gpg", "cannot be started", advice="install GnuPG, or use allowedSignersFile") from None


def _file_digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        return error.strerror or "unreadable"
