"""The same writes on the real API server and on the sandbox, and what came of them."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlencode

from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request
from tests.support.cluster.control_plane import ControlPlane

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MergeWrite:
    """One write to the one object: `body` is an intent, a whole object or a JSON merge patch."""

    verb: Literal["apply", "update", "patch", "delete"]
    manager: str = "m1"
    body: Json | None = None
    force: bool = False
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client sees; `changed` if the write was stored."""

    code: int
    reason: str = ""
    causes: frozenset[tuple[str, str]] = frozenset()
    message: str = ""
    changed: bool = False


class Connection:
    """Requests to the real API server over one connection."""

    def __init__(self, server: ControlPlane) -> None:
        self._token = server.token("other")
        context = ssl.create_default_context(cafile=server.ca_file)
        host, _, port = server.url.removeprefix("https://").partition(":")
        self._connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=60)

    def close(self) -> None:
        self._connection.close()

    def request(
        self, method: str, path: str, body: Json | None = None, content_type: str = "application/json"
    ) -> tuple[int, Json]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = self._connection.getresponse()
        return response.status, _parsed(response.read())


def _parsed(body: bytes) -> Json:
    try:
        found: Json = json.loads(body)
        return found
    except ValueError:
        return {"message": body.decode()}


class InProcess:
    """Requests to a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def request(
        self, method: str, path: str, body: Json | None = None, content_type: str = "application/json"
    ) -> tuple[int, Json]:
        sent = b"" if body is None else json.dumps(body).encode()
        response = self._sandbox.handle(Request(method, path, {"content-type": content_type}, sent))
        return response.status, _parsed(response.body)


class OneObject:
    """One object on a server."""

    def __init__(self, server: Connection | InProcess, path: str, name: str) -> None:
        self.server, self.name = server, name
        self._collection, self._path = path, f"{path}/{name}"
        self._request = server.request
        self._version = ""

    def write(self, write: MergeWrite) -> Outcome:
        before = self._version
        code, body = self._send(write)
        if code >= 300:
            details = body.get("details") or {}
            causes = frozenset((each.get("field", ""), each["message"]) for each in details.get("causes") or ())
            return Outcome(code, body.get("reason", ""), causes, body["message"])
        live = self.live()
        self._version = live["metadata"]["resourceVersion"] if live else ""
        return Outcome(code, changed=self._version != before)

    def _send(self, write: MergeWrite) -> tuple[int, Json]:
        query = {"fieldManager": write.manager}
        path = f"{self._path}/{write.subresource}" if write.subresource else self._path
        match write.verb:
            case "apply":
                query["force"] = str(write.force).lower()
                return self._request("PATCH", f"{path}?{urlencode(query)}", write.body, "application/apply-patch+yaml")
            case "patch":
                return self._request("PATCH", f"{path}?{urlencode(query)}", write.body, "application/merge-patch+json")
            case "delete":
                return self._request("DELETE", path)
            case _:
                assert write.body is not None
                if not self._version:
                    return self._request("POST", f"{self._collection}?{urlencode(query)}", write.body)
                body = {**write.body, "metadata": {**write.body["metadata"], "resourceVersion": self._version}}
                return self._request("PUT", f"{path}?{urlencode(query)}", body)

    def live(self) -> Json | None:
        code, body = self._request("GET", self._path)
        return body if code == 200 else None


_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace", "name")


_MADE_UP = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def content(obj: Json | None) -> Json | None:
    """An object without what each server makes up for itself, and without ownership.

    The addresses of a Service are made up, too; empty structures of built-in kinds say nothing.
    """
    if obj is None:
        return None
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVERS_OWN}
    out = {**obj, "metadata": metadata}
    return out if "." in obj["apiVersion"] else _said(out)


def _said(value: Any) -> Any:
    match value:
        case dict():
            said = {name: _said(member) for name, member in value.items() if name not in _MADE_UP}
            return {name: member for name, member in said.items() if member != {}}
        case list():
            return [_said(item) for item in value]
        case _:
            return value


def ownership(obj: Json | None) -> dict[tuple[str, ...], Any]:
    """Who owns what; times are left out, and with them the order, which follows from times."""
    entries = ((obj or {}).get("metadata") or {}).get("managedFields") or []
    return {
        (each.get("manager", ""), each["operation"], each["apiVersion"], each.get("subresource", "")): _chosen(
            each["fieldsV1"]
        )
        for each in entries
    }


def _chosen(fields: Json) -> Json:
    """Without the addresses of a Service; the real server chooses them after it has noted who owns what."""
    spec = {key: node for key, node in fields.get("f:spec", {}).items() if key[2:] not in _MADE_UP}
    return {**fields, "f:spec": spec} if spec else fields


def comparable(outcome: Outcome) -> Outcome:
    """Without what the real server words differently from time to time (several faults, in any order), and without what
    a validation says in detail, which is not about merging.
    """
    match outcome.code:
        case 409:
            return outcome
        case 500 if "\n" not in outcome.message:
            return outcome
        case 422:
            return replace(outcome, causes=frozenset(), message="")
        case _:
            return replace(outcome, message="")
