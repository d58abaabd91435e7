"""The form of a PropagationPolicy's `spec`, as OpenAPI v3. What a form cannot say (durations, shares, names of waves) is checked where it is read."""

from __future__ import annotations

from typing import Any, Final

from applier.plan import Barrier
from gitops.propagation.labels import LABEL_SELECTOR
from gitops.propagation.policy import (
    Governs,
    Mode,
    NewInstances,
    OnHalt,
    OnNewRevision,
    OnViolation,
    Order,
)
from gitops.propagation.window import Openness


def _fields(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _one_of(words: Any) -> dict[str, Any]:
    return {"type": "string", "enum": [str(word) for word in words]}


def _whole(minimum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum}


_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_TEXTS: Final = {"type": "array", "items": {"type": "string", "minLength": 1}}
_AMOUNT: Final = {"x-kubernetes-int-or-string": True}
_SHAPE: Final = _fields(linear=_fields(n=_AMOUNT), exponential=_fields(factor=_whole(2)))
SPEC: Final = _fields(
    selector=_fields(rgds={**_TEXTS, "minItems": 1}, instances=LABEL_SELECTOR),
    governs=_one_of(Governs),
    barrier=_one_of(Barrier),
    shape=_SHAPE,
    mode=_one_of(Mode),
    bake=_TEXT,
    progressDeadline=_TEXT,
    maxFailures=_AMOUNT,
    maxFlaps=_whole(0),
    onHalt=_one_of(OnHalt),
    minAvailable=_AMOUNT,
    order=_one_of(Order),
    waves={
        "type": "array",
        "items": _fields(("name",), name=_TEXT, selector=LABEL_SELECTOR, shape=_SHAPE, bake=_TEXT, windows=_TEXTS),
    },
    approvals={
        "type": "array",
        "items": _fields(("after",), after=_fields(wave=_TEXT, settled=_whole(1)), by=_TEXTS),
    },
    rollback=_fields(shape=_SHAPE, skipBake=_FLAG, ignoreApprovals=_FLAG),
    newInstances=_one_of(NewInstances),
    onNewRevision=_one_of(OnNewRevision),
    pipelineMax=_whole(1),
    maxHold=_TEXT,
    windows=_fields(
        defaultWhenNoWindow=_one_of(Openness),
        expiredAllow=_one_of(Openness),
        availability=_fields(
            ("atLeast", "per"), atLeast=_TEXT, per=_TEXT, contiguous=_TEXT, onViolation=_one_of(OnViolation)
        ),
    ),
)
