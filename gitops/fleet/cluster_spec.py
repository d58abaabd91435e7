"""A `Cluster` object in Git as a value, and the reader of such objects.

Invariants:

- The reader accepts a `Cluster` completely or not at all.
- The reader reports all mistakes in a `Cluster` together, each with its line.
- No message repeats a value that could be a credential, because people paste credentials into the wrong field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from applier.cluster import DNS_LABEL, LOCAL_CLUSTER, ClusterName, parse_cluster_name
from applier.token_bucket import Rate
from gitops.durations import format_duration, parse_duration
from gitops.windows.problem_collector import FieldProblems
from renderer import schema
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import Manifest
from renderer.kinds import OWN_API_VERSION
from renderer.label_selector import LabelSelector, SelectorError
from renderer.schema.validation import enum_form, object_form

PAUSED_MESSAGE: Final = "paused in Git; Levelgate reads and writes nothing in the cluster"
"""Message of a paused cluster, in its record, in logs and in reports."""


class OnRemove(StrEnum):
    """Fate of the deployed objects in a cluster that Git no longer declares."""

    ORPHAN = "Orphan"
    DELETE = "Delete"

    @property
    def outcome(self) -> str:
        """Return a clause for messages that tells what happens to the objects."""
        return (
            "the objects deployed there are deleted" if self is OnRemove.DELETE else "the objects deployed there stay"
        )


@dataclass(frozen=True, slots=True)
class SecretAccess:
    """Kubeconfig under a key of a Secret in the hub's own namespace."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Kubeconfig in a file of the operator's directory. The name has no path, so the file is in the directory."""

    name: str


@dataclass(frozen=True, slots=True)
class ProfileAccess:
    """ClusterProfile on the hub.

    Source: KEP-5339.
    """

    name: str


ClusterAccess = SecretAccess | FileAccess | ProfileAccess
"""Place of a cluster's credentials: exactly one of the fields of `spec.access`."""


@dataclass(frozen=True, slots=True)
class ClusterTimeouts:
    """Timeouts of a cluster. If a timeout is None, the default for all clusters applies."""

    request: timedelta | None
    """Silence after which a request fails."""
    unreachable: timedelta | None
    """Silence after which the cluster counts as unreachable."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Declaration of a cluster by a valid `Cluster` object in Git."""

    name: ClusterName
    labels: Mapping[str, str]
    access: ClusterAccess | None
    """Place of the credentials, or None for `local`."""
    namespaces: Mapping[str, str]
    """Namespace in the cluster by namespace in Git."""
    rate: Rate | None
    """Limit on the rate of requests, or None if the declaration sets no limit."""
    is_paused: bool
    timeouts: ClusterTimeouts
    on_remove: OnRemove
    manifest: Manifest
    """Whole `Cluster` object in Git."""
    origin: SourceLocation


MIN_QPS: Final = 1
"""Lowest `qps` in requests per second. At a lower rate, the check of a cluster's identity would time out."""

MAX_QPS: Final = 10_000
MIN_TIMEOUT: Final = timedelta(seconds=1)
MAX_TIMEOUT: Final = timedelta(minutes=5)
"""Longest timeout. The value equals the time limit of one complete read."""

_TEXT: Final = {"type": "string", "minLength": 1}
_ANY: Final = {"x-kubernetes-preserve-unknown-fields": True}
SPEC: Final = object_form(
    access=_ANY,
    namespaceMap={"type": "object", "additionalProperties": _TEXT},
    qps={"type": "number", "minimum": MIN_QPS, "maximum": MAX_QPS},
    burst={"type": "integer", "minimum": 1, "maximum": MAX_QPS},
    paused={"type": "boolean"},
    timeouts=object_form(request=_TEXT, unreachable=_TEXT),
    onRemove=enum_form(OnRemove),
)
"""OpenAPI v3 schema of a cluster's `spec`, without `access`.

The reader checks `access` itself, because messages of schema validation repeat values.
"""

_NOT_FOR_LOCAL: Final = (
    f"{LOCAL_CLUSTER} uses Levelgate's own connection, which the other work of the hub shares; remove the field"
)
_ACCESS: Final = object_form(secretRef=_ANY, file=_ANY, profile=_ANY)
_SECRET_REF: Final = object_form("name", "key", name=_ANY, key=_ANY)
_ACCESS_EXAMPLE: Final = "such as secretRef: {name: eu-1, key: value}"
_CREDENTIAL: Final = re.compile(
    r"kubeconfig|config|(bearer-?|access-?)?token|password|username|certificate.*|client-?(cert|key|certificate).*|"
    r"ca-?(cert|data|file)?|(user|auth)(-?provider|info)?|exec|server|insecure.*|credentials?|key|cert",
    re.IGNORECASE,
)
"""Names of kubeconfig fields, and their common misspellings."""

_CREDENTIAL_REFUSED: Final = (
    "credentials are rejected in Git, because many people can read the whole history; put a kubeconfig into a "
    "Secret of the hub, name the Secret in spec.access.secretRef, and replace the exposed credentials"
)
_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_DATA_KEY: Final = re.compile(r"[-._A-Za-z0-9]{1,253}")
_FILE_NAME: Final = re.compile(r"[-._A-Za-z0-9]{1,253}")


def read_cluster(declared: DeclaredObject) -> ClusterSpec | list[Problem]:
    """Return the cluster that a manifest declares, or all mistakes in the manifest."""
    reader = _ClusterReader(declared)
    return reader.value_or_problems(reader.read())


class _ClusterReader(FieldProblems):
    """Reader of one `Cluster`. Every method adds a problem to `problems` for each mistake."""

    def read(self) -> ClusterSpec | None:
        """Return the cluster, or None if the manifest has a mistake."""
        spec = self._read_form()
        name = self._read_name()
        labels = self._read_labels()
        access = self._read_access(spec.get("access"), name)
        namespaces = self._read_namespaces(spec.get("namespaceMap", {}))
        timeouts = self._read_timeouts(spec.get("timeouts", {}))
        rate = self._read_rate(spec)
        if name == LOCAL_CLUSTER:
            self._refuse_for_local(spec)
        if self.problems or name is None:
            return None
        return ClusterSpec(
            name=name,
            labels=labels,
            access=access,
            namespaces=namespaces,
            rate=rate,
            is_paused=spec.get("paused", False),
            timeouts=timeouts,
            on_remove=OnRemove(spec.get("onRemove", OnRemove.ORPHAN)),
            manifest=self.declared.manifest,
            origin=self.declared.origin,
        )

    def _read_form(self) -> dict[str, Any]:
        """Return the spec without the fields that violate the schema, so that the reader can check the rest."""
        manifest = self.declared.manifest
        if manifest["apiVersion"] != OWN_API_VERSION:
            self.add_problem("apiVersion", f"{manifest['apiVersion']!r} is not known; write {OWN_API_VERSION}")
        for name in sorted(manifest.keys() - {"apiVersion", "kind", "metadata", "spec"}):
            refused = _CREDENTIAL_REFUSED if _CREDENTIAL.fullmatch(name) else ""
            self.add_problem(name, refused or f"no field {name!r}; write the fields of the cluster under spec")
        written = manifest.get("spec")
        if not isinstance(written, dict) and written is not None:
            self.add_problem("spec", "must be an object")
        spec = (
            {name: value for name, value in written.items() if value is not None} if isinstance(written, dict) else {}
        )
        for name in [name for name in spec if name not in SPEC["properties"] and _CREDENTIAL.fullmatch(name)]:
            self.add_problem(f"spec.{name}", _CREDENTIAL_REFUSED)
            del spec[name]
        for mistake in schema.validate(SPEC, spec):
            self.add_problem(f"spec.{mistake.path}", mistake.message)
            spec.pop(re.split(r"[.\[]", mistake.path)[0], None)
        return spec

    def _read_name(self) -> ClusterName | None:
        try:
            return parse_cluster_name(self.declared.manifest["metadata"]["name"])
        except ValueError as error:
            self.add_problem("metadata.name", str(error))
            return None

    def _read_labels(self) -> Mapping[str, str]:
        labels = self.declared.manifest["metadata"].get("labels") or {}
        try:
            LabelSelector.from_object({"matchLabels": labels}, "metadata", strict=True)
        except SelectorError as error:
            self.add_problem("metadata.labels", str(error))
        return labels if isinstance(labels, dict) else {}

    def _read_access(self, access: Any, name: ClusterName | None) -> ClusterAccess | None:
        path = "spec.access"
        if name == LOCAL_CLUSTER:
            if access is not None:
                self.add_problem(
                    path, f"{LOCAL_CLUSTER} is the hub's own cluster; remove access, or choose another name"
                )
        elif access is None:
            if not self.has_problem_at(path):
                self.add_problem(path, f"is required and not given; name the credentials, {_ACCESS_EXAMPLE}")
        elif not isinstance(access, dict):
            self.add_problem(path, f"must be an object, {_ACCESS_EXAMPLE}")
        else:
            return self._read_access_fields(path, access)
        return None

    def _read_access_fields(self, path: str, access: Mapping[str, Any]) -> ClusterAccess | None:
        given = self._known_fields(path, _ACCESS, access)
        if len(given) != 1:
            # A misspelled field is reported once, and not a second time as a missing field.
            if given or not access.keys() - _ACCESS["properties"].keys():
                counted = " and ".join(sorted(given)) or "nothing"
                self.add_problem(path, f"has {counted}; give exactly one of secretRef, file and profile")
            return None
        match given:
            case {"secretRef": dict() as reference}:
                return self._read_secret(f"{path}.secretRef", reference)
            case {"secretRef": _}:
                self.add_problem(f"{path}.secretRef", "must be an object, such as {name: eu-1, key: value}")
            case {"file": name}:
                if text := self._plain(f"{path}.file", name, _FILE_NAME, "the plain name of a file"):
                    return FileAccess(text)
            case {"profile": name}:
                if text := self._plain(f"{path}.profile", name, _OBJECT_NAME, "the name of a ClusterProfile"):
                    return ProfileAccess(text)
        return None

    def _refuse_for_local(self, spec: Mapping[str, Any]) -> None:
        """Reject fields without an effect on `local`. The hub always reconciles `local`, declared or not."""
        if spec.get("paused"):
            message = f"{LOCAL_CLUSTER} cannot be paused in Git; run `levelgate suspend --all`, or remove the field"
            self.add_problem("spec.paused", message)
        if "onRemove" in spec:
            message = f"{LOCAL_CLUSTER} cannot be removed; remove the field, and select its objects with placements"
            self.add_problem("spec.onRemove", message)
        for field_name in sorted(spec.keys() & {"qps", "burst", "timeouts"}):
            self.add_problem(f"spec.{field_name}", _NOT_FOR_LOCAL)

    def _read_secret(self, path: str, reference: Mapping[str, Any]) -> SecretAccess | None:
        given = self._known_fields(path, _SECRET_REF, reference)
        for name in ("name", "key"):
            if name not in given and not reference.keys() - {"name", "key"}:
                self.add_problem(f"{path}.{name}", "is required and not given")
        if given.keys() != {"name", "key"}:
            return None
        name = self._plain(f"{path}.name", given["name"], _OBJECT_NAME, "the name of a Secret")
        key = self._plain(f"{path}.key", given["key"], _DATA_KEY, "a key of a Secret")
        return SecretAccess(name, key) if name and key else None

    def _known_fields(self, path: str, form: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of `value` that the schema `form` contains. Report each unknown field without its value."""
        for name in value:
            if name not in form["properties"] and _CREDENTIAL.fullmatch(name):
                self.add_problem(f"{path}.{name}", _CREDENTIAL_REFUSED)
            elif name not in form["properties"]:
                (mistake,) = schema.validate({**form, "required": []}, {name: None})
                self.add_problem(f"{path}.{mistake.path}", mistake.message)
        return {name: item for name, item in value.items() if name in form["properties"] and item is not None}

    def _plain(self, path: str, value: Any, form: re.Pattern[str], what: str) -> str:
        """Return `value` if it is a name that matches `form`, or an empty string.

        For a mismatch, add a problem with the expected kind of name. The problem does not repeat the value.

        Args:
            what: expected kind of name, such as `the name of a Secret`.
        """
        if isinstance(value, str) and form.fullmatch(value) and value not in {".", ".."}:
            return value
        rule = (
            "letters, digits, dots, dashes and underscores, without a path"
            if what.endswith("file")
            else "its name alone"
        )
        self.add_problem(path, f"is not {what}; write {rule}")
        return ""

    def _read_namespaces(self, written: Mapping[str, str]) -> Mapping[str, str]:
        for source, target in written.items():
            for name in (source, target):
                if not DNS_LABEL.fullmatch(name):
                    self.add_problem(
                        f"spec.namespaceMap.{source}",
                        f"{name!r} is not the name of a namespace; write an entry such as shop: shop-eu",
                    )
        return dict(written)

    def _read_rate(self, spec: Mapping[str, Any]) -> Rate | None:
        """Return the rate limit that `qps` and `burst` set, or None if `qps` is not set.

        The default of `burst` is twice `qps`.

        Source: defaults of client-go, where `qps` is 5 and `burst` is 10.
        """
        if "qps" not in spec:
            if "burst" in spec and not self.has_problem_at("spec.qps"):
                self.add_problem("spec.burst", "has no effect without qps; set qps too, or remove burst")
            return None
        per_second = float(spec["qps"])
        return Rate(per_second, int(spec.get("burst", math.ceil(2 * per_second))))

    def _read_timeouts(self, written: Mapping[str, str]) -> ClusterTimeouts:
        found: dict[str, timedelta | None] = dict.fromkeys(("request", "unreachable"))
        for name, text in written.items():
            path = f"spec.timeouts.{name}"
            try:
                duration = parse_duration(text)
            except ValueError as error:
                self.add_problem(path, str(error))
                continue
            found[name] = duration
            if not MIN_TIMEOUT <= duration <= MAX_TIMEOUT:
                bounds = f"{format_duration(MIN_TIMEOUT)} to {format_duration(MAX_TIMEOUT)}"
                self.add_problem(
                    path, f"{text} is not within {bounds}; write a duration such as 30s, or remove the field"
                )
        return ClusterTimeouts(**found)
