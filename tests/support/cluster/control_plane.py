"""A real Kubernetes control plane on loopback ports, for tests: etcd, kube-apiserver, kube-controller-manager.

Several on one etcd are several clusters: each has objects, tokens, certificates and an audit log of its own. There are
no nodes. Unless a test asks for them there are no workload controllers either: what a Deployment's status says is what
the test writes there.
"""

import atexit
import base64
import http.client
import json
import os
import secrets
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tests.support.cluster.binaries import Commands, find_binaries
from tests.support.cluster.etcd import Etcd
from tests.support.cluster.ports import free_ports
from tests.support.cluster.process import STOP_WITHIN, Flags, ServerProcess, start_server
from tests.support.cluster.waiting import eventually

DEFAULT_CONTROLLERS = ("namespace-controller", "garbage-collector-controller")
WORKLOAD_CONTROLLERS = (
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "ttl-after-finished-controller",
    "disruption-controller",
    "horizontal-pod-autoscaler-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "resourcequota-controller",
)

_CONTROLLER_MANAGER = "system:kube-controller-manager"  # RBAC's bootstrap policy knows this user.
_GROUPS = {
    "admin": "system:masters",
    "levelgate": "system:masters",
    "person": "system:masters",
    "other": "system:masters",
    "tenant": "",
    _CONTROLLER_MANAGER: "",
}
USERS = tuple(user for user in _GROUPS if user != _CONTROLLER_MANAGER)

_PREFIX = "/registry"  # kube-apiserver's own default.
_READY_WITHIN = 300.0
_IDLE = 60.0  # The API server closes connections that were idle for 90 seconds.

# Its own authority, and its holder's only name.
_CERTIFICATE = (
    *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
    *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
    *("-addext", "keyUsage=critical,digitalSignature,keyCertSign"),
)

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "RequestResponse", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "Metadata"},
    ],
}


class ServerResponse(NamedTuple):
    """The HTTP status and JSON body of a response; text if the body is not a JSON document."""

    code: int
    body: Any


class ControlPlane:
    """A control plane that runs from `start` to `stop`; also a context manager.

    Every user of `USERS` has a token of its own, so that the audit log tells who did what. All are cluster
    administrators but `tenant`, who may do nothing until a test grants it by RBAC.
    """

    def __init__(
        self, directory: Path, controllers: Sequence[str], etcd: Etcd, *, prefix: str, audit_log: Path, is_peer: bool
    ) -> None:
        self.directory = directory.resolve()
        self.audit_log = audit_log.resolve()
        self.ca_file = self.directory / "certificates" / "apiserver.crt"
        self.controllers = tuple(controllers)
        self._etcd = etcd
        self._is_peer = is_peer
        self._peers: dict[str, ControlPlane] = {}
        self._prefix = prefix
        self._tokens = {user: secrets.token_hex(16) for user in _GROUPS}
        (self._port,) = free_ports(1)
        self._processes: dict[str, ServerProcess] = {}
        self._idle: list[tuple[float, http.client.HTTPSConnection]] = []
        self._owner = os.getpid()

    @classmethod
    def start(cls, directory: Path, controllers: Sequence[str] = DEFAULT_CONTROLLERS) -> "ControlPlane":
        """Starts one in `directory` (made if missing, should be empty) and returns when the API server is ready.

        `controllers` are names as `kube-controller-manager --controllers` takes them; with none there is no
        controller manager, nor with a `KUBEBUILDER_ASSETS` that has none. Controllers may still be starting on return.

        Raises `NotBuiltError` without binaries, RuntimeError with the log's end if a server gives up, AssertionError
        if they are not ready in five minutes.
        """
        binaries = find_binaries()
        controllers = controllers if "kube-controller-manager" in binaries else ()
        etcd = Etcd(directory)
        server = cls(directory, controllers, etcd, prefix=_PREFIX, audit_log=directory / "audit.log", is_peer=False)
        atexit.register(server.stop)
        try:
            etcd.start(binaries)
            _launch([server], binaries)
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def peers(self) -> "dict[str, ControlPlane]":
        """Those of `start_peers` that run, by name."""
        return {name: peer for name, peer in self._peers.items() if peer._processes}

    def start_peers(self, *names: str) -> "dict[str, ControlPlane]":
        """Starts further clusters on the same etcd, side by side and with the same controllers; returns them when all are ready.

        Each is a control plane like this one, ends by its own `stop`, and with this one at the latest. Its files are in the directory `NAME` below
        this one's, its audit log is `NAME.audit.log` beside this one's. One that was there before has its objects again. The faults of etcd
        befall all.

        Raises as `start`, then none of them is left; ValueError for a name that is taken.
        """
        if taken := [name for name in names if name in self.peers]:
            raise ValueError(f"there is already a peer {taken[0]!r}")
        started = {name: self._peer(name) for name in names}
        self._peers |= started
        try:
            _launch(list(started.values()), find_binaries())
        except BaseException:
            _end(list(started.values()))
            raise
        return started

    def _peer(self, name: str) -> "ControlPlane":
        return ControlPlane(
            self.directory / name,
            self.controllers,
            self._etcd,
            prefix=f"/{name}",
            audit_log=self.audit_log.with_name(f"{name}.audit.log"),
            is_peer=True,
        )

    def stop_peers(self) -> None:
        """Ends all peers, side by side, and waits for that. Their objects stay in etcd."""
        _end(list(self._peers.values()))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def pids(self) -> dict[str, int]:
        """Process id by component; the etcd is the same for all peers."""
        return {"etcd": self._etcd.pid} | {name: process.pid for name, process in self._processes.items()}

    def token(self, user: str = "admin") -> str:
        if user not in USERS:
            raise ValueError(f"no user {user!r}; there are {', '.join(USERS)}")
        return self._tokens[user]

    def kubeconfig(self, user: str = "admin") -> Path:
        """A kubeconfig file with which one is `user`; self-contained, so it may be copied elsewhere."""
        return self._kubeconfig(user, self.token(user))

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str = "admin",
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> ServerResponse:
        """One HTTP request; `body` is sent as JSON."""
        headers = {"Authorization": f"Bearer {self.token(user)}", "Accept": accept}
        payload = None
        if body is not None:
            headers["Content-Type"] = content_type
            payload = json.dumps(body)
        with self._connection() as connection:
            connection.request(method, path, payload, headers)
            response = connection.getresponse()
            text = response.read().decode()
        try:
            return ServerResponse(response.status, json.loads(text))
        except ValueError:
            return ServerResponse(response.status, text)

    def check(self) -> None:
        """Raises RuntimeError if one of the servers has ended."""
        self._etcd.check()
        for process in self._processes.values():
            process.check()

    def freeze(self) -> None:
        """Stops the API server in its tracks until `thaw`: it accepts connections, answers nothing, and its watches tell nothing."""
        self._processes["kube-apiserver"].pause()

    def thaw(self) -> None:
        """Ends `freeze`: what was asked meanwhile is answered. Does nothing when it is not frozen."""
        self._processes["kube-apiserver"].resume()

    def pause_etcd(self) -> None:
        """Freezes the storage: requests hang until `resume_etcd` or their own deadline."""
        self._etcd.pause()

    def resume_etcd(self) -> None:
        """Ends `pause_etcd`; does nothing when etcd is not paused."""
        self._etcd.resume()

    def fill_etcd(self) -> None:
        """Raises the alarm that a full quota raises: etcd refuses every write until `empty_etcd`; reads go on."""
        self._etcd.alarm("ACTIVATE")

    def empty_etcd(self) -> None:
        """Ends `fill_etcd`; does nothing when there is no alarm."""
        self._etcd.alarm("DEACTIVATE")

    def stop_apiserver(self) -> None:
        """Ends the API server: connections are refused until `start_apiserver`."""
        self._hang_up()
        before = self._processes.pop("kube-apiserver")
        before.terminate()
        before.end(within=STOP_WITHIN)

    def start_apiserver(self) -> None:
        """Ends `stop_apiserver`, on the same port and storage; returns when it is ready."""
        self._run("kube-apiserver", find_binaries(), self._apiserver_flags())
        self._wait_until_ready()

    def restart_apiserver(self) -> None:
        """Ends the API server and starts it again on the same port and storage; returns when it is ready."""
        self.stop_apiserver()
        self.start_apiserver()

    def stop(self) -> None:
        """Ends all servers, those of its peers too, and waits for that; a peer ends alone.

        Does nothing when they are stopped, or in a forked child.
        """
        atexit.unregister(self.stop)
        is_owner = os.getpid() == self._owner
        if is_owner and not self._is_peer:
            self._etcd.resume()
        # Those that use etcd end before it does, or they would wait for it.
        _end([self, *self._peers.values()])
        if is_owner and not self._is_peer:
            self._etcd.stop()

    def __enter__(self) -> "ControlPlane":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_apiserver(self, binaries: Commands) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._certify()
        self._run("kube-apiserver", binaries, self._apiserver_flags())

    def _wait_until_ready(self) -> None:
        eventually(self._is_ready, within=_READY_WITHIN)

    def _start_controllers(self, binaries: Commands) -> None:
        if self.controllers:
            self._run("kube-controller-manager", binaries, self._controller_manager_flags())

    def _take_processes(self) -> list[ServerProcess]:
        """Those that are to be ended, and by whom they were started: none in a forked child."""
        self._hang_up()
        taken, self._processes = self._processes, {}
        return list(taken.values()) if os.getpid() == self._owner else []

    def _certify(self) -> None:
        """A certificate on a curve: the API server makes itself one with RSA, which costs it five times as much for each new connection."""
        if openssl := shutil.which("openssl"):  # It will do without.
            self.ca_file.parent.mkdir(exist_ok=True)
            files = ("-keyout", self.ca_file.with_suffix(".key"), "-out", self.ca_file)
            subprocess.run((openssl, "req", "-x509", *_CERTIFICATE, *files), check=True, capture_output=True)

    def _run(self, name: str, binaries: Commands, flags: Flags) -> None:
        self._processes[name] = start_server(binaries[name], flags, self.directory / f"{name}.log")

    def _apiserver_flags(self) -> Flags:
        tokens = "".join(f'{self._tokens[user]},{user},{user},"{groups}"\n' for user, groups in _GROUPS.items())
        return {
            "etcd-servers": self._etcd.url,
            "etcd-prefix": self._prefix,
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self._port),
            "cert-dir": self.ca_file.parent,
            "token-auth-file": self._write("tokens.csv", tokens),
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": self._service_account_key(),
            "service-account-signing-key-file": self._service_account_key(),
            "service-cluster-ip-range": "10.0.0.0/16",
            "allow-privileged": "true",
            # Without the controller that makes service accounts it would refuse every pod.
            "disable-admission-plugins": "ServiceAccount",
            "audit-policy-file": self._write("audit-policy.json", json.dumps(_AUDIT_POLICY)),
            "audit-log-path": self.audit_log,
            "audit-log-mode": "blocking",
            "audit-log-maxsize": "1000000",  # MB: a rotation would break the offsets that `AuditLog` gives out.
        }

    def _controller_manager_flags(self) -> Flags:
        kubeconfig = self._kubeconfig("controller-manager", self._tokens[_CONTROLLER_MANAGER])
        return {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "service-account-private-key-file": self._service_account_key(),
            "root-ca-file": self.ca_file,
            "use-service-account-credentials": "true",
            "controllers": ",".join(self.controllers),
            "leader-elect": "false",
            "secure-port": "0",
        }

    def _is_ready(self) -> bool:
        self.check()
        try:
            answer = self.request("GET", "/readyz")
        except (OSError, http.client.HTTPException):
            return False
        assert answer.code == http.client.OK, answer.body
        return True

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPSConnection]:
        """One that nobody uses meanwhile; kept, because a handshake costs six times what a request does."""
        since, connection = self._idle.pop() if self._idle else (0.0, None)
        if connection is None or time.monotonic() - since > _IDLE:
            if connection:
                connection.close()
            # Not urllib: a proxy from the environment must not see this.
            context = ssl.create_default_context(cafile=self.ca_file)
            connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=context, timeout=60)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.append((time.monotonic(), connection))

    def _hang_up(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()

    def _kubeconfig(self, name: str, token: str) -> Path:
        authority = base64.b64encode(self.ca_file.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        return self._write(f"kubeconfig-{name}", json.dumps(config, indent=2))

    def _service_account_key(self) -> Path:
        file = self.directory / "service-account.key"
        return file if file.exists() else self._write(file.name, _private_key())

    def _write(self, name: str, text: str) -> Path:
        file = self.directory / name
        file.touch(mode=0o600)
        file.write_text(text)
        return file


def _launch(servers: Sequence[ControlPlane], binaries: Commands) -> None:
    """Start all API servers before the first is waited for."""
    for server in servers:
        server._start_apiserver(binaries)
    for server in servers:
        server._wait_until_ready()
        server._start_controllers(binaries)


def _end(servers: Sequence[ControlPlane]) -> None:
    """End their servers side by side, but for etcd."""
    processes = [process for server in servers for process in server._take_processes()]
    for process in processes:
        process.terminate()
    for process in processes:
        process.end(within=STOP_WITHIN)


def _private_key() -> str:
    """A new P-256 private key in PEM (RFC 5915), by hand: the standard library has no tool for it."""
    scalar = b"\0" + secrets.token_bytes(31)  # Surely less than the order of the curve.
    curve = bytes.fromhex("a00a06082a8648ce3d030107")
    body = b"\x02\x01\x01" + b"\x04\x20" + scalar + curve
    content = base64.b64encode(b"\x30" + bytes([len(body)]) + body).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{content}\n-----END EC PRIVATE KEY-----\n"
