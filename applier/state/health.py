"""Health of a live object, judged together with the other observed objects. Pure.

Every age is measured at the time of the observation. A result that depends on an age contains the time until which the
result is valid.
"""

from __future__ import annotations

from applier import status
from applier.cluster import CONTENT_MANAGER, Object
from applier.state.managed_fields import applied_at
from applier.state.observed import annotation, label
from applier.state.observed_view import ObservedView
from applier.status import HealthResult
from applier.status.rules import CLAIM_KIND
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, group_kind

STORAGE_CLASS_KIND = GroupKind("storage.k8s.io", "StorageClass")

SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
"""Annotation that the scheduler sets on a claim after it has placed the first Pod that uses the claim (KEP-490)."""


def health_of(live: Object, observed: ObservedView, *, is_instance: bool = False) -> HealthResult:
    """Return the health of `live`.

    Args:
        is_instance: True if `live` is an instance of a definition of Levelgate.
    """
    kind = group_kind(live)
    if kind == CLAIM_KIND:
        return status.health(live, now=observed.now, awaits_consumer=_awaits_consumer(live, observed))
    if not is_instance and not live.get("status") and kind in observed.reporting:
        since = applied_at(live, CONTENT_MANAGER)
        return status.health(live, now=observed.now, since=since, reports_status=True)
    return status.health(live, now=observed.now, is_instance=is_instance)


def health_reference(live: Object) -> ObjectKey | None:
    """Return the key of the object on which the health of `live` also depends, or None if no such object exists.

    If `live` is an unbound claim, the object is the StorageClass of the claim. The caller has to read the StorageClass.
    """
    if group_kind(live) != CLAIM_KIND or (live.get("status") or {}).get("phase", "Pending") != "Pending":
        return None
    name = (live.get("spec") or {}).get("storageClassName")
    return ObjectKey(*STORAGE_CLASS_KIND, "", name) if name else None


def _awaits_consumer(claim: Object, observed: ObservedView) -> bool:
    """Return whether `claim` binds on first use, and no live Pod of its set uses the claim.

    Until a Pod uses the claim, the claim is healthy.
    """
    key = health_reference(claim)
    storage_class = observed.objects.get(key) if key else None
    if (
        storage_class is None
        or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer"
        or annotation(claim, SELECTED_NODE_ANNOTATION)
    ):
        return False
    return (label(claim, well_known.PART_OF), ObjectKey.from_manifest(claim)) not in observed.claimed
