"""Credentials for Git. No argument, URL, Git configuration, variable or message ever contains a credential.

Git runs a small script to get the user name and the password. Each run of the script reads the token's file. So if the
file changes, the next request uses the new token. This process reads the token only to redact error messages.
"""

from __future__ import annotations

import base64
import os
import shlex
from pathlib import Path
from urllib.parse import quote

from gitops.errors import Unauthorized
from gitops.secret_file import read_secret
from gitops.source.target import SourceTarget
from renderer.frozen import dataclass

_ASKPASS = """\
#!/bin/sh
case "$1" in
Username*) printf '%s\\n' "$LEVELGATE_GIT_USERNAME" ;;
*) exec cat -- "$LEVELGATE_GIT_TOKEN_FILE" ;;
esac
"""
_SSH = (
    *("ssh", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-oForwardAgent=no", "-oForwardX11=no"),
    *("-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oConnectTimeout=15", "-oServerAliveInterval=15"),
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Paths of the files with the secrets for one repository. The class does not store the secrets themselves.

    Git always rejects an unknown host key and an untrusted certificate.
    """

    token_file: Path | None = None
    username: str = "git"
    """User name that the server expects with a token. Most servers accept any name."""
    ssh_key_file: Path | None = None
    """File of the only key that ssh offers. With such a file, ssh ignores the user's configuration and agent."""
    known_hosts_file: Path | None = None
    """File of the host keys that ssh accepts. If the field is None, ssh accepts the user's and system's known hosts."""
    ca_file: Path | None = None
    """File of the authorities that https trusts. If the field is None, https trusts the authorities of the system."""

    def environment(self, target: SourceTarget, directory: Path) -> dict[str, str]:
        """Return the variables by which Git reaches `target`. Write the script that Git runs into `directory`.

        Raises: Unauthorized if a file is unreadable or empty.
        """
        self._check_usable(target)
        if target.scheme == "ssh":
            return {"GIT_SSH_COMMAND": shlex.join(self._ssh_command()), "GIT_SSH_VARIANT": "ssh"}
        variables = {"GIT_SSL_CAINFO": str(self.ca_file.absolute())} if self.ca_file else {}
        if self.token_file is None:
            return variables
        return {
            **variables,
            "GIT_ASKPASS": str(_write_askpass(directory)),
            "LEVELGATE_GIT_USERNAME": self.username,
            "LEVELGATE_GIT_TOKEN_FILE": str(self.token_file.absolute()),
        }

    @property
    def file_states(self) -> tuple[object, ...]:
        """Return a value that changes whenever one of the files changes."""
        return tuple(_file_state(file) for file in self._files)

    @property
    def _files(self) -> tuple[Path, ...]:
        return tuple(filter(None, (self.token_file, self.ssh_key_file, self.known_hosts_file, self.ca_file)))

    def redact(self, text: str) -> str:
        """Return `text` with `***` in place of the token, and of the URL-encoded and base64 forms of the token."""
        for form in sorted(self._token_forms(), key=len, reverse=True):
            text = text.replace(form, "***")
        return text

    def _ssh_command(self) -> list[str]:
        """Return the ssh command with its options.

        With a key file, ssh uses neither the user's configuration nor an agent, so ssh offers only the key in this
        file.
        """
        command = list(_SSH)
        if self.ssh_key_file is not None:
            command += [
                "-F",
                os.devnull,
                "-oIdentitiesOnly=yes",
                "-oIdentityAgent=none",
                "-i",
                str(self.ssh_key_file.absolute()),
            ]
        if self.known_hosts_file is not None:
            known_hosts = str(self.known_hosts_file.absolute()).replace("%", "%%")
            command += [f'-oUserKnownHostsFile="{known_hosts}"', "-oGlobalKnownHostsFile=none"]
        return command

    def _check_usable(self, target: SourceTarget) -> None:
        """Check that this process can read every file, and that every file has content.

        Only the file of known hosts may be empty.

        Raises: Unauthorized if a file fails the check.
        """
        for file in self._files:
            if not os.access(file, os.R_OK):
                problem, advice = "cannot be read", "check path and permissions"
            elif file is not self.known_hosts_file and not file.stat().st_size:
                problem, advice = "is empty", "write the secret into the file"
            else:
                continue
            raise Unauthorized(str(target), f"the credentials file {file} {problem}", advice=advice)

    def _token_forms(self) -> set[str]:
        """Return the forms in which output of Git may contain the token.

        The forms are: plain, URL-encoded, and base64 of the token alone or with the user name.
        """
        if self.token_file is None:
            return set()
        try:
            token = read_secret(self.token_file)
        except (OSError, UnicodeDecodeError):
            return set()
        pair = f"{self.username}:{token}"
        forms = {token, quote(token, safe="")} | {base64.b64encode(text.encode()).decode() for text in (token, pair)}
        return {form for form in forms if form}


def _file_state(file: Path) -> tuple[int, ...]:
    """Return the inode, the size and the modification time of a file, or an empty tuple if the file is missing."""
    try:
        status = file.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _write_askpass(directory: Path) -> Path:
    """Write the script if its content differs. Replace the file atomically, because a process may run the script."""
    script = directory / "askpass"
    if not script.exists() or script.read_text() != _ASKPASS:
        fresh = script.with_suffix(f".{os.getpid()}")
        fresh.write_text(_ASKPASS)
        fresh.chmod(0o700)
        fresh.replace(script)
    return script
