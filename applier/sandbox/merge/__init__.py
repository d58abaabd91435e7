"""Server-side apply and field ownership, with the same results as kube-apiserver. Pure.

- `type_of_schema` returns the `MergeType` by which the objects of a kind merge. `DEDUCED` is the type of a kind without
  a schema.
- `apply` merges an intent, and raises ApplyConflicts (409) or TypeMismatchError (500).
- `track_update` records the ownership after a create, update or patch, and never raises an exception.
- `keep_times` is the last step before a write to the store.
- `reset_fields_of` returns the fields that a write cannot change.
- `FieldManager` describes the writer: manager, type, version, time and more.

No function changes its arguments, but results share parts with the arguments. If a write changes neither content nor
ownership, the returned object equals the live object. Input from clients can cause only the two exceptions of `apply`.
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
