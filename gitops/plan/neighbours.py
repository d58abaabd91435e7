"""Sources of the cluster that a plan does not read: what their records, and the marks of their sets, tell of the source that it does.

Invariant: nothing is guessed. What another source wants is known once a pass has found that it wants it, and as far as its record has room.
"""

from __future__ import annotations

from collections.abc import Mapping

from gitops.plan.report import PlannedAction, PlannedChange, PlanWarning, WarningKind
from gitops.reconcile.context import Preview
from gitops.records.source_record import MAX_LISTED_OBJECTS
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.phrasing import join_names


@dataclass(frozen=True, slots=True)
class ForeignSources:
    """`hides` are the kinds that others define and of which nothing is recorded that can be read, `claims` the objects that others wait for; each
    with the name of the source. Of those in `silent` the records had no room to tell all that they wait for.
    """

    hidden_kinds: Mapping[GroupKind, str]
    claims: Mapping[ObjectKey, str]
    incomplete_sources: tuple[str, ...] = ()

    @classmethod
    def from_preview(cls, preview: Preview) -> ForeignSources:
        records, rendering = preview.neighbours, preview.due.bundle
        return cls(
            {
                kind: name
                for kind, name in rendering.owners.items()
                if name in records and kind not in rendering.definitions
            },
            {key: name for name in sorted(records) for key in records[name].claims},
            tuple(name for name in sorted(records) if len(records[name].claims) >= MAX_LISTED_OBJECTS),
        )

    def handover_warnings(self, changes: tuple[PlannedChange, ...]) -> tuple[PlanWarning, ...]:
        """What may be handed over although it is told to be deleted."""
        if not self.incomplete_sources or all(change.action is not PlannedAction.DELETE for change in changes):
            return ()
        detail = f"{join_names(self.incomplete_sources)} may want what is told to be deleted here: more waits there than its record holds"
        return (PlanWarning(WarningKind.NOT_COMPARED, f"source {detail}; what it wants is handed over"),)
