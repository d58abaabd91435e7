"""Credentials that change while requests are under way: nothing fails, nothing is read again, no watch ends; over TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from applier.cluster import ClusterName, WatchTarget
from applier.errors import ConfigurationError
from applier.kube import connect_to
from applier.kube.cluster import KubeCluster
from applier.kube.http_transport import HttpTransport
from applier.kube.kubeconfig import InlineKubeconfig, Kubeconfig
from renderer.identity import GroupKind, ObjectKey
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import until
from tests.support.git.secure_server import IS_MISSING, MISSING, Authority, run

CONFIG_MAP = GroupKind("", "ConfigMap")
TIMES = 20


@dataclass
class Account:
    """A service account; each of its tokens lives for as long as a Secret of its own does."""

    server: ControlPlane
    namespace: str
    count: int = 0

    def create(self) -> None:
        self._post(f"/api/v1/namespaces/{self.namespace}/serviceaccounts", {"metadata": {"name": "hub"}})
        binding = {
            "metadata": {"name": "hub"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "hub", "namespace": self.namespace}],
        }
        self._post(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/rolebindings", binding)

    def next_token(self) -> str:
        self.count += 1
        name = f"holder-{self.count}"
        holder = self._post(f"/api/v1/namespaces/{self.namespace}/secrets", {"metadata": {"name": name}})
        reference = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": holder["metadata"]["uid"]}
        request = {"spec": {"boundObjectRef": reference, "expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/hub/token"
        return str(self._post(path, request)["status"]["token"])

    def revoke(self, number: int) -> None:
        self.server.request("DELETE", f"/api/v1/namespaces/{self.namespace}/secrets/holder-{number}")

    def _post(self, path: str, body: object) -> Any:
        answer = self.server.request("POST", path, body)
        assert answer.code == 201, answer.body
        return answer.body


def write(file: Path, server: ControlPlane, token: str) -> None:
    document = json.loads(server.kubeconfig("levelgate").read_text())
    document["users"][0]["user"] = {"token": token}
    file.write_text(json.dumps(document))


@dataclass
class Load:
    """Requests one after another, side by side with those of others, until it is told to stop."""

    cluster: KubeCluster
    key: ObjectKey
    done: int = 0
    failures: list[Exception] = field(default_factory=list)
    stopped: bool = False

    async def run(self) -> None:
        while not self.stopped:
            try:
                await self.cluster.merge(self.key, {"data": {"n": str(self.done)}}, manager="test")
                await self.cluster.get(self.key)
            except Exception as error:
                self.failures.append(error)
            self.done += 2


async def test_a_token_is_replaced_under_load_and_no_request_fails_and_no_watch_ends(
    control_plane: ControlPlane, audit: AuditLog, namespace: str, tmp_path: Path
) -> None:
    """M3."""
    account, file = Account(control_plane, namespace), tmp_path / "kubeconfig"
    account.create()
    write(file, control_plane, account.next_token())
    cluster = await connect_to(Kubeconfig((file,), None), name=ClusterName("eu-1"))
    keys = [ObjectKey("", "ConfigMap", namespace, f"load-{number}") for number in range(4)]
    for key in keys:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key.name, "namespace": namespace}}
        await cluster.apply(manifest, manager="test")
    loads = [Load(cluster, key) for key in keys]
    names: list[str] = []
    async with cluster.watch(WatchTarget(CONFIG_MAP, namespace)) as events:

        async def listen() -> None:
            async for event in events:
                names.append(event.object["metadata"]["name"])  # noqa: PERF401 - as it comes

        since = audit.mark()
        listening = asyncio.create_task(listen())
        running = [asyncio.create_task(load.run()) for load in loads]
        before = cluster.requests.copy()
        for _ in range(TIMES):
            token = await asyncio.to_thread(account.next_token)
            write(file, control_plane, token)
            assert await cluster.renew_credentials()
            await asyncio.to_thread(account.revoke, account.count - 1)
            enough = min(load.done for load in loads) + 6
            await until(lambda enough=enough: all(load.done >= enough for load in loads))  # type: ignore[misc]
        for load in loads:
            load.stopped = True
        await asyncio.gather(*running)
        last = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last", "namespace": namespace}}
        await cluster.apply(last, manager="test")
        await until(lambda: names[-1] == "last")
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
    assert [load.failures for load in loads] == [[]] * 4
    assert len(names) > sum(load.done // 2 for load in loads)  # each write was heard of, and the last object
    asked = {verb: cluster.requests[verb] - before[verb] for verb in ("list", "watch", "discover")}
    assert asked == {"list": 0, "watch": 1, "discover": 0}  # the list with which the watch began was before
    await cluster.close()
    assert len(used_tokens(control_plane, since, namespace)) >= TIMES


def used_tokens(server: ControlPlane, since: int, namespace: str) -> set[str]:
    """Which tokens of the account requests were answered with, by the audit log."""
    with server.audit_log.open("rb") as file:
        file.seek(since)
        entries = [json.loads(line) for line in file if line.endswith(b"\n")]
    return {
        identity
        for entry in entries
        if entry["user"].get("username") == f"system:serviceaccount:{namespace}:hub" and entry.get("responseStatus")
        for identity in entry["user"].get("extra", {}).get("authentication.kubernetes.io/credential-id", [])
        if entry["responseStatus"].get("code") == 200
    }


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    if IS_MISSING:
        pytest.skip(MISSING)
    return Authority.made(tmp_path / "authority")


def client_certificate(authority: Authority, name: str) -> tuple[bytes, bytes]:
    """Certificate and key of a client of this name."""
    key, request, signed = (authority.directory / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
    run(
        *("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", key, "-out", request, "-subj", f"/CN={name}"),
    )
    by = ("-CA", authority.file, "-CAkey", authority.directory / "ca.key", "-CAcreateserial")
    (authority.directory / "client").write_text("basicConstraints=CA:false\nauthorityKeyIdentifier=keyid\n")
    extensions = ("-extfile", authority.directory / "client")
    run("openssl", "x509", "-req", "-in", request, *by, "-out", signed, "-days", "30", *extensions)
    return signed.read_bytes(), key.read_bytes()


@dataclass
class TlsServer:
    """Answers whoever has a certificate; a request with `watch` goes on until `send` ends it. `names` are those of all requests' clients."""

    names: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    refused_tokens: set[str] = field(default_factory=set)
    open_connections: int = 0
    watching: list[asyncio.StreamWriter] = field(default_factory=list)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                certificate: Any = writer.get_extra_info("peercert")
                self.names.append(dict(part[0] for part in certificate["subject"])["commonName"])
                token = head.partition("Authorization: Bearer ")[2].partition("\r\n")[0]
                self.tokens.append(token)
                if token in self.refused_tokens:
                    writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                elif "watch" in head.partition("\r\n")[0]:
                    self.watching.append(writer)
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.open_connections -= 1
            writer.close()

    def send(self, text: bytes) -> None:
        for writer in self.watching:
            writer.write(b"%x\r\n%b\r\n" % (len(text), text))


@asynccontextmanager
async def serving(authority: Authority) -> AsyncIterator[TlsServer]:
    server, tls = TlsServer(), authority.context()
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.file)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls) as listening:
        server.url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server


@dataclass
class Changing:
    """A source whose kubeconfig somebody else changes."""

    url: str
    authority: bytes
    user: dict[str, str] = field(default_factory=dict)

    async def load(self) -> Any:
        cluster = {"server": self.url, "certificate-authority-data": base64.b64encode(self.authority).decode()}
        document = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": self.user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        return await InlineKubeconfig("Secret levelgate-system/eu-1", document).load()

    def certify(self, authority: Authority, name: str) -> None:
        certificate, key = client_certificate(authority, name)
        self.user |= {
            "client-certificate-data": base64.b64encode(certificate).decode(),
            "client-key-data": base64.b64encode(key).decode(),
        }


async def test_a_client_certificate_is_replaced_under_load_and_the_watch_goes_on(authority: Authority) -> None:
    """M3: new connections are made with the new one, and those of before end when nothing is under way by them."""
    async with serving(authority) as server:
        source = Changing(server.url, authority.file.read_bytes(), {"token": "t"})
        source.certify(authority, "hub-0")
        transport = await HttpTransport.open(source, keeps_server=True)
        statuses: list[int] = []
        stopped = False

        async def ask() -> None:
            while not stopped:
                statuses.append((await transport.send("GET", "/api", headers={})).status)

        async with transport.stream("/api?watch=1", headers={}, silence=60.0) as answer:
            asking = [asyncio.create_task(ask()) for _ in range(4)]
            for number in range(1, 6):
                await asyncio.to_thread(source.certify, authority, f"hub-{number}")
                assert await transport.renew()
                await until(lambda name=f"hub-{number}": server.names[-1] == name)  # type: ignore[misc]
            server.send(b"still there")
            assert await anext(answer.parts) == b"still there"
            stopped = True
            await asyncio.gather(*asking)
            assert set(statuses) == {200}
            assert len(server.watching) == 1
        assert await transport.renew()
        await transport.send("GET", "/api", headers={})
        await until(lambda: server.open_connections <= 4)  # those with the last certificate
        await transport.close()


async def test_a_new_token_needs_no_new_connection_be_it_announced_or_asked_for_after_a_401(
    authority: Authority,
) -> None:
    async with serving(authority) as server:
        source = Changing(server.url, authority.file.read_bytes(), {"token": "1"})
        source.certify(authority, "hub")
        transport = await HttpTransport.open(source, keeps_server=True)
        for token in ("1", "2"):
            source.user["token"] = token
            assert await transport.renew()
            assert (await transport.send("GET", "/api", headers={})).status == 200
        source.user["token"] = "3"
        server.refused_tokens.add("2")
        assert (await transport.send("PATCH", "/api", headers={}, body=b"{}")).status == 200
        assert server.tokens == ["1", "2", "2", "3"]
        assert server.open_connections == 1
        await transport.close()


async def test_another_server_or_authority_is_not_taken_over(authority: Authority, tmp_path: Path) -> None:
    """It may be another cluster: what is sent goes on to the first one, or nowhere."""
    async with serving(authority) as server, serving(authority) as other:
        source = Changing(server.url, authority.file.read_bytes(), {"token": "1"})
        source.certify(authority, "hub")
        transport = await HttpTransport.open(source, keeps_server=True)
        source.url, source.user["token"] = other.url, "2"
        assert not await transport.renew()
        source.url, source.authority = server.url, Authority.made(tmp_path / "other").file.read_bytes()
        assert not await transport.renew()
        assert (await transport.send("GET", "/api", headers={})).status == 200
        server.refused_tokens.add("1")
        source.url = other.url
        with pytest.raises(ConfigurationError, match="another") as raised:
            await transport.send("GET", "/api", headers={})
        assert server.tokens == ["1", "1"]
        assert other.tokens == []
        assert "for another server or certificate authority" in str(raised.value)
        await transport.close()


async def test_credentials_that_cannot_be_read_leave_those_that_there_are(authority: Authority) -> None:
    async with serving(authority) as server:
        source = Changing(server.url, authority.file.read_bytes(), {"token": "1"})
        source.certify(authority, "hub")
        transport = await HttpTransport.open(source, keeps_server=True)
        source.user["client-key-data"] = base64.b64encode(b"canary").decode()
        with pytest.raises(ConfigurationError) as raised:
            await transport.renew()
        assert "canary" not in str(raised.value)
        assert (await transport.send("GET", "/api", headers={})).status == 200
        await transport.close()
