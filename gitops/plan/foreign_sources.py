"""Sources outside of a plan, as far as their records tell of its objects.

Nothing is guessed: the claim of another source is known once a reconciliation has recorded it, and as far as its record
has room.
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
    """What the records of sources outside of a plan say about its objects.

    `hidden_kinds` are kinds that others define and of which no readable revision is recorded; `claims` are the objects that
    others wait for; each with the name of the source. The records of `incomplete_sources` had no room for all their claims.
    """

    hidden_kinds: Mapping[GroupKind, str]
    claims: Mapping[ObjectKey, str]
    incomplete_sources: tuple[str, ...]

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
        """Return a warning of objects that are shown as deleted and may be handed over instead."""
        if not self.incomplete_sources or all(change.action is not PlannedAction.DELETE for change in changes):
            return ()
        detail = f"{join_names(self.incomplete_sources)} may want objects that are shown as deleted here: more waits there than its record holds"
        return (PlanWarning(WarningKind.NOT_COMPARED, f"source {detail}; the objects that it wants are handed over"),)
