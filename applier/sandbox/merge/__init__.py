"""Server-side apply and field ownership, with the same results as kube-apiserver. Pure.

    type_of_schema(schema, crd=..., definitions=...) -> MergeType how a kind's objects merge
    DEDUCED                                                      the type of a kind without a schema
    FieldManager                                                 who writes: manager, type, version, time and more
    apply(live, intent, field_manager, force=...) -> Object      raises ApplyConflicts (409), TypeMismatchError (500)
    track_update(live, new, field_manager) -> Object             after create, update and patch; never raises
    keep_times(live, final) -> Object                            last, before storing
    reset_fields_of(resource, subresource, has_status=...)       fields that a write cannot change

Invariants: No function changes its arguments, but results share parts with the arguments. If a write changes neither
content nor ownership, the returned object equals `live`. Input of clients causes only the exceptions above.
"""

from applier.sandbox.merge.apply import ApplyConflicts, Conflict, apply, keep_times, track_update
from applier.sandbox.merge.managed_fields import FieldManager
from applier.sandbox.merge.reset_fields import ResetFields, reset_fields_of
from applier.sandbox.merge.type_check import TypeMismatchError
from applier.sandbox.merge.types import DEDUCED, MergeType, type_of_schema

__all__ = [
    "DEDUCED",
    "ApplyConflicts",
    "Conflict",
    "FieldManager",
    "MergeType",
    "ResetFields",
    "TypeMismatchError",
    "apply",
    "keep_times",
    "reset_fields_of",
    "track_update",
    "type_of_schema",
]
