"""Connections of requests: kept, given up, cut off; by a server that answers bytes from a script."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientTimeout, ServerDisconnectedError

from applier.kube import connection_pool
from applier.kube.connection_pool import ConnectionPool, ServerAddress
from applier.kube.http_transport import HttpTransport
from applier.kube.kubeconfig import Kubeconfig
from applier.kube.transport_port import BrokenError, NotSentError
from tests.support.cluster.control_plane import ControlPlane
from tests.support.scripted_server import write_kubeconfig

LIMITS = ClientTimeout(30.0, sock_connect=5.0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
END, WAIT = b"", b"wait"
"""Instead of an answer: the server ends the connection, or says nothing more."""


@dataclass
class RawServer:
    """`scripts` are the answers of each connection, in order; `seen` the requests of each."""

    scripts: Sequence[Sequence[bytes]]
    seen: list[list[bytes]] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests: list[bytes] = []
        self.seen.append(requests)
        try:
            for answer in self.scripts[len(self.seen) - 1]:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(line.split()[1]) for line in head.splitlines() if line.startswith(b"Content-L")), 0)
                requests.append(head + await reader.readexactly(length))
                self.asked.set()
                writer.write(answer.removesuffix(WAIT))
                if answer.endswith(WAIT):
                    await reader.read()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            self.ended.set()


@asynccontextmanager
async def serving(*scripts: Sequence[bytes]) -> AsyncIterator[tuple[RawServer, ConnectionPool]]:
    server = RawServer(scripts)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        pool = ConnectionPool(ServerAddress("127.0.0.1", server.port, None, ""))
        try:
            yield server, pool
        finally:
            pool.close()


def request(method: str) -> bytes:
    return f"{method} /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode()


async def ask(pool: ConnectionPool, method: str = "PATCH", limits: ClientTimeout = LIMITS) -> tuple[int, bytes]:
    answer = await pool.exchange(method, request(method), limits)
    return answer.status, answer.body


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with serving([OK, OK, OK]) as (server, pool):
        for _ in range(3):
            assert await ask(pool) == (200, b"{}")
        assert server.seen == [[request("PATCH")] * 3]


async def test_requests_side_by_side_have_a_connection_each() -> None:
    async with serving([OK], [OK]) as (server, pool):
        await asyncio.gather(ask(pool), ask(pool))
        assert [len(requests) for requests in server.seen] == [1, 1]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        OK + b"HTTP/1.1 500 Nobody Asked\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_a_connection_with_which_something_is_not_in_order_is_not_kept(answer: bytes) -> None:
    async with serving([answer, OK], [OK]) as (server, pool):
        assert [await ask(pool), await ask(pool)] == [(200, b"{}")] * 2
        assert [len(requests) for requests in server.seen] == [1, 1]


async def test_a_connection_that_was_idle_for_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving([OK, OK], [OK]) as (server, pool):
        await ask(pool)
        monkeypatch.setattr(connection_pool, "MAX_IDLE_SECONDS", -1.0)
        await ask(pool)
        assert [len(requests) for requests in server.seen] == [1, 1]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_may_be_repeated_is_sent_again_once_where_the_kept_connection_is_dead(method: str) -> None:
    async with serving([OK, END], [OK]) as (server, pool):
        assert [await ask(pool, method), await ask(pool, method)] == [(200, b"{}")] * 2
        assert [len(requests) for requests in server.seen] == [2, 1]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH"])
async def test_on_a_new_connection_nothing_is_sent_again(method: str) -> None:
    async with serving([END], [OK]) as (server, pool):
        with pytest.raises(ServerDisconnectedError):
            await ask(pool, method)
        assert len(server.seen) == 1


@pytest.mark.parametrize("method", ["PATCH", "POST"])
async def test_a_write_is_not_sent_again(method: str) -> None:
    """Wherever its connection comes from: it may have been carried out."""
    async with serving([OK, END], [OK]) as (server, pool):
        await ask(pool, method)
        with pytest.raises(ServerDisconnectedError):
            await ask(pool, method)
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
        % (len(gzip.compress(b"{}", mtime=0)), gzip.compress(b"{}", mtime=0)),
        b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
)
async def test_each_framing_of_an_answer_is_understood(answer: bytes) -> None:
    async with serving([answer]) as (_, pool):
        assert await ask(pool) == (200, b"{}")


async def test_a_large_answer_is_read_whole() -> None:
    body = b"x" * 2**24
    packed = gzip.compress(body)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n"
    plain, small = head % len(body) + b"\r\n" + body, head % len(packed) + b"Content-Encoding: gzip\r\n\r\n" + packed
    async with serving([plain, small, OK]) as (server, pool):
        assert [await ask(pool) for _ in range(3)] == [(200, body), (200, body), (200, b"{}")]
        assert len(server.seen) == 1


@pytest.mark.parametrize("answer", [b"SSH-2.0-secret\r\n\r\n", b"HTTP/1.1 200 OK\r\nsecret\r\n\r\n"])
async def test_an_answer_that_is_not_http_is_not_quoted(answer: bytes) -> None:
    async with serving([answer]) as (_, pool):
        with pytest.raises(BrokenError, match=r"^the answer is not HTTP; ") as raised:
            await ask(pool)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 200 OK\r\n\r\n{}"])
async def test_an_answer_that_does_not_come_is_given_up(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that only its end is missing of, and that looks whole where the end of the connection is its end."""
    monkeypatch.setattr(connection_pool, "_CHECK_SECONDS", 0.01)
    async with serving([begin + WAIT], [begin + WAIT]) as (server, pool):
        with pytest.raises(TimeoutError):
            await ask(pool, limits=ClientTimeout(0.05, sock_connect=5.0))
        with pytest.raises(TimeoutError):
            await ask(pool, "GET", ClientTimeout(60.0, sock_connect=5.0, sock_read=0.05))
        assert len(server.seen) == 2


async def test_the_connection_of_a_request_that_was_cancelled_is_not_kept() -> None:
    """Its answer would be taken for that of the next request."""
    async with serving([WAIT], [OK]) as (server, pool):
        cancelled = asyncio.create_task(ask(pool))
        await server.asked.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await ask(pool) == (200, b"{}")
        await server.ended.wait()
        assert len(server.seen) == 2


async def test_requests_that_are_under_way_are_answered_after_credentials_have_changed_and_end_with_the_process() -> (
    None
):
    async with serving([OK, OK], [WAIT]) as (server, pool):
        await ask(pool)
        pool.retire()
        waiting = asyncio.create_task(ask(pool))
        while len(server.seen) < 2 or not server.seen[1]:
            server.asked.clear()
            await server.asked.wait()
        pool.close()
        with pytest.raises(ServerDisconnectedError):
            await waiting


async def test_a_server_is_asked_under_its_own_path_by_a_request_that_cannot_be_split(tmp_path: Path) -> None:
    async with serving([OK]) as (server, _):
        file = write_kubeconfig(tmp_path / "config", f"http://127.0.0.1:{server.port}/k8s/c-1", user={"token": "t"})
        transport = await HttpTransport.open(Kubeconfig((file,), None))
        await transport.send("PATCH", "/api/v1/x%0D%0A?force=false", headers={"Accept": "a/b"}, body=b"{}")
        with pytest.raises(ValueError, match="not percent-encoded"):
            await transport.send("PATCH", "/api/v1/x HTTP/1.1\r\nX: y", headers={}, body=b"{}")
        with pytest.raises(ValueError, match=r"^header Impersonate-User: empty, or more than one line$"):
            await transport.send("PATCH", "/api", headers={"Impersonate-User": "ada\r\nX: y"}, body=b"{}")
        await transport.close()
    assert server.seen == [
        [
            b"PATCH /k8s/c-1/api/v1/x%%0D%%0A?force=false HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
            b"Accept-Encoding: gzip, deflate\r\nAccept: a/b\r\nAuthorization: Bearer t\r\nContent-Length: 2\r\n\r\n{}"
            % server.port
        ]
    ]


async def test_a_proxy_passes_on_requests_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving([b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]) as (proxy, _):
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        file = write_kubeconfig(tmp_path / "config", "https://api.test:6443", user={"token": "t"})
        transport = await HttpTransport.open(Kubeconfig((file,), None))
        with pytest.raises(BrokenError):
            await transport.send("PATCH", "/api", headers={}, body=b"{}")
        await transport.close()
    assert proxy.seen[0][0].startswith(b"CONNECT api.test:6443 HTTP/1.1\r\n")
    assert b"Bearer" not in proxy.seen[0][0]


async def test_a_certificate_that_is_not_trusted_or_names_another_server_is_final(control_plane: ControlPlane) -> None:
    """Nothing has been sent, and trying again cannot help."""
    url, trusting = urlsplit(control_plane.url), ssl.create_default_context(cafile=control_plane.ca_file)
    for tls, name in ((ssl.create_default_context(), url.hostname), (trusting, "other.test")):
        address = ServerAddress(url.hostname or "", url.port or 0, tls, name or "")
        with pytest.raises(NotSentError, match="CERTIFICATE_VERIFY_FAILED") as raised:
            await address.connect(5.0)
        assert raised.value.is_final
