"""Reasons by kind, and the causes of failed requests."""

from __future__ import annotations

import pytest

from applier.causes import Cause, Reason
from applier.errors import ClusterError, Denied, FieldConflict, Immutable, Invalid, NamespaceTerminating, Unavailable


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (FieldConflict("a has it"), Reason.CONFLICT, "take it over with the annotation"),
        (Immutable("spec.selector"), Reason.APPLY_FAILED, "levelgate.dev/replace: allowed"),
        (NamespaceTerminating("it ends"), Reason.PROGRESSING, "it ends"),
        (Unavailable("later"), Reason.PROGRESSING, "later"),
        (Denied("RBAC"), Reason.APPLY_FAILED, "not allowed: RBAC"),
        (Invalid("no such field"), Reason.APPLY_FAILED, "no such field"),
    ],
)
def test_a_failed_request_says_whether_it_ends_by_itself(error: ClusterError, reason: Reason, text: str) -> None:
    cause = Cause.from_error(error)
    assert cause.reason is reason
    assert text in cause.message


def test_no_reason_is_a_hold_and_a_failure_at_once() -> None:
    assert not [reason for reason in Reason if reason.is_hold and reason.is_failure]
    assert all(reason.is_hold for reason in Reason if reason.is_missing_permission)
    assert all(reason.is_missing_permission for reason in Reason if reason.is_queued)
