"""The API server of one scenario: a namespace of its own on the real server or on the sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.http_api import ServedApi
from tests.support.cluster.kubectl import Kubectl

Ask: TypeAlias = Callable[[str, str, object], int]
"""Method, path and body of a request to its status: for what is prepared and put away, where a process of kubectl would show nothing."""


@dataclass(frozen=True)
class ScenarioServer:
    """The server of one scenario, with a namespace of its own. The sandbox has no audit log."""

    namespace: str
    kubeconfig: Path
    kubectl: Kubectl
    audit: AuditLog | None
    ask: Ask


def of_real(server: ControlPlane) -> Ask:
    """Return the requests to the real server."""
    return lambda method, path, body: server.request(method, path, body).code


def of_sandbox(api: ServedApi) -> Ask:
    """Return the requests to a sandbox over HTTP."""

    def ask(method: str, path: str, body: object) -> int:
        with closing(api.connect()) as connection:  # A kept one would be closed after a while.
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            return connection.getresponse().status

    return ask


def new_namespace(ask: Ask) -> str:
    """Create a namespace, and return its name."""
    name = f"t-{uuid4().hex[:8]}"
    assert ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}) == 201
    return name
