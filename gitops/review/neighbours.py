"""Sources of the cluster that a plan does not read: what their records, and the marks of their sets, tell of the source that it does.

Invariant: nothing is guessed. What another source wants is known once a pass has found that it wants it, and as far as its record has room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from applier.observed import label
from gitops.passes.known import Preview
from gitops.records.causes import MAX_ROWS
from gitops.review.report import Action, Caution, Change, Hazard
from renderer import keys
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD, defined_kind
from renderer.listing import listed


@dataclass(frozen=True, slots=True)
class Neighbours:
    """`defines` are the kinds whose definitions others have, `claims` the objects that others wait for; each with the name of the source. Of those
    in `silent` the records had no room to tell all that they wait for.
    """

    defines: Mapping[GroupKind, str]
    claims: Mapping[ObjectKey, str]
    silent: tuple[str, ...] = ()

    @classmethod
    def of(cls, preview: Preview) -> Neighbours:
        found = preview.neighbours
        names = {applyset_id(source_parent(name)): name for name in found}
        live = preview.due.situation.observed.objects
        crds = (obj for key, obj in live.items() if key.group_kind == CRD) if names else ()
        return cls(
            {defined_kind(crd): names[owner] for crd in crds if (owner := label(crd, keys.PART_OF)) in names},
            {key: name for name in sorted(found) for key in found[name].claims},
            tuple(name for name in sorted(found) if len(found[name].causes) >= MAX_ROWS),
        )

    def cautions(self, changes: tuple[Change, ...]) -> tuple[Caution, ...]:
        """What may be handed over although it is told to be deleted."""
        if not self.silent or all(change.action is not Action.DELETE for change in changes):
            return ()
        said = f"{listed(self.silent)} may want what is told to be deleted here: more waits there than its record holds"
        return (Caution(Hazard.NOT_COMPARED, f"source {said}; what it wants is handed over"),)
