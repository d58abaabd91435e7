"""What a source's ConfigMap says beyond its ApplySet keys: the commit, the state, and the scope of every instance.

The scopes outlive the instances' own objects, so that a set is found again when somebody deleted its parent by hand. Data is text; a record that
cannot be read counts as empty, because everything in it can be found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from applier.applyset.inventory import TOOL, Scope
from applier.cluster import Object, Reader
from applier.state.observed import annotation, label
from gitops.records.left_behind import LeftBehind
from gitops.records.stored_json import dump_json, load_json, load_mapping
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, SOURCE_PREFIX, GroupKind, ObjectKey, source_parent

MIN_COMMIT_CHARACTERS: Final = 7
"""So many characters of a commit's id are needed to approve it."""

MAX_DATA_BYTES: Final = 1 << 20
"""Bytes that the API server takes as the data of one ConfigMap."""

MAX_SCOPES_BYTES: Final = 832 * 1024
"""Bytes of them for the scopes of instances: those of 50,000 whose names have 14 characters. The rest is for what waits, and for passes."""

MAX_LISTED_OBJECTS: Final = 100
"""Objects that a record tells of those that a source wants and another set has."""

_CONFIG_MAP: Final = GroupKind("", "ConfigMap")
_WITHOUT_COMMIT_SELECTOR: Final = f"{well_known.MANAGED_BY}={TOOL},!{well_known.PARENT_ID}"

_SCOPES_TOO_LARGE: Final = (
    "its record cannot hold where the members of its {number} instances are: that takes {size} bytes, and the limit is "
    f"{MAX_SCOPES_BYTES}; nothing is lost, but an instance that is deleted by hand remains until it is recorded; "
    "divide the source into several, by `path`"
)


class UnreadableSource(NamedTuple):
    """A source that cannot be read from Git: since when (RFC 3339), and what Git said last. It stands in an annotation of the record, since it is
    told where no pass is run."""

    since: str
    why: str

    @classmethod
    def from_record(cls, parent: Object) -> UnreadableSource | None:
        """As the record tells it; None where the source can be read."""
        stored = load_mapping(annotation(parent, well_known.UNREADABLE))
        return cls(str(stored.get("since", "")), str(stored["why"])) if stored.get("why") else None

    def encode(self) -> str:
        """As stored."""
        return dump_json(self._asdict())


class InstanceScopes(Mapping[ObjectKey, Scope]):
    """Scopes by instance. There may be thousands: the text that stores them is read, or made, only where somebody asks for the other form.

    Nearly all instances of a kind have the same one, so the text tells each scope once, with the names of those that have it:
    `[{"kinds": [...], "namespaces": [...], "of": {"kro.run/WebApp": {"prod": ["cart", "shop"]}}}]`.
    """

    def __init__(self, scopes_or_text: Mapping[ObjectKey, Scope] | str = "") -> None:
        self._parsed: Mapping[ObjectKey, Scope] | None = None if isinstance(scopes_or_text, str) else scopes_or_text
        self._text: str | None = scopes_or_text if isinstance(scopes_or_text, str) else None

    @property
    def text(self) -> str:
        """As stored; equal scopes give equal text."""
        if self._text is None:
            rows = map(_scope_row, _group_by_scope(self).items())
            self._text = dump_json(sorted(rows, key=lambda row: (row["kinds"], row["namespaces"])))
        return self._text

    @property
    def overflow_message(self) -> str:
        """Why a record cannot hold them; empty where it can."""
        size = len(self.text.encode())
        return "" if size <= MAX_SCOPES_BYTES else _SCOPES_TOO_LARGE.format(number=len(self), size=size)

    @property
    def _parse_scopes(self) -> Mapping[ObjectKey, Scope]:
        if self._parsed is None:
            self._parsed = dict(_parse_scopes(_parse_rows(self._text or "")))
        return self._parsed

    def __getitem__(self, key: ObjectKey) -> Scope:
        return self._parse_scopes[key]

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._parse_scopes)

    def __len__(self) -> int:
        return len(self._parse_scopes)


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """`applied` is the newest commit that everything was brought to, `own` the newest to which the source's own objects were, whatever instances
    wait for; `target` is the commit being worked on since `since` (RFC 3339), `offered` a newer one that waits for a person's word, `version`
    the tag that `target` was taken by, where a range of versions is followed.

    `causes` are rows (`causes.py`) of what waits or fails outside instances, the worst first; `claims` is what it or its instances want and another
    set has, `leaves` what Git no longer wants of them and is still there, each at most `MAX_LISTED_OBJECTS`;
    `requests` tells since when people ask something of the source or of a plain object of it, by the object: `{"hold": {"said": ..., "since": ...}}`.
    `passes` is the text of `passes.py`, `synced`
    the last request to look now that was answered, `unpinned` the commit that it was at when somebody pinned it to
    another. It `is_prune_disabled` everything
    where it deletes nothing (`prune: false`). `kinds` are those of the members of its set, by the inventory. `left_behind` are
    members of it and of its instances that the last search found without their label.
    """

    url: str = ""
    path: str = ""
    ref: str = ""
    target: str = ""
    offered: str = ""
    applied: str = ""
    own_objects_commit: str = ""
    since: str = ""
    state: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    causes: tuple[Mapping[str, Any], ...] = ()
    scopes: InstanceScopes = field(default_factory=InstanceScopes)
    requests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    passes: str = ""
    claims: tuple[ObjectKey, ...] = ()
    prune_candidates: tuple[ObjectKey, ...] = ()
    synced: str = ""
    commit_before_pin: str = ""
    version: str = ""
    is_prune_disabled: bool = False
    unreadable: UnreadableSource | None = None
    kinds: tuple[str, ...] = ()
    left_behind: LeftBehind = LeftBehind()

    @classmethod
    def from_object(cls, parent: Object) -> SourceRecord:
        data = parent.get("data") or {}
        return cls(
            url=data.get("url", ""),
            path=data.get("path", ""),
            ref=data.get("ref", ""),
            target=data.get("target", ""),
            offered=data.get("offered", ""),
            applied=data.get("applied", ""),
            own_objects_commit=data.get("own", ""),
            since=data.get("since", ""),
            state=data.get("state", ""),
            counts=load_mapping(data.get("counts", "")),
            causes=causes_of(parent),
            scopes=InstanceScopes(data.get("instances", "")),
            requests=requests_of(parent),
            passes=data.get("passes", ""),
            claims=_parse_keys(data.get("claims", "")),
            prune_candidates=_parse_keys(data.get("leaves", "")),
            synced=data.get("synced", ""),
            commit_before_pin=data.get("unpinned", ""),
            version=data.get("version", ""),
            is_prune_disabled=bool(data.get("keeps")),
            unreadable=UnreadableSource.from_record(parent),
            kinds=tuple(filter(None, annotation(parent, well_known.GROUP_KINDS).split(","))),
            left_behind=LeftBehind.from_json(load_mapping(data.get("leftBehind", ""))),
        )

    def data(self) -> dict[str, str]:
        """As stored; equal records give equal text. `unreadable` and `kinds` stand beside it."""
        return {
            "url": self.url,
            "path": self.path,
            "ref": self.ref,
            "target": self.target,
            "offered": self.offered,
            "applied": self.applied,
            "own": self.own_objects_commit,
            "since": self.since,
            "state": self.state,
            "counts": dump_json(self.counts),
            "causes": dump_json(self.causes),
            "asked": dump_json(self.requests) if self.requests else "",
            "passes": self.passes,
            "claims": "\n".join(map(str, self.claims)),
            "leaves": "\n".join(map(str, self.prune_candidates)),
            "synced": self.synced,
            "unpinned": self.commit_before_pin,
            "version": self.version,
            "keeps": "true" if self.is_prune_disabled else "",
            "instances": self.scopes.text,
            **({"leftBehind": dump_json(self.left_behind.to_json())} if self.left_behind != LeftBehind() else {}),
        }

    @property
    def passes_budget_bytes(self) -> int:
        """Bytes that are left for passes."""
        return MAX_DATA_BYTES - sum(len(text.encode()) for name, text in self.data().items() if name != "passes")


def _parse_keys(text: str) -> tuple[ObjectKey, ...]:
    return tuple(filter(None, map(ObjectKey.parse, text.splitlines())))


def causes_of(parent: Object) -> tuple[Mapping[str, Any], ...]:
    """The rows of a record, alone: the scopes in it may be long."""
    return tuple(_parse_rows((parent.get("data") or {}).get("causes", "")))


def requests_of(parent: Object) -> dict[str, Mapping[str, Any]]:
    """What people ask of a source and its plain objects, and since when, by the object; alone, as the scopes may be long."""
    rows = load_mapping((parent.get("data") or {}).get("asked", ""))
    return {key: row for key, row in rows.items() if isinstance(row, dict)}


def is_approval(prefix: str, commit: str) -> bool:
    """Does this annotation of a source approve the commit? By its id, or by at least so much of it that no other can be meant."""
    return len(prefix) >= MIN_COMMIT_CHARACTERS and commit.startswith(prefix.lower())


def is_approved(record: Object | None, commit: str, path: str) -> bool:
    """Has a person approved this commit of the source, as it is read now? What was approved below another path says nothing of this one,
    and where nothing was taken yet there is no other.
    """
    if record is None or not is_approval(annotation(record, well_known.APPROVED_COMMIT), commit):
        return False
    previous = SourceRecord.from_object(record)
    return not previous.target or previous.path == path


async def read_own_configmaps(cluster: Reader) -> list[Object]:
    """All ConfigMaps of our namespace: records of sources and rollouts, and the calendar."""
    return await cluster.list(_CONFIG_MAP, OWN_NAMESPACE)


async def read_records(cluster: Reader) -> list[tuple[str, SourceRecord]]:
    """The sources that this cluster knows, by name."""
    return list(source_records(await cluster.list(_CONFIG_MAP, OWN_NAMESPACE, selector=well_known.PARENT_ID)).items())


def source_records(configmaps: Iterable[Object]) -> dict[str, SourceRecord]:
    """The same, by name, among these ConfigMaps of our namespace."""
    parents = _source_parents(configmaps)
    return {name: SourceRecord.from_object(parents[name]) for name in sorted(parents)}


async def read_records_without_commit(cluster: Reader) -> dict[str, SourceRecord]:
    """Sources of which nothing was ever written, by name: they could not be read, or wait for others."""
    configmaps = await cluster.list(_CONFIG_MAP, OWN_NAMESPACE, selector=_WITHOUT_COMMIT_SELECTOR)
    return {obj["metadata"]["name"].removeprefix(SOURCE_PREFIX): SourceRecord.from_object(obj) for obj in configmaps}


async def read_source_names(cluster: Reader) -> list[str]:
    """Sources that have an object here which tells of them, whether anything was written of them or not."""
    configmaps = await cluster.list(_CONFIG_MAP, OWN_NAMESPACE, metadata_only=True)
    names = sorted(obj["metadata"]["name"] for obj in configmaps)
    return [name.removeprefix(SOURCE_PREFIX) for name in names if name.startswith(SOURCE_PREFIX)]


def initial_source_body(source: str) -> Object:
    """The object that tells of a source before it has an inventory."""
    key = source_parent(source)
    metadata = {"name": key.name, "namespace": key.namespace, "labels": {well_known.MANAGED_BY: TOOL}}
    return {"apiVersion": "v1", "kind": key.kind, "metadata": metadata}


async def read_names_by_set_id(cluster: Reader) -> dict[str, str]:
    """The same sources, by the ids of their sets."""
    configmaps = await cluster.list(_CONFIG_MAP, OWN_NAMESPACE, selector=well_known.PARENT_ID, metadata_only=True)
    return {label(obj, well_known.PARENT_ID): name for name, obj in _source_parents(configmaps).items()}


def _source_parents(configmaps: Iterable[Object]) -> dict[str, Object]:
    own_parents = (
        obj
        for obj in configmaps
        if label(obj, well_known.PARENT_ID) and annotation(obj, well_known.TOOLING).startswith(f"{TOOL}/")
    )
    return {obj["metadata"]["name"].removeprefix(SOURCE_PREFIX): obj for obj in own_parents}


def _parse_rows(text: str) -> Iterator[Mapping[str, Any]]:
    value = load_json(text)
    return (row for row in (value if isinstance(value, list) else ()) if isinstance(row, dict))


def _group_by_scope(scopes: Mapping[ObjectKey, Scope]) -> Mapping[Scope, list[ObjectKey]]:
    keys_by_scope: dict[Scope, list[ObjectKey]] = {}
    for key, scope in scopes.items():
        keys_by_scope.setdefault(scope, []).append(key)
    return keys_by_scope


def _scope_row(scope_instances: tuple[Scope, Iterable[ObjectKey]]) -> dict[str, Any]:
    """A scope with the names of those that have it, by kind and namespace."""
    scope, instances = scope_instances
    names_by_kind: dict[str, dict[str, list[str]]] = {}
    for key in sorted(instances):
        names_by_kind.setdefault(f"{key.group}/{key.kind}", {}).setdefault(key.namespace, []).append(key.name)
    return {"kinds": sorted(map(str, scope.kinds)), "namespaces": sorted(scope.namespaces), "of": names_by_kind}


def _parse_scopes(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[ObjectKey, Scope]]:
    """Scopes by instance; what cannot be read of them is left out, since everything in a record can be found again."""
    for row in rows:
        match row:
            case {"kinds": list(kinds), "namespaces": list(namespaces), "of": dict(of)}:
                scope = Scope(frozenset(map(GroupKind.parse, map(str, kinds))), frozenset(map(str, namespaces)))
                yield from ((key, scope) for key in _parse_instance_keys(of))


def _parse_instance_keys(names_by_kind: Mapping[str, Any]) -> Iterator[ObjectKey]:
    for kind, names_by_namespace in names_by_kind.items():
        match kind.split("/"), names_by_namespace:
            case [group, name], dict():
                yield from (
                    ObjectKey(group, name, namespace, instance)
                    for namespace, names in names_by_namespace.items()
                    for instance in (names if isinstance(names, list) else ())
                    if isinstance(instance, str)
                )
