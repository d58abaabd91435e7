"""References as people type them: `TYPE/NAME[/NODE[/INDEX]]`, or `TYPE NAME` as with kubectl.

`TYPE` is one of Levelgate's own types `source`, `rollout`, `rgd` and `window`. Any other `TYPE` is a kind, plural or
short name that the cluster serves. If several groups serve this kind, the group follows the kind after a dot. If a kind
has the name of an own type, the own type wins. So a reference means the same in every cluster.
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
    """Failure to parse or resolve a reference.

    The text contains the cause. If the correction is known, the text also contains a valid reference.
    """


@dataclass(frozen=True, slots=True)
class Ref:
    """Parsed reference to an object or a node.

    Examples: `webapp/shop`, `webapp.kro.run/shop/workers/2`, `source/platform`.
    """

    type: str
    name: str
    node: str = ""
    """Id of a node of the instance: `deployment`, `workers/2`, or an empty string for the instance itself."""

    @classmethod
    def parse(cls, words: Sequence[str]) -> Ref:
        """Return the reference in `words`: one word `TYPE/NAME`, or two words `TYPE` and `NAME`.

        Raises: RefError if `words` are not a reference.
        """
        text = " ".join(words)
        parts = "/".join(words).split("/")
        if not 1 <= len(words) <= 2 or (len(words) == 2 and "/" in words[0]) or len(parts) < 2 or not all(parts):
            raise RefError(f"{text!r} is not a reference; write TYPE/NAME, such as webapp/shop or source/platform")
        ref = cls(parts[0], parts[1], "/".join(parts[2:]))
        if ref.node and ref.own_type:
            raise RefError(f"{text!r}: a {ref.own_type} has no nodes; write {ref.own_type}/{ref.name}")
        if len(parts) > 4 or (len(parts) == 4 and not parts[3].isdecimal()):
            raise RefError(
                f"{text!r} does not name a node; after the name, write the id of a node and, in a collection, a "
                "number, such as webapp/shop/workers/2"
            )
        return ref

    @property
    def own_type(self) -> str:
        """Return `source`, `rollout`, `rgd` or `window`, or an empty string for any other type."""
        return _OWN_TYPES.get(self.type.lower(), "")

    def __str__(self) -> str:
        return "/".join(filter(None, (self.own_type or self.type, self.name, self.node)))

    def resolve_key(self, discovery: Discovery, namespace: str) -> ObjectKey:
        """Return the key of the object. For a node, return the key of the node's instance.

        Args:
            namespace: namespace of an object of a namespaced kind.

        Raises: RefError if the type is unknown, ambiguous, `rgd` or `window`. `find_key` resolves an `rgd`.
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
    """Return the key of the object that `ref` names in `cluster`. For a definition, return the key of its CRD.

    Raises: RefError if the type of `ref` or the definition is not in the cluster, ClusterError.
    """
    if ref.own_type != DEFINITION:
        return ref.resolve_key(await cluster.discover(), namespace)
    crds = await cluster.list(CRD, selector=f"{well_known.IS_PARENT_TYPE}=true", metadata_only=True)
    names = {annotation(crd, well_known.DEFINITION): crd["metadata"]["name"] for crd in crds}
    if ref.name not in names:
        known_names = ", ".join(sorted(filter(None, names))) or "the cluster has none"
        raise RefError(
            f"definition {ref.name!r} is not in cluster {cluster.name}; name one of its definitions: {known_names}"
        )
    return ObjectKey(*CRD, "", names[ref.name])


async def get_object(cluster: Cluster, ref: Ref, key: ObjectKey) -> Object:
    """Return the live object with the key `key`, which `ref` names.

    Raises: RefError with a similar name if the object does not exist, ClusterError.
    """
    live = await cluster.get(key)
    if live is None:
        place = f" in namespace {key.namespace}" if key.namespace and not ref.own_type else ""
        raise RefError(f"{ref} does not exist{place} in cluster {cluster.name}{await suggest_name(cluster, ref, key)}")
    return live


async def suggest_name(cluster: Reader, ref: Ref, key: ObjectKey) -> str:
    """Return a hint such as `; did you mean 'shop'?` for `key`, which does not exist.

    If no name is similar or the objects cannot be listed, return an empty string.
    """
    prefix = key.name.removesuffix(ref.name)
    try:
        objects = await cluster.list(key.group_kind, key.namespace or None, metadata_only=True)
    except ClusterError:
        return ""
    names = (obj["metadata"]["name"] for obj in objects)
    return suggestion(ref.name, [name.removeprefix(prefix) for name in names if name.startswith(prefix)])


def _has_name(resource: Resource, typed_name: str) -> bool:
    """Return whether `typed_name` is a kind, plural or short name of `resource`, with or without its group."""
    names = {resource.kind.lower(), resource.plural, *resource.short_names}
    return typed_name in names or typed_name in {f"{name}.{resource.group}" for name in names}
