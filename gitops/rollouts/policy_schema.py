"""OpenAPI v3 schema for the `spec` of a `PropagationPolicy`.

`policy_reader` checks the rules that a schema cannot express: durations, percentages, names of waves.
"""

from __future__ import annotations

from typing import Any, Final

from applier.plan.model import Barrier
from gitops.rollouts.policy import ItemOrder, Mode, NewInstances, OnHalt, OnNewRevision, OnViolation, PolicyScope
from gitops.windows.window import Openness
from renderer.label_selector import LABEL_SELECTOR_SCHEMA
from renderer.schema.validation import enum_form, object_form


def _integer(minimum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum}


_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_TEXTS: Final = {"type": "array", "items": {"type": "string", "minLength": 1}}
_AMOUNT: Final = {"x-kubernetes-int-or-string": True}
_SHAPE: Final = object_form(linear=object_form(n=_AMOUNT), exponential=object_form(factor=_integer(2)))
SPEC: Final = object_form(
    selector=object_form(rgds={**_TEXTS, "minItems": 1}, instances=LABEL_SELECTOR_SCHEMA),
    governs=enum_form(PolicyScope),
    barrier=enum_form(Barrier),
    shape=_SHAPE,
    mode=enum_form(Mode),
    bake=_TEXT,
    progressDeadline=_TEXT,
    maxFailures=_AMOUNT,
    maxFlaps=_integer(0),
    onHalt=enum_form(OnHalt),
    minAvailable=_AMOUNT,
    order=enum_form(ItemOrder),
    waves={
        "type": "array",
        "items": object_form(
            "name", name=_TEXT, selector=LABEL_SELECTOR_SCHEMA, shape=_SHAPE, bake=_TEXT, windows=_TEXTS
        ),
    },
    approvals={
        "type": "array",
        "items": object_form("after", after=object_form(wave=_TEXT, settled=_integer(1)), by=_TEXTS),
    },
    rollback=object_form(shape=_SHAPE, skipBake=_FLAG, ignoreApprovals=_FLAG),
    newInstances=enum_form(NewInstances),
    onNewRevision=enum_form(OnNewRevision),
    pipelineMax=_integer(1),
    maxHold=_TEXT,
    windows=object_form(
        defaultWhenNoWindow=enum_form(Openness),
        expiredAllow=enum_form(Openness),
        availability=object_form(
            "atLeast", "per", atLeast=_TEXT, per=_TEXT, contiguous=_TEXT, onViolation=enum_form(OnViolation)
        ),
    ),
)
