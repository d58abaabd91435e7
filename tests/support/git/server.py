"""Real repositories, made by the real git, and served over real HTTP."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gitops.source.git import Git
from tests.support.git.repository import GIT_ENVIRONMENT


@dataclass(frozen=True)
class GitCalls:
    """The arguments and the standard input of every Git process."""

    arguments: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)


def asked_from_now_on(monkeypatch: pytest.MonkeyPatch) -> GitCalls:
    asked, run = GitCalls(), Git.run

    def recorded(self: Git, *arguments: str, stdin: bytes = b"", limit: int = 1 << 30) -> bytes:
        asked.arguments.extend(arguments)
        asked.given.extend(stdin.decode().split())
        return run(self, *arguments, stdin=stdin, limit=limit)

    monkeypatch.setattr(Git, "run", recorded)
    return asked


@dataclass
class GitServer:
    """`git http-backend` behind a small server. The switches change what the next requests meet."""

    root: Path
    token: str = ""
    cut_at: float = 1.0
    drips: bool = False
    redirect_to: str = ""
    pack_at: str = ""
    status: int = 0
    echo: bool = False
    oldest_protocol: bool = False
    requests: list[str] = field(default_factory=list)
    fetches: int = 0
    offered: set[str] = field(default_factory=set)
    before_pack: Callable[[], None] = lambda: None
    headers: dict[str, str] = field(default_factory=dict)
    port: int = 0
    scheme: str = "http"

    def url(self, name: str = "work") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/{name}/.git"

    def authorized(self, header: str) -> bool:
        if not header.startswith("Basic "):
            return not self.token
        _, _, password = base64.b64decode(header[6:]).decode().partition(":")
        self.offered.add(password)
        return password == self.token

    def backend(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        path, _, query = handler.path.partition("?")
        environment = {
            **GIT_ENVIRONMENT,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": handler.command,
            "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": "" if self.oldest_protocol else handler.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        answer = subprocess.run(
            ("git", "http-backend"), input=body, capture_output=True, env=environment, check=False
        ).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in head.decode().split("\r\n"))]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        return status, headers, content


def handler_for(server: GitServer) -> type[BaseHTTPRequestHandler]:
    class GitRequestHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                self._answer(b"".join(iter(self._chunk, b"")))
            else:
                self._answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

        def _chunk(self) -> bytes:
            size = int(self.rfile.readline(), 16)
            data = self.rfile.read(size)
            self.rfile.readline()
            return data

        def _answer(self, body: bytes) -> None:
            server.requests.append(f"{self.command} {self.path}")
            authorization = self.headers.get("Authorization", "")
            if server.pack_at and self.command == "POST":
                self._send(307, [("Location", server.pack_at + self.path)], b"")
            elif server.redirect_to:
                self._send(302, [("Location", server.redirect_to + self.path)], b"")
            elif server.status:
                headers = [("Content-Type", "text/plain"), *server.headers.items()]
                self._send(server.status, headers, authorization.encode() if server.echo else b"")
            elif not server.authorized(authorization):
                told = f"you said {authorization} {server.offered}".encode() if server.echo else b"no"
                self._send(401, [("WWW-Authenticate", 'Basic realm="git"'), ("Content-Type", "text/plain")], told)
            else:
                self._serve(body)

        def _serve(self, body: bytes) -> None:
            fetching = b"command=fetch" in body or body[4:9] == b"want "
            if fetching:
                server.fetches += 1
                server.before_pack()
            status, headers, content = server.backend(self, body)
            drips = fetching and server.drips
            self._send(status, headers, content, cut=server.cut_at if fetching else 1.0, drips=drips)

        def _send(
            self,
            status: int,
            headers: list[tuple[str, str]],
            content: bytes,
            *,
            cut: float = 1.0,
            drips: bool = False,
        ) -> None:
            self.send_response(status)
            for name, value in headers:
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if drips:
                self._drip(content)
            self.wfile.write(content[: int(len(content) * cut)])
            self.close_connection = True

        def _drip(self, content: bytes) -> None:
            """Send byte by byte, so that the client never waits long for one."""
            for byte in content:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.05)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return GitRequestHandler


class _Listening(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that went away is what some tests are about."""


@contextmanager
def serving(root: Path, tls: ssl.SSLContext | None = None) -> Iterator[GitServer]:
    """The repositories below `root`, over HTTP, or HTTPS with a certificate."""
    state = GitServer(root, scheme="https" if tls else "http")
    with _Listening(("127.0.0.1", 0), handler_for(state)) as listening:
        if tls:
            listening.socket = tls.wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
        state.port = listening.server_port
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield state
        finally:
            listening.shutdown()
            thread.join()


def give_away(top: Path) -> None:
    """Give everything below `top` to a user that is not us. Needs root."""
    for path in (top, *top.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
