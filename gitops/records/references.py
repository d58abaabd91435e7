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

_OUR_WORDS: Final = {
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
            raise RefError(f"{text!r} names nothing; write TYPE/NAME, such as webapp/shop or source/platform")
        found = cls(parts[0], parts[1], "/".join(parts[2:]))
        if found.node and found.own:
            raise RefError(f"{text!r}: a {found.own} has no nodes; write {found.own}/{found.name}")
        if len(parts) > 4 or (len(parts) == 4 and not parts[3].isdecimal()):
            raise RefError(
                f"{text!r}: after the name come the id of a node and, in a collection, a number: webapp/shop/workers/2"
            )
        return found

    @property
    def own(self) -> str:
        """Which of our own words the type is: `source`, `rollout`, `rgd` or `window`; empty for a kind of the cluster."""
        return _OUR_WORDS.get(self.type.lower(), "")

    def __str__(self) -> str:
        return "/".join(filter(None, (self.own or self.type, self.name, self.node)))

    def key(self, discovery: Discovery, namespace: str) -> ObjectKey:
        """The object that is meant, for a node its instance; `namespace` for kinds that have one.

        Raises RefError, also for what is no single object: a window, and a definition, which `locate` finds.
        """
        match self.own:
            case "source":
                return source_parent(self.name)
            case "rollout":
                return rollout_key(self.name)
            case "rgd" | "window":
                raise RefError(f"{self} is no object of the cluster; name an instance, a source or a rollout")
        found = [resource for resource in discovery.resources.values() if _is_called(resource, self.type.lower())]
        if not found:
            words = {word for one in discovery.resources.values() for word in (one.kind.lower(), one.plural)}
            near = suggestion(self.type.lower(), {*words, *_OUR_WORDS})
            raise RefError(
                f"the cluster serves no kind {self.type!r}{near or '; `kubectl api-resources` lists what there is'}"
            )
        if len(found) > 1:
            choices = ", ".join(sorted(f"{one.kind.lower()}.{one.group}".rstrip(".") for one in found))
            raise RefError(f"{self.type!r} may be {choices}; write one of these")
        return ObjectKey(found[0].group, found[0].kind, namespace if found[0].namespaced else "", self.name)


async def locate(cluster: Cluster, ref: Ref, namespace: str) -> ObjectKey:
    """As `Ref.key`, asking the cluster; a definition is its CRD. Raises RefError, ClusterError."""
    if ref.own != DEFINITION:
        return ref.key(await cluster.discover(), namespace)
    crds = await cluster.list(CRD, selector=f"{well_known.IS_PARENT_TYPE}=true", metadata_only=True)
    names = {annotation(crd, well_known.DEFINITION): crd["metadata"]["name"] for crd in crds}
    if ref.name not in names:
        known = ", ".join(sorted(filter(None, names))) or "none"
        raise RefError(f"no definition {ref.name!r} in cluster {cluster.name}; there are: {known}")
    return ObjectKey(*CRD, "", names[ref.name])


async def existing(cluster: Cluster, ref: Ref, key: ObjectKey) -> Object:
    """The object that was named, which `key` is. Raises RefError with what was probably meant, ClusterError."""
    found = await cluster.get(key)
    if found is None:
        where = f" in namespace {key.namespace}" if key.namespace and not ref.own else ""
        raise RefError(f"{ref} does not exist{where} in cluster {cluster.name}{await meant(cluster, ref, key)}")
    return found


async def meant(cluster: Reader, ref: Ref, key: ObjectKey) -> str:
    """`; did you mean 'shop'?`, of what there is of this type where `key` is not; empty where nothing is close, or one may not look."""
    prefix = key.name.removesuffix(ref.name)
    try:
        found = await cluster.list(key.group_kind, key.namespace or None, metadata_only=True)
    except ClusterError:
        return ""
    names = (obj["metadata"]["name"] for obj in found)
    return suggestion(ref.name, [name.removeprefix(prefix) for name in names if name.startswith(prefix)])


def _is_called(resource: Resource, word: str) -> bool:
    names = {resource.kind.lower(), resource.plural, *resource.short_names}
    return word in names or word in {f"{name}.{resource.group}" for name in names}
