"""Output of `levelgate explain --event`: the ApplySets that a watch event affects, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitops.explain.event_effects import AffectedSet, EventEffects
from gitops.reconcile.incremental.topology import DependencyMatch
from gitops.text import align_table, title
from renderer.phrasing import format_count


def as_text(effects: EventEffects) -> Iterator[str]:
    """Yield the effects of a watch event as lines for a terminal."""
    if not effects.watched:
        yield (
            f"Levelgate does not watch events of {title(effects.key)}: "
            f"no set owns, reads or selects the object, and the object has no label of a set."
        )
        return
    if not effects.found:
        yield f"An event of {title(effects.key)} does not affect the subject."
    else:
        yield f"An event of {title(effects.key)} affects {format_count(len(effects.found), 'set')}."
        yield ""
        yield from align_table([("SET", "BECAUSE IT", "RECONCILED"), *map(_row, effects.found)])
    yield ""
    if effects.roots is None:
        yield "A full reconciliation follows: the event concerns more than single objects."
    else:
        objects = format_count(len(effects.roots), "object")
        yield f"A partial reconciliation of {objects} follows; Levelgate reconciles no other object."


def _row(affected_set: AffectedSet) -> tuple[str, str, str]:
    set_name = f"source {affected_set.set.source}" if affected_set.set.is_source else title(affected_set.set.parent)
    return (
        set_name,
        ", ".join(_describe_match(affected_set.why)),
        title(affected_set.root) if affected_set.root else "everything",
    )


def _describe_match(match: DependencyMatch) -> Iterator[str]:
    """Yield the dependencies of a set on the object, such as `owns it as deployment`."""
    for verb, nodes in (("owns", match.owned), ("reads", match.read), ("selects", match.selected)):
        if node_names := sorted(filter(None, nodes)):
            yield f"{verb} it as {' and '.join(node_names)}"
        elif nodes:
            yield "is it"


def as_json(effects: EventEffects) -> dict[str, Any]:
    """Return the stable document of `explain --event -o json` (docs/reference.md)."""
    return {
        "object": str(effects.key),
        "watched": effects.watched,
        "everything": effects.watched and effects.roots is None,
        "lookedAt": sorted(map(str, effects.roots or ())),
        "wakes": [
            {
                "set": str(affected_set.set.parent),
                "source": affected_set.set.source,
                "owns": sorted(affected_set.why.owned),
                "reads": sorted(affected_set.why.read),
                "selects": sorted(affected_set.why.selected),
            }
            for affected_set in effects.found
        ],
    }
