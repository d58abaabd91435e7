"""Real encryption for real Git: a certificate authority of its own, and an sshd for the user who runs the tests, both on loopback."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.cluster.ports import free_ports

SSHD: Final = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
MISSING: Final = (
    "there is no sshd or openssl: apt-get install openssh-server openssl (tests of Git over SSH and TLS need them)"
)
IS_MISSING: Final = SSHD is None or shutil.which("openssl") is None


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=60)


@dataclass(frozen=True)
class Authority:
    """Signs certificates with `openssl`; `file` is what clients have to trust."""

    directory: Path

    @property
    def file(self) -> Path:
        return self.directory / "ca.pem"

    @classmethod
    def made(cls, directory: Path) -> Authority:
        directory.mkdir()
        key, found = directory / "ca.key", cls(directory)
        subject = ("-subj", f"/CN={directory.name}", "-days", "30", "-addext", "keyUsage=critical,keyCertSign")
        run("openssl", "req", "-x509", *_NEW_KEY, "-keyout", key, "-out", found.file, *subject)
        return found

    def context(self, name: str = "IP:127.0.0.1", days: int = 30) -> ssl.SSLContext:
        """For a server of that name; with fewer than 0 days the certificate has ended."""
        key, request, signed = (self.directory / f"server.{kind}" for kind in ("key", "csr", "pem"))
        (self.directory / "names").write_text(f"subjectAltName={name}\n")
        run("openssl", "req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", "/CN=server")
        by = ("-CA", self.file, "-CAkey", self.directory / "ca.key", "-CAcreateserial")
        run(
            "openssl",
            "x509",
            "-req",
            "-in",
            request,
            *by,
            "-out",
            signed,
            "-days",
            str(days),
            "-extfile",
            self.directory / "names",
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(signed, key)
        return context


_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Sshd:
    """Lets in whoever has the private key `key`; `known_hosts` has its host key."""

    directory: Path
    port: int

    @property
    def key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def url(self, repository: Path) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{repository}"

    def refusal(self) -> str:
        """Why its user cannot log in, which depends on the account; empty where that works."""
        known = ("-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes")
        target = ("-p", str(self.port), f"{getpass.getuser()}@127.0.0.1", "true")
        login = ("ssh", "-F", os.devnull, "-i", str(self.key), *known, *target)
        done = subprocess.run(login, capture_output=True, text=True, check=False, timeout=60)
        return (done.stderr or done.stdout or f"exit code {done.returncode}") if done.returncode else ""

    def know(self, host_key: Path) -> None:
        """Clients expect this host key from here on."""
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {host_key.with_suffix('.pub').read_text()}")


def new_key(file: Path) -> Path:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file)
    return file


@contextmanager
def sshd(directory: Path) -> Iterator[Sshd]:
    assert SSHD
    directory.mkdir(mode=0o700)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # as its service does; sshd insists when it is root
    found = Sshd(directory, *free_ports(1))
    host_key = new_key(directory / "host")
    found.know(host_key)
    (directory / "authorized").write_text(new_key(found.key).with_suffix(".pub").read_text())
    options = {
        "ListenAddress": f"127.0.0.1:{found.port}",
        "HostKey": host_key,
        "AuthorizedKeysFile": directory / "authorized",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
    }
    settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", os.devnull, *settings], stderr=log)
    try:
        _wait_for(process, found)
        yield found
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(process: subprocess.Popen[bytes], server: Sshd) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", server.port), timeout=60).close()
            return
        except OSError:
            assert process.poll() is None, (server.directory / "log").read_text()
            assert time.monotonic() < deadline, (server.directory / "log").read_text()
            time.sleep(0.02)
