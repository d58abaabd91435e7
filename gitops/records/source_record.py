"""Record of a source: the data of its ConfigMap, such as commits, state and the scopes of instances.

The scope of an instance holds the kinds and namespaces of the members of its set. The record of the source stores the
scope too. So Levelgate finds the members even after a person has deleted the object of the instance. Unreadable parts
of a record count as empty, because a full reconciliation finds everything again.
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
"""Minimum number of characters of a commit's id in an approval or a pin."""

MAX_DATA_BYTES: Final = 1 << 20
"""Largest size in bytes that the API server accepts for the data of one ConfigMap."""

MAX_SCOPES_BYTES: Final = 832 * 1024
"""Limit in bytes of UTF-8 for the scopes in a record. The scopes of 50,000 instances with names of 14 characters fit.

The remaining bytes of `MAX_DATA_BYTES` are for causes and history.
"""

MAX_LISTED_OBJECTS: Final = 100
"""Largest number of objects that a record lists in `claims`, and in `prune_candidates`."""

_CONFIG_MAP: Final = GroupKind("", "ConfigMap")
_WITHOUT_COMMIT_SELECTOR: Final = f"{well_known.MANAGED_BY}={TOOL},!{well_known.PARENT_ID}"

_SCOPES_TOO_LARGE: Final = (
    "the record of the source cannot hold the scopes of {number} instances: the scopes take {size} bytes, and the "
    f"limit is {MAX_SCOPES_BYTES}; nothing is lost, but if a person deletes an instance, its members remain until the "
    "record holds the scope; divide the source into several sources by `path`"
)


class UnreadableSource(NamedTuple):
    """Failure to read a source from Git.

    An annotation stores the failure, because the fetcher writes the failure without a reconciliation.
    """

    since: str
    """Time of the first failure in UTC, RFC 3339."""
    why: str
    """Message of the last error from Git."""

    @classmethod
    def from_record(cls, parent: Object) -> UnreadableSource | None:
        """Return the failure stored on the ConfigMap `parent`, or None if the source can be read."""
        stored = load_mapping(annotation(parent, well_known.UNREADABLE))
        return cls(str(stored.get("since", "")), str(stored["why"])) if stored.get("why") else None

    def encode(self) -> str:
        """Return the value of the annotation that stores the failure."""
        return dump_json(self._asdict())


class InstanceScopes(Mapping[ObjectKey, Scope]):
    """Scope of each instance of a source.

    A source may have thousands of instances. So the object parses the stored text, and encodes the scopes, only on
    demand. Nearly all instances of a kind share a scope. So the text contains each scope once, with the names of the
    instances: `[{"kinds": [...], "namespaces": [...], "of": {"kro.run/WebApp": {"prod": ["cart", "shop"]}}}]`.
    """

    def __init__(self, scopes_or_text: Mapping[ObjectKey, Scope] | str = "") -> None:
        self._parsed: Mapping[ObjectKey, Scope] | None = None if isinstance(scopes_or_text, str) else scopes_or_text
        self._text: str | None = scopes_or_text if isinstance(scopes_or_text, str) else None

    @property
    def text(self) -> str:
        """Return the text that stores the scopes. Equal scopes have equal text."""
        if self._text is None:
            rows = map(_scope_row, _group_by_scope(self).items())
            self._text = dump_json(sorted(rows, key=lambda row: (row["kinds"], row["namespaces"])))
        return self._text

    @property
    def overflow_message(self) -> str:
        """Return a message that the text exceeds `MAX_SCOPES_BYTES`, or an empty string for a text within the limit."""
        size = len(self.text.encode())
        return "" if size <= MAX_SCOPES_BYTES else _SCOPES_TOO_LARGE.format(number=len(self), size=size)

    @property
    def _scopes(self) -> Mapping[ObjectKey, Scope]:
        if self._parsed is None:
            self._parsed = dict(_parse_scopes(_parse_rows(self._text or "")))
        return self._parsed

    def __getitem__(self, key: ObjectKey) -> Scope:
        return self._scopes[key]

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._scopes)

    def __len__(self) -> int:
        return len(self._scopes)


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """Commits, state, causes and scopes of one source, as the last reconciliation or the fetcher has recorded them."""

    url: str = ""
    path: str = ""
    ref: str = ""
    target: str = ""
    """Commit that Levelgate applies at present."""
    offered: str = ""
    """Newer commit that waits for an approval."""
    applied: str = ""
    """Newest commit whose objects are all applied."""
    own_objects_commit: str = ""
    """Newest commit whose objects in Git are applied. Nodes of instances may still wait."""
    since: str = ""
    """Time in UTC at which Levelgate began to apply `target`, RFC 3339."""
    state: str = ""
    """`DisplayState` of the source."""
    counts: Mapping[str, int] = field(default_factory=dict)
    causes: tuple[Mapping[str, Any], ...] = ()
    """Rows (`cause_rows`) of causes outside instances, the worst first."""
    scopes: InstanceScopes = field(default_factory=InstanceScopes)
    requests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """First observations of directives on the source and its plain objects, by object.

    An example of a value is `{"hold": {"said": ..., "since": ...}}`.
    """
    passes: str = ""
    """JSON of the history (`pass_history`)."""
    claims: tuple[ObjectKey, ...] = ()
    """Objects that the source or its instances want, but that belong to another set."""
    prune_candidates: tuple[ObjectKey, ...] = ()
    """Objects in the cluster that Git no longer declares."""
    synced: str = ""
    """Value of the last answered request to reconcile."""
    commit_before_pin: str = ""
    """Commit of the source before a pin to another commit."""
    version: str = ""
    """Tag of `target` if the source follows a range of versions, or else an empty string."""
    is_prune_disabled: bool = False
    """True if the source has `prune: false`, so that Levelgate prunes none of its members."""
    unreadable: UnreadableSource | None = None
    kinds: tuple[str, ...] = ()
    """Kinds of the members of the source's own set, from the inventory."""
    left_behind: LeftBehind = LeftBehind()

    @classmethod
    def from_object(cls, parent: Object) -> SourceRecord:
        """Return the record that the ConfigMap `parent` stores."""
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
        """Return the data of the ConfigMap, without `unreadable` and `kinds`, which annotations store.

        Equal records have equal data.
        """
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
        """Return the number of bytes of UTF-8 that the other data leaves for `passes`."""
        return MAX_DATA_BYTES - sum(len(text.encode()) for name, text in self.data().items() if name != "passes")


def _parse_keys(text: str) -> tuple[ObjectKey, ...]:
    return tuple(filter(None, map(ObjectKey.parse, text.splitlines())))


def causes_of(parent: Object) -> tuple[Mapping[str, Any], ...]:
    """Return the rows of causes in the record `parent`, without parsing the rest of the record."""
    return tuple(_parse_rows((parent.get("data") or {}).get("causes", "")))


def requests_of(parent: Object) -> dict[str, Mapping[str, Any]]:
    """Return `SourceRecord.requests` of the record `parent`, without parsing the rest of the record."""
    rows = load_mapping((parent.get("data") or {}).get("asked", ""))
    return {key: row for key, row in rows.items() if isinstance(row, dict)}


def is_approval(prefix: str, commit: str) -> bool:
    """Return whether `prefix` approves `commit`.

    Args:
        prefix: id of the commit, or at least its first `MIN_COMMIT_CHARACTERS` characters.
    """
    return len(prefix) >= MIN_COMMIT_CHARACTERS and commit.startswith(prefix.lower())


def is_approved(record: Object | None, commit: str, path: str) -> bool:
    """Return whether a person has approved `commit` of the source with the record `record`.

    An approval covers the objects of one `path`. If the path of the source has changed since its last commit, the
    approval does not count.
    """
    if record is None or not is_approval(annotation(record, well_known.APPROVED_COMMIT), commit):
        return False
    previous = SourceRecord.from_object(record)
    return not previous.target or previous.path == path


async def read_own_configmaps(cluster: Reader) -> list[Object]:
    """Return all ConfigMaps in Levelgate's namespace: records of sources and rollouts, windows, the installation.

    Raises: ClusterError.
    """
    return await cluster.list(_CONFIG_MAP, OWN_NAMESPACE)


async def read_records(cluster: Reader) -> list[tuple[str, SourceRecord]]:
    """Return the name and the record of each source with an accepted commit, ordered by name. Raises: ClusterError."""
    return list(source_records(await cluster.list(_CONFIG_MAP, OWN_NAMESPACE, selector=well_known.PARENT_ID)).items())


def source_records(configmaps: Iterable[Object]) -> dict[str, SourceRecord]:
    """Return the records of sources among `configmaps` of Levelgate's namespace, by name of the source."""
    parents = _source_parents(configmaps)
    return {name: SourceRecord.from_object(parents[name]) for name in sorted(parents)}


async def read_records_without_commit(cluster: Reader) -> dict[str, SourceRecord]:
    """Return the records of sources without an accepted commit, by name of the source.

    A source without an accepted commit cannot be read, or waits for other sources.

    Raises: ClusterError.
    """
    configmaps = await cluster.list(_CONFIG_MAP, OWN_NAMESPACE, selector=_WITHOUT_COMMIT_SELECTOR)
    return {obj["metadata"]["name"].removeprefix(SOURCE_PREFIX): SourceRecord.from_object(obj) for obj in configmaps}


async def read_source_names(cluster: Reader) -> list[str]:
    """Return the names of all sources with a record, with or without an accepted commit. Raises: ClusterError."""
    configmaps = await cluster.list(_CONFIG_MAP, OWN_NAMESPACE, metadata_only=True)
    names = sorted(obj["metadata"]["name"] for obj in configmaps)
    return [name.removeprefix(SOURCE_PREFIX) for name in names if name.startswith(SOURCE_PREFIX)]


def initial_source_body(source: str) -> Object:
    """Return the manifest of the record of `source` before its first reconciliation writes an inventory."""
    key = source_parent(source)
    metadata = {"name": key.name, "namespace": key.namespace, "labels": {well_known.MANAGED_BY: TOOL}}
    return {"apiVersion": "v1", "kind": key.kind, "metadata": metadata}


async def read_names_by_set_id(cluster: Reader) -> dict[str, str]:
    """Return the name of each source with an accepted commit, by the id of its set. Raises: ClusterError."""
    configmaps = await cluster.list(_CONFIG_MAP, OWN_NAMESPACE, selector=well_known.PARENT_ID, metadata_only=True)
    return {label(obj, well_known.PARENT_ID): name for name, obj in _source_parents(configmaps).items()}


def _source_parents(configmaps: Iterable[Object]) -> dict[str, Object]:
    """Return the parents of sources among `configmaps`, by name of the source. Ignore parents of other tools."""
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
    """Return the row that stores a scope, with the names of its instances by kind and namespace."""
    scope, instances = scope_instances
    names_by_kind: dict[str, dict[str, list[str]]] = {}
    for key in sorted(instances):
        names_by_kind.setdefault(f"{key.group}/{key.kind}", {}).setdefault(key.namespace, []).append(key.name)
    return {"kinds": sorted(map(str, scope.kinds)), "namespaces": sorted(scope.namespaces), "of": names_by_kind}


def _parse_scopes(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[ObjectKey, Scope]]:
    """Yield each instance in `rows` with its scope. Ignore unreadable rows."""
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
