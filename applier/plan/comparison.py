"""Comparison of a live member with its node: whether the member has to be healed, or its record renewed.

The module is pure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from applier.applyset import member
from applier.applyset.member import RecordedSet
from applier.cluster import CONTENT_MANAGER, Object
from applier.plan.model import NodeAction
from applier.state.managed_fields import LostField, apply_entry, compare_ownership, is_fully_owned, owned_metadata
from applier.state.observed import annotation
from renderer import well_known
from renderer.render.model import RenderedNode

Verdict = tuple[NodeAction, tuple[LostField, ...]]
"""The action that a member needs, and the fields to heal, each with its present owners."""

_BOOKKEEPING: Final = (well_known.DEPS, well_known.SOURCE_FILE)
"""Annotations that Levelgate renews even if nothing else differs. Pruning and unreadable files rest on them."""

_BOOKKEEPING_PATHS: Final = frozenset(f".metadata.annotations.{name}" for name in _BOOKKEEPING)
"""Paths of the annotations in `_BOOKKEEPING`. Their loss is no drift, so Levelgate only records them again."""


def compare_with_live(
    applyset: RecordedSet, node: RenderedNode, live: Object, dependencies: Collection[str]
) -> Verdict:
    """Return the action that the member `live`, which was written from the manifest of `node`, needs now.

    The action is `heal`, `record` or `none`.

    Args:
        dependencies: hashes of the keys to record on the member.
    """
    intent = _intent(applyset, node, dependencies)
    if not is_fully_owned(live, intent, CONTENT_MANAGER):
        ownership = compare_ownership(live, intent, CONTENT_MANAGER)
        if ownership is None or any(field.path not in _BOOKKEEPING_PATHS for field in ownership.lost):
            return NodeAction.HEAL, ownership.lost if ownership else ()
    is_recorded = all(annotation(live, name) == annotation(intent, name) for name in _BOOKKEEPING)
    return NodeAction.NONE if is_recorded else NodeAction.RECORD, ()


def fields_lost_with_record(
    applyset: RecordedSet, node: RenderedNode, live: Object, dependencies: Collection[str]
) -> tuple[LostField, ...]:
    """Return the fields of `live` that other managers changed when they also changed Levelgate's record.

    If the record is intact and its hash is not the hash of `node`, only Git has changed, so return no fields. The
    record of a Secret covers no values. So even if another manager changes values, the record may be intact.
    """
    has_record = well_known.HASH in owned_metadata(apply_entry(live, CONTENT_MANAGER), "annotations")
    if has_record and annotation(live, well_known.HASH) != node.hash:
        return ()
    ownership = compare_ownership(live, _intent(applyset, node, dependencies), CONTENT_MANAGER)
    return ownership.lost if ownership else ()


def _intent(applyset: RecordedSet, node: RenderedNode, dependencies: Collection[str]) -> Object:
    return member.member_body(applyset, node, dependencies=dependencies, live=None, parent_uid="", commit="")
