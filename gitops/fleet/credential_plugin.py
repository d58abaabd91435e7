"""Credentials that a program of the operator returns, for clusters that a ClusterProfile describes.

Invariants:

- Only `levelgate.yaml` decides the program, the arguments and the variables. A ClusterProfile only names the server.
- Levelgate limits the running time and the size of the output of the program. Error messages do not repeat the output.
- When the program ends, Levelgate also ends its child processes.

Sources: KEP-541 (credential plugins), KEP-5339 (plugins for ClusterProfiles).
"""

from __future__ import annotations

import asyncio
import os
import signal
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from typing import Any, Final

import orjson

from gitops.fleet.kubeconfig_check import AccessRefused
from gitops.timestamps import parse_timestamp
from renderer.frozen import dataclass

MAX_RUN_SECONDS: Final = 30.0
MAX_OUTPUT_BYTES: Final = 256 * 1024

EXEC_API_VERSION: Final = "client.authentication.k8s.io/v1"
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Name of the cluster extension that the program receives as its `config`. Source: client-go."""


@dataclass(frozen=True, slots=True)
class CredentialPlugin:
    """Program of the operator that returns credentials."""

    name: str
    """Name of the access provider in a ClusterProfile, such as `google`."""
    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    """Variables for the program, in addition to the variables of Levelgate."""


@dataclass(frozen=True, slots=True)
class PluginCredentials:
    """Credentials as fields of a kubeconfig's user."""

    user: Mapping[str, str] = field(repr=False)
    expires_at: datetime | None
    """Time in UTC at which the credentials expire, or None if the program has returned no such time."""


async def run_plugin(
    plugin: CredentialPlugin, cluster: Mapping[str, Any], *, max_seconds: float = MAX_RUN_SECONDS
) -> PluginCredentials:
    """Run the program of `plugin`, and return credentials.

    Args:
        cluster: fields of a kubeconfig's cluster.

    Raises: AccessRefused if the program cannot start, fails, runs too long, or returns no credentials.
    """
    information = orjson.dumps(_exec_credential(cluster)).decode()
    environment = {**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": information}
    title = f"credential plugin {plugin.name} ({plugin.command})"
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a zero byte in its arguments"
        raise AccessRefused(f"{title} cannot be started: {reason}; correct fleet.plugins in levelgate.yaml") from None
    try:
        async with asyncio.timeout(max_seconds):
            output = await _read_output(process, title)
            code = await process.wait()
    except TimeoutError:
        raise AccessRefused(
            f"{title} did not end within {max_seconds:g} s; run the program by hand to see the cause"
        ) from None
    finally:
        await _end(process)
    if code:
        raise AccessRefused(f"{title} ended with exit code {code}; run the program by hand to see the cause")
    return _parse_output(output, title)


async def _read_output(process: asyncio.subprocess.Process, title: str) -> bytes:
    assert process.stdout
    output = b""
    while part := await process.stdout.read(MAX_OUTPUT_BYTES):
        output += part
        if len(output) > MAX_OUTPUT_BYTES:
            raise AccessRefused(
                f"{title} wrote more than {MAX_OUTPUT_BYTES:,} bytes; run the program by hand to see the cause"
            )
    return output


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the program and all its child processes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # A child process that left the process group may still hold the pipe. Without a close, the pipe would stay open.
    process._transport.close()  # type: ignore[attr-defined]
    await process.wait()


def _exec_credential(cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ExecCredential that the program receives in `KUBERNETES_EXEC_INFO`."""
    fields = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
    described = {name: cluster[name] for name in fields if cluster.get(name)}
    extensions = cluster.get("extensions")
    config = [
        extension.get("extension")
        for extension in (extensions if isinstance(extensions, list) else [])
        if isinstance(extension, dict) and extension.get("name") == EXEC_EXTENSION
    ]
    if config:
        described["config"] = config[-1]
    spec = {"interactive": False, "cluster": described}
    return {"apiVersion": EXEC_API_VERSION, "kind": "ExecCredential", "spec": spec}


def _parse_output(output: bytes, title: str) -> PluginCredentials:
    try:
        answer = orjson.loads(output)
    except orjson.JSONDecodeError:
        answer = None
    if (
        not isinstance(answer, dict)
        or answer.get("kind") != "ExecCredential"
        or answer.get("apiVersion") != EXEC_API_VERSION
    ):
        raise AccessRefused(
            f"{title} did not write an ExecCredential of {EXEC_API_VERSION}; run the program by hand to see the cause"
        )
    status = answer.get("status")
    if not isinstance(status, dict):
        raise AccessRefused(f"{title} gave no credentials; run the program by hand to see the cause")
    user = {"token": status.get("token")} if status.get("token") else _certificate(status)
    if not user or not all(isinstance(value, str) for value in user.values()):
        raise AccessRefused(
            f"{title} gave neither a token nor a client certificate with its key; "
            "run the program by hand to see the cause"
        )
    expires_at = status.get("expirationTimestamp")
    return PluginCredentials(user, parse_timestamp(expires_at) if expires_at else None)  # type: ignore[arg-type]


def _certificate(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client certificate and its key as kubeconfig fields, in base64. If either is missing, return {}."""
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not isinstance(certificate, str) or not isinstance(key, str):
        return {}
    return {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
