"""What `levelgate explain --event` prints: whom an event wakes, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitops.explain.event_effects import AffectedSet, EventEffects
from gitops.reconcile.incremental.topology import DependencyMatch
from gitops.text import aligned, title
from renderer.phrasing import counted


def as_text(found: EventEffects) -> Iterator[str]:
    """Lines for people."""
    if not found.watched:
        yield f"No event on {title(found.key)} is heard of: no set owns, reads or selects it, and it carries no mark of one."
        return
    if not found.found:
        yield f"An event on {title(found.key)} wakes nothing of this."
    else:
        yield f"An event on {title(found.key)} wakes {counted(len(found.found), 'set')}."
        yield ""
        yield from aligned([("SET", "BECAUSE IT", "LOOKED AT"), *map(_row, found.found)])
    yield ""
    if found.roots is None:
        yield "A pass over everything follows: this concerns more than single objects."
    else:
        yield f"A pass over {counted(len(found.roots), 'object')} follows; all others are left alone."


def _row(wake: AffectedSet) -> tuple[str, str, str]:
    what = f"source {wake.set.source}" if wake.set.is_source else title(wake.set.parent)
    return what, ", ".join(_reasons(wake.why)), title(wake.root) if wake.root else "everything"


def _reasons(why: DependencyMatch) -> Iterator[str]:
    for verb, nodes in (("owns", why.owned), ("reads", why.read), ("selects", why.selected)):
        if named := sorted(filter(None, nodes)):
            yield f"{verb} it as {' and '.join(named)}"
        elif nodes:
            yield "is it"


def as_json(found: EventEffects) -> dict[str, Any]:
    """The stable contract of `explain --event -o json` (docs/reference.md)."""
    return {
        "object": str(found.key),
        "watched": found.watched,
        "everything": found.watched and found.roots is None,
        "lookedAt": sorted(map(str, found.roots or ())),
        "wakes": [
            {
                "set": str(wake.set.parent),
                "source": wake.set.source,
                "owns": sorted(wake.why.owned),
                "reads": sorted(wake.why.read),
                "selects": sorted(wake.why.selected),
            }
            for wake in found.found
        ],
    }
