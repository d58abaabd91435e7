"""Changes to the cluster behind Git's back, and the cluster that never saw any."""

from __future__ import annotations

from functools import cache

from applier.state.observed import label
from renderer import well_known
from renderer.kinds import CRD, NAMESPACE
from tests.support.properties.checked_platform import CheckedPlatform, Files, essence
from tests.support.properties.repositories import GROUP

MEDDLED = ("delete member", "delete instance", "delete crd", "edit member", "update member", "unlabel member", "tick")
STUCK = "example.com/stuck"
"""A finalizer of somebody else."""
OPERATOR = "operator"
"""Another tool that applies."""


def fresh(files: Files) -> dict[str, object]:
    """Return the essence of a cluster that has only ever seen this commit."""
    return _fresh(tuple(files.items()))


@cache
def _fresh(files: tuple[tuple[str, str], ...]) -> dict[str, object]:
    with CheckedPlatform() as reference:
        reference.commit(dict(files))
        reference.settle(anew=False)
        assert reference.broken == []
        return essence(reference.cluster)


def meddle(platform: CheckedPlatform, what: str, which: int) -> None:
    """Change the cluster as a person would; *which* selects the object."""
    objects = platform.cluster.objects
    found = [
        key
        for key, obj in objects.items()
        if label(obj, well_known.PART_OF) and key.kind not in {CRD.kind, NAMESPACE.kind}
    ]
    instances = [key for key in found if key.group == GROUP]
    members = [key for key in found if key.group != GROUP]
    among = instances if what.endswith("instance") else members
    if what == "delete crd":
        among = [key for key, obj in objects.items() if key.kind == CRD.kind and label(obj, well_known.PART_OF)]
    if what in {"edit member", "update member", "apply member"}:
        # Only a ConfigMap has the field `data` that these change.
        among = [key for key in members if key.kind == "ConfigMap" and not objects[key].get("immutable")]
    if what == "tick" or not among:
        platform.cluster.tick()
        return
    key = sorted(among)[which % len(among)]
    match what:
        case "delete member" | "delete instance" | "delete crd":
            platform.cluster.take_away(key)
        case "apply member":
            platform.cluster.apply_by(OPERATOR, key, {"data": {"text": "by an operator"}})
        case "edit member" | "update member":
            manifest = {**platform.cluster.objects[key], "data": {"text": "by hand"}}
            platform.cluster.put(
                {name: manifest[name] for name in ("apiVersion", "kind", "metadata", "data")},
                manager="kubectl-edit" if what == "edit member" else "script",
            )
        case "unlabel member":
            platform.cluster.edit(key, lambda obj: obj["metadata"]["labels"].pop(well_known.PART_OF))
        case "stick member" | "stick instance":
            platform.cluster.edit(key, lambda obj: obj["metadata"].setdefault("finalizers", []).append(STUCK))
