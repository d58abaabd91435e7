"""The form of a PropagationPolicy's `spec`, as OpenAPI v3. What a form cannot say (durations, shares, names of waves) is checked where it is read."""

from __future__ import annotations

from typing import Any, Final

from applier.plan.model import Barrier
from gitops.rollouts.policy import ItemOrder, Mode, NewInstances, OnHalt, OnNewRevision, OnViolation, PolicyScope
from gitops.windows.labels import LABEL_SELECTOR
from gitops.windows.window import Openness
from renderer.schema.form import fields, one_of


def _whole(minimum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum}


_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_TEXTS: Final = {"type": "array", "items": {"type": "string", "minLength": 1}}
_AMOUNT: Final = {"x-kubernetes-int-or-string": True}
_SHAPE: Final = fields(linear=fields(n=_AMOUNT), exponential=fields(factor=_whole(2)))
SPEC: Final = fields(
    selector=fields(rgds={**_TEXTS, "minItems": 1}, instances=LABEL_SELECTOR),
    governs=one_of(PolicyScope),
    barrier=one_of(Barrier),
    shape=_SHAPE,
    mode=one_of(Mode),
    bake=_TEXT,
    progressDeadline=_TEXT,
    maxFailures=_AMOUNT,
    maxFlaps=_whole(0),
    onHalt=one_of(OnHalt),
    minAvailable=_AMOUNT,
    order=one_of(ItemOrder),
    waves={
        "type": "array",
        "items": fields("name", name=_TEXT, selector=LABEL_SELECTOR, shape=_SHAPE, bake=_TEXT, windows=_TEXTS),
    },
    approvals={
        "type": "array",
        "items": fields("after", after=fields(wave=_TEXT, settled=_whole(1)), by=_TEXTS),
    },
    rollback=fields(shape=_SHAPE, skipBake=_FLAG, ignoreApprovals=_FLAG),
    newInstances=one_of(NewInstances),
    onNewRevision=one_of(OnNewRevision),
    pipelineMax=_whole(1),
    maxHold=_TEXT,
    windows=fields(
        defaultWhenNoWindow=one_of(Openness),
        expiredAllow=one_of(Openness),
        availability=fields(
            "atLeast", "per", atLeast=_TEXT, per=_TEXT, contiguous=_TEXT, onViolation=one_of(OnViolation)
        ),
    ),
)
