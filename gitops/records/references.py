"""References as people type them: `TYPE/NAME[/NODE[/INDEX]]`, or `TYPE NAME` as kubectl has it.

TYPE is a kind, plural or short name of the cluster, with its group after a dot where needed, or one of our own words: `source`, `rollout`, `rgd`,
`window`. Our words come first, so they mean the same in every cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from applier.cluster import Cluster, Discovery, Object, Reader, Resource
from applier.errors import ClusterError
from applier.state.observed import annotation
from gitops.errors import GitopsError
from gitops.records.rollout_records import rollout_key
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent
from renderer.kinds import CRD
from renderer.phrasing import suggestion

SOURCE: Final = "source"
ROLLOUT: Final = "rollout"
DEFINITION: Final = "rgd"
WINDOW: Final = "window"

_OWN_TYPES: Final = {
    **dict.fromkeys(("source", "sources"), SOURCE),
    **dict.fromkeys(("rollout", "rollouts"), ROLLOUT),
    **dict.fromkeys(("rgd", "rgds", "resourcegraphdefinition", "resourcegraphdefinitions"), DEFINITION),
    **dict.fromkeys(("window", "windows", "propagationwindow", "propagationwindows"), WINDOW),
}


class RefError(GitopsError):
    """A reference that cannot be read, or names no kind or several; the text says what to write."""


@dataclass(frozen=True, slots=True)
class Ref:
    """What a person named: `webapp/shop`, `webapp.kro.run/shop/workers/2`, `source/platform`.

    `node` is the id of a node of the instance as the program writes it: `deployment`, `workers/2`; empty for the whole.
    """

    type: str
    name: str
    node: str = ""

    @classmethod
    def parse(cls, words: Sequence[str]) -> Ref:
        """One word `TYPE/NAME[/NODE[/INDEX]]`, or TYPE and the rest. Raises RefError."""
        text = " ".join(words)
        parts = "/".join(words).split("/")
        if not 1 <= len(words) <= 2 or (len(words) == 2 and "/" in words[0]) or len(parts) < 2 or not all(parts):
            raise RefError(f"{text!r} is not a reference; write TYPE/NAME, such as webapp/shop or source/platform")
        ref = cls(parts[0], parts[1], "/".join(parts[2:]))
        if ref.node and ref.own_type:
            raise RefError(f"{text!r}: a {ref.own_type} has no nodes; write {ref.own_type}/{ref.name}")
        if len(parts) > 4 or (len(parts) == 4 and not parts[3].isdecimal()):
            raise RefError(
                f"{text!r}: after the name come the id of a node and, in a collection, a number: webapp/shop/workers/2"
            )
        return ref

    @property
    def own_type(self) -> str:
        """Which of our own words the type is: `source`, `rollout`, `rgd` or `window`; empty for a kind of the cluster."""
        return _OWN_TYPES.get(self.type.lower(), "")

    def __str__(self) -> str:
        return "/".join(filter(None, (self.own_type or self.type, self.name, self.node)))

    def resolve_key(self, discovery: Discovery, namespace: str) -> ObjectKey:
        """The object that is meant, for a node its instance; `namespace` for kinds that have one.

        Raises RefError, also for what is no single object: a window, and a definition, which `find_key` finds.
        """
        match self.own_type:
            case "source":
                return source_parent(self.name)
            case "rollout":
                return rollout_key(self.name)
            case "rgd" | "window":
                raise RefError(f"{self} is not an object in the cluster; name an instance, a source or a rollout")
        matches = [resource for resource in discovery.resources.values() if _has_name(resource, self.type.lower())]
        if not matches:
            served_names = {
                word
                for candidate in discovery.resources.values()
                for word in (candidate.kind.lower(), candidate.plural)
            }
            hint = suggestion(self.type.lower(), {*served_names, *_OWN_TYPES})
            raise RefError(
                f"the cluster serves no kind {self.type!r}{hint or '; `kubectl api-resources` lists all kinds'}"
            )
        if len(matches) > 1:
            choices = ", ".join(
                sorted(f"{candidate.kind.lower()}.{candidate.group}".rstrip(".") for candidate in matches)
            )
            raise RefError(f"{self.type!r} may be {choices}; write one of these")
        return ObjectKey(matches[0].group, matches[0].kind, namespace if matches[0].namespaced else "", self.name)


async def find_key(cluster: Cluster, ref: Ref, namespace: str) -> ObjectKey:
    """As `Ref.key`, asking the cluster; a definition is its CRD. Raises RefError, ClusterError."""
    if ref.own_type != DEFINITION:
        return ref.resolve_key(await cluster.discover(), namespace)
    crds = await cluster.list(CRD, selector=f"{well_known.IS_PARENT_TYPE}=true", metadata_only=True)
    names = {annotation(crd, well_known.DEFINITION): crd["metadata"]["name"] for crd in crds}
    if ref.name not in names:
        known_names = ", ".join(sorted(filter(None, names))) or "none"
        raise RefError(f"no definition {ref.name!r} in cluster {cluster.name}; there are: {known_names}")
    return ObjectKey(*CRD, "", names[ref.name])


async def get_object(cluster: Cluster, ref: Ref, key: ObjectKey) -> Object:
    """The object that was named, which `key` is. Raises RefError with what was probably meant, ClusterError."""
    live = await cluster.get(key)
    if live is None:
        place = f" in namespace {key.namespace}" if key.namespace and not ref.own_type else ""
        raise RefError(f"{ref} does not exist{place} in cluster {cluster.name}{await suggest_name(cluster, ref, key)}")
    return live


async def suggest_name(cluster: Reader, ref: Ref, key: ObjectKey) -> str:
    """`; did you mean 'shop'?`, of what there is of this type where `key` is not; empty where nothing is close, or one may not look."""
    prefix = key.name.removesuffix(ref.name)
    try:
        objects = await cluster.list(key.group_kind, key.namespace or None, metadata_only=True)
    except ClusterError:
        return ""
    names = (obj["metadata"]["name"] for obj in objects)
    return suggestion(ref.name, [name.removeprefix(prefix) for name in names if name.startswith(prefix)])


def _has_name(resource: Resource, typed_name: str) -> bool:
    names = {resource.kind.lower(), resource.plural, *resource.short_names}
    return typed_name in names or typed_name in {f"{name}.{resource.group}" for name in names}
