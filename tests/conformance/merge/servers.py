"""The same writes on the real API server and on the engine, and what came of them."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol
from urllib.parse import urlencode

from applier.sandbox.merge import ApplyConflicts, NotTyped, Type, Writer, apply, keep_times, track_update
from applier.sandbox.patches import merge_patch
from renderer.schema import apply_defaults, validate
from tests.controlplane.server import ControlPlane

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Write:
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


class Server(Protocol):
    def write(self, write: Write) -> Outcome: ...

    def live(self) -> Json | None: ...


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
        return response.status, json.loads(response.read())


class Real:
    """One object on the real API server."""

    def __init__(self, connection: Connection, path: str, name: str) -> None:
        self._collection, self._path = path, f"{path}/{name}"
        self._request = connection.request
        self._version = ""

    def write(self, write: Write) -> Outcome:
        before = self._version
        code, body = self._send(write)
        if code >= 300:
            details = body.get("details") or {}
            causes = frozenset((each.get("field", ""), each["message"]) for each in details.get("causes") or ())
            return Outcome(code, body.get("reason", ""), causes, body["message"])
        live = self.live()
        self._version = live["metadata"]["resourceVersion"] if live else ""
        return Outcome(code, changed=self._version != before)

    def _send(self, write: Write) -> tuple[int, Json]:
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


@dataclass(frozen=True, slots=True)
class Kind:
    """What the engine must know of a kind; `schema` validates and defaults a custom one."""

    type: Type
    version: str
    schema: Mapping[str, Any] | None = None
    has_status: bool = False


class Engine:
    """One object that only the engine writes: the least of a server around it."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._live: Json | None = None
        self._time = 0

    def live(self) -> Json | None:
        return self._live

    def write(self, write: Write) -> Outcome:
        self._time += 1
        before = self._live
        try:
            after = self._after(write)
        except ApplyConflicts as error:
            causes = frozenset((each.field, each.message) for each in error.conflicts)
            return Outcome(409, "Conflict", causes, str(error))
        except NotTyped as error:
            return Outcome(500, message=str(error))
        except LookupError:
            return Outcome(404, "NotFound")
        if after is not None:
            if write.verb == "apply" and self._kind.schema and _has_null(self._kind.schema, after):
                return Outcome(422, "Invalid")  # What is applied is not read as a request is: no null is dropped.
            after = self._completed(after, write)
            if self._kind.schema and validate(
                self._kind.schema, {name: after[name] for name in after if name == "spec"}
            ):
                return Outcome(422, "Invalid")
        if before is not None and after is not None:
            after = keep_times(before, after)
        self._live = after
        return Outcome(201 if before is None else 200, changed=before != after)

    def _after(self, write: Write) -> Json | None:
        live = self._live
        writer = Writer(
            write.manager,
            self._kind.type,
            self._kind.version,
            f"2030-01-01T00:{self._time // 60:02}:{self._time % 60:02}Z",
            write.subresource,
            self._reset(write.subresource),
        )
        match write.verb:
            case "delete":
                if live is None:
                    raise LookupError
                return None
            case "apply":
                if live is None and write.subresource:
                    raise LookupError
                assert write.body is not None
                return apply(live, write.body, writer, force=write.force)
            case "patch":
                if live is None:
                    raise LookupError
                return track_update(live, self._decoded(merge_patch(live, write.body)), writer)
            case _:
                assert write.body is not None
                if live is None and write.subresource:
                    raise LookupError
                return track_update(live, self._decoded(write.body), writer)

    def _reset(self, subresource: str) -> frozenset[tuple[str, ...]]:
        if not self._kind.has_status:
            return frozenset()
        return frozenset({("metadata",), ("spec",)}) if subresource else frozenset({("status",)})

    def _decoded(self, obj: Json) -> Json:
        """What comes from a request, as the server reads it; empty metadata is no metadata."""
        obj = {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if value not in ({}, [], None)}}
        return apply_defaults(self._kind.schema, obj) if self._kind.schema else obj

    def _completed(self, obj: Json, write: Write) -> Json:
        """What is stored: defaulted, and with only those parts changed that this resource may change."""
        out = self._decoded(obj)
        if not self._kind.has_status:
            return out
        before = self._live or {}
        kept = ["status"] if not write.subresource else [name for name in {**before, **out} if name != "status"]
        for name in kept:
            if name == "metadata":
                entries = out["metadata"].get("managedFields")
                out = {**out, "metadata": {**before["metadata"], "managedFields": entries}}
            elif name in before:
                out = {**out, name: before[name]}
            else:
                out = {key: value for key, value in out.items() if key != name}
        return out


def _has_null(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether there is a null where the schema neither allows one nor has a default for it."""
    if value is None:
        return not schema.get("nullable") and "default" not in schema and bool(schema.get("type"))
    if isinstance(value, list):
        return any(_has_null(schema.get("items", {}), item) for item in value)
    if isinstance(value, dict):
        fields, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
        return any(_has_null(fields.get(name, rest), member) for name, member in value.items())
    return False


_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace", "name")


def content(obj: Json | None) -> Json | None:
    """An object without what each server makes up for itself, and without ownership."""
    if obj is None:
        return None
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVERS_OWN}
    return {**obj, "metadata": metadata}


def ownership(obj: Json | None) -> dict[tuple[str, ...], Any]:
    """Who owns what; times are left out, and with them the order, which follows from times."""
    entries = ((obj or {}).get("metadata") or {}).get("managedFields") or []
    return {
        (each.get("manager", ""), each["operation"], each["apiVersion"], each.get("subresource", "")): each["fieldsV1"]
        for each in entries
    }


def comparable(outcome: Outcome) -> Outcome:
    """Without what a validation says in detail, which is not the engine's."""
    return replace(outcome, causes=frozenset(), message="") if outcome.code == 422 else replace(outcome, message="")
