"""Git repositories that a test writes commits to."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_IDENTITY = ("Ana Example", "ana@example.com", "2026-03-04T05:06:07+00:00")
_CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
GIT_ENVIRONMENT = {
    **_CLEAN,
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in zip(("NAME", "EMAIL", "DATE"), _IDENTITY, strict=True)
    },
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
_INIT = ("init", "--quiet", "--initial-branch=main")
COMMIT = ("-c", "maintenance.auto=false", "-c", "core.abbrev=no", "commit", "--allow-empty", "--message")
"""What is left of the command line is the message. Starts no other process, and tells the whole id."""


@dataclass(frozen=True)
class Repository:
    """A Git repository with a work tree, written by the user Ada."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> Repository:
        """Create a repository with the branch `main` in a directory, which may exist."""
        path.mkdir(parents=True, exist_ok=True)
        repository = cls(path)
        repository.git(*_INIT)
        return repository

    def commit(self, files: Mapping[str, str | None], message: str = "change") -> str:
        """Write these files (None removes one), commit, and give the commit's id."""
        for name, text in files.items():
            file = self.path / name
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(textwrap.dedent(text))
        self.git("add", "--all")
        return committed(self.git(*COMMIT, message))

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        return subprocess.run(
            ("git", *identity, *arguments), cwd=self.path, check=True, capture_output=True, text=True
        ).stdout


def committed(said: str) -> str:
    """Return the id from the output of `git commit`: `[main (root-commit) ID] message`."""
    return said.partition("] ")[0].rpartition(" ")[2]


@dataclass(frozen=True)
class WorkTree:
    """A Git repository with a work tree and its plumbing, in a clean environment with fixed dates."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> WorkTree:
        """Create a repository with the branch `main` in a directory, which may exist."""
        path.mkdir(parents=True, exist_ok=True)
        work = cls(path)
        work.git(*_INIT)
        return work

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ("git", "-C", str(self.path), *arguments),
            input=stdin,
            capture_output=True,
            env=GIT_ENVIRONMENT,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def write(self, name: str, text: str | bytes) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def commit(self, message: str = "change", **files: str) -> str:
        for name, text in files.items():
            self.write(f"{name}.yaml", text)
        self.git("add", "--all")
        return committed(self.git(*COMMIT, message))

    def replace(self, files: Mapping[str, str], message: str = "change", *, below: str = "") -> str:
        """Commit these files and no others below a directory. Return the id of the commit."""
        self.git("rm", "--quiet", "-r", "--force", "--ignore-unmatch", below or ".")
        for name, text in files.items():
            self.write(name, text)
        return self.commit(message)

    def tree(self, *entries: tuple[str, str, str, bytes]) -> str:
        """Write a tree object with any names, even those that Git would refuse. Entries are mode, type, id and name."""
        body = b"".join(
            mode.lstrip("0").encode() + b" " + name + b"\0" + bytes.fromhex(sha) for mode, _, sha, name in entries
        )
        return self.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=body)

    def commit_tree(self, tree: str) -> str:
        commit = self.git("commit-tree", tree, "-m", "crafted")
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=data)
