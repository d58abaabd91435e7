"""Recorded refusals of a real API server (Kubernetes 1.36), and what each must become."""

from typing import Any

import orjson
import pytest

from applier.causes import Cause
from applier.errors import (
    ClusterError,
    Denied,
    FieldConflict,
    Immutable,
    Invalid,
    KindNotServed,
    NamespaceTerminating,
    NotFound,
    StaleWrite,
    StatusCause,
    Unavailable,
    UnknownOutcome,
)
from applier.kube.error_translation import translate


def body(message: str = "", *, reason: str = "", **details: Any) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return orjson.dumps(status | ({"reason": reason} if reason else {}) | {"details": details})


def causes(*rows: tuple[str, str, str]) -> list[dict[str, str]]:
    return [{"reason": reason, "field": field, "message": message} for reason, field, message in rows]


TYPED = "failed to create typed patch object (/x; apps/v1, Kind=Deployment): "
CONVERT = "failed to convert new object (/x; /v1, Kind=Secret) to proper version: "
UNABLE = CONVERT + "unable to convert unstructured object to /v1, Kind=Secret: "
CONFLICT = 'Apply failed with 1 conflict: conflict with "m1": .data.a'
WEBHOOK = 'Internal error occurred: failed calling webhook "a.b.c": failed to call webhook: Post "https://x": refused'

TABLE: list[tuple[str, int, bytes, type[ClusterError], str]] = [
    (
        "field conflict",
        409,
        body(CONFLICT, reason="Conflict", causes=causes(("FieldManagerConflict", ".data.a", 'conflict with "m1"'))),
        FieldConflict,
        CONFLICT,
    ),
    (
        "optimistic lock",
        409,
        body('Operation cannot be fulfilled on configmaps "x": the object has been modified', reason="Conflict"),
        StaleWrite,
        "the object has been modified",
    ),
    (
        "uid, object absent",
        409,
        body("uid mismatch: the provided object specified uid 1, and no existing object was found", reason="Conflict"),
        StaleWrite,
        "no existing object was found",
    ),
    (
        "wrong uid",
        422,
        body(
            "metadata.uid: Invalid value",
            reason="Invalid",
            causes=causes(
                ("FieldValueInvalid", "metadata.uid", "immutable"), ("FieldValueInvalid", "metadata.uid", "")
            ),
        ),
        StaleWrite,
        "metadata.uid",
    ),
    ("create of existing", 409, body('configmaps "x" already exists', reason="AlreadyExists"), StaleWrite, "exists"),
    (
        "immutable",
        422,
        body(
            "data: Forbidden: field is immutable",
            reason="Invalid",
            name="x",
            causes=causes(("FieldValueForbidden", "data", "Forbidden: field is immutable")),
        ),
        Immutable,
        "field is immutable",
    ),
    (
        "immutable and wrong",
        422,
        body(
            "spec.selector: field is immutable; spec.replicas: must be positive",
            reason="Invalid",
            name="x",
            causes=causes(
                ("FieldValueInvalid", "spec.selector", "field is immutable"),
                ("FieldValueInvalid", "spec.replicas", "must be greater than or equal to 0"),
            ),
        ),
        Invalid,
        "must be positive",
    ),
    (
        "managedFields in the body",
        400,
        body("metadata.managedFields must be nil", reason="BadRequest"),
        Invalid,
        "must be nil",
    ),
    (
        "unknown field",
        500,
        body(TYPED + ".spec.zz: field not declared in schema"),
        Invalid,
        "do it: .spec.zz: field not declared in schema",
    ),
    (
        "two faults",
        500,
        body(TYPED + "errors:\n  .spec.a: expected list, got &{b}\n  .spec.c: field not declared in schema"),
        Invalid,
        "do it: .spec.a: expected list, got &{b}; .spec.c: field not declared in schema",
    ),
    ("wrong type", 500, body(UNABLE + "quantities must match"), Invalid, "do it: quantities must match"),
    (
        "conversion webhook",
        500,
        body(CONVERT + 'conversion webhook for g/v, Kind=W failed: Post "https://x": refused'),
        UnknownOutcome,
        "conversion webhook",
    ),
    ("silent webhook", 500, body(WEBHOOK, reason="InternalError"), Unavailable, "failed calling webhook"),
    ("etcd", 500, body("etcdserver: request timed out"), UnknownOutcome, "etcdserver"),
    ("etcd's limit", 500, body("etcdserver: request is too large"), Invalid, "do it: etcdserver: request is too large"),
    (
        "the limit of messages to etcd",
        500,
        body("rpc error: code = ResourceExhausted desc = trying to send message larger than max (2500508 vs. 2097152)"),
        Invalid,
        "larger than max",
    ),
    ("slow", 504, body("request did not complete", reason="Timeout"), UnknownOutcome, "did not complete"),
    ("too large", 413, body("limit is 3145728", reason="RequestEntityTooLarge"), Invalid, "3145728"),
    ("media type", 415, body("unsupported", reason="UnsupportedMediaType"), Invalid, "unsupported"),
    (
        "RBAC",
        403,
        body('configmaps "x" is forbidden: User "t" cannot patch', reason="Forbidden", name="x"),
        Denied,
        "cannot patch",
    ),
    (
        "namespace terminating",
        403,
        body(
            "unable to create new content in namespace n because it is being terminated",
            reason="Forbidden",
            name="x",
            causes=causes(("NamespaceTerminating", "metadata.namespace", "namespace n is being terminated")),
        ),
        NamespaceTerminating,
        "being terminated",
    ),
    ("credentials", 401, body("Unauthorized", reason="Unauthorized"), Denied, "Unauthorized"),
    ("absent", 404, body('configmaps "x" not found', reason="NotFound", name="x"), NotFound, "not found"),
    (
        "namespace absent",
        404,
        body('namespaces "n" not found', reason="NotFound", name="n", kind="namespaces"),
        NotFound,
        'namespaces "n" not found',
    ),
    ("path unknown", 404, b"404 page not found\n", KindNotServed, "status 404: 404 page not found"),
    (
        "resource unknown",
        404,
        body("the server could not find the requested resource", reason="NotFound"),
        KindNotServed,
        "could not find",
    ),
    ("overload", 429, body("too many requests", reason="TooManyRequests"), Unavailable, "too many"),
    ("starting", 503, b"<html>503</html>", Unavailable, "do it: status 503"),
    ("teapot", 418, b"", ClusterError, "do it: status 418"),
    ("array", 409, b"[1]", StaleWrite, "status 409"),
]


@pytest.mark.parametrize(
    ("status", "answer", "kind", "said"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_refusals_of_writes(status: int, answer: bytes, kind: type[ClusterError], said: str) -> None:
    error = translate(status, answer, description="do it", is_write=True)
    assert type(error) is kind
    assert error.status == status
    assert said in str(error)
    assert str(error).startswith("do it: ")


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_read_that_fails_has_no_unknown_outcome(status: int) -> None:
    assert type(translate(status, b"", description="read", is_write=False)) is Unavailable


def test_data_of_the_answer_is_kept() -> None:
    answer = body("slow", reason="TooManyRequests", causes=causes(("A", "b", "c")))
    error = translate(429, answer, description="x", is_write=True, retry_after=3.0)
    assert isinstance(error, Unavailable)
    assert (error.reason, error.retry_after) == ("TooManyRequests", 3.0)
    error = translate(422, answer, description="x", is_write=True)
    assert error.causes == (StatusCause("b", "A", "c"),)


CANARY = "c4nary!Value"


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (500, body(TYPED + f".data: expected map, got &{{{CANARY}}}"), "do it: Invalid: .data: expected map"),
        (
            500,
            body(TYPED + f"errors:\n  .data: expected map, got {CANARY}\n  .zz: field not declared in schema"),
            "do it: Invalid: .data: expected map; .zz: field not declared in schema",
        ),
        (
            500,
            body(UNABLE + "illegal base64 data at input byte 3"),
            "do it: Invalid: illegal base64 data at input byte 3",
        ),
        (
            422,
            body(
                f'Secret "x" is invalid: data[a]: Invalid value: "{CANARY}": bad',
                reason="Invalid",
                causes=causes(("FieldValueInvalid", "data[a]", f'Invalid value: "{CANARY}": bad')),
            ),
            "do it: Invalid: data[a]",
        ),
        (
            403,
            body(f'admission webhook "a.b" denied the request: {CANARY} is weak', reason="Forbidden"),
            'do it: Forbidden: admission webhook "a.b" denied the request',
        ),
        (
            409,
            body(CONFLICT, reason="Conflict", causes=causes(("FieldManagerConflict", ".data.a", 'conflict with "m1"'))),
            'do it: Conflict: .data.a: conflict with "m1"',
        ),
        (502, f"<html>{CANARY}".encode(), "do it: UnknownOutcome"),
        (400, CANARY.encode(), "do it: Invalid"),
    ],
)
def test_nothing_of_a_secret_is_repeated(status: int, answer: bytes, said: str) -> None:
    error = translate(status, answer, description="do it", is_write=True, is_secret=True)
    assert str(error) == said
    assert CANARY not in repr((error.args, error.causes, error.reason))


@pytest.mark.parametrize("secret", [False, True])
def test_what_only_others_can_end_names_the_command_that_shows_them(secret: bool) -> None:
    """Rule 10: a namespace that does not go, and a webhook that nobody answers."""
    why = "namespace n is being terminated"
    going = body(
        "unable to create new content in namespace n because it is being terminated",
        reason="Forbidden",
        causes=causes(("NamespaceTerminating", "metadata.namespace", why)),
    )
    silent = body('failed calling webhook "policy.example.org": failed to call webhook', reason="InternalError")
    assert "`kubectl describe namespace n`" in str(
        translate(403, going, description="do it", is_write=True, is_secret=secret)
    )
    told = str(translate(500, silent, description="do it", is_write=True, is_secret=secret))
    assert 'webhook "policy.example.org"' in told
    assert "`kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations`" in told


@pytest.mark.parametrize(
    ("user", "way"),
    [
        (
            "system:serviceaccount:levelgate-system:levelgate",
            "a ClusterRole with the label levelgate.dev/aggregate-to: levelgate",
        ),
        (
            "system:serviceaccount:levelgate-system:team-a",
            "bind a role that allows the request to system:serviceaccount:levelgate-system:team-a",
        ),
        ("ada", "bind a role that allows the request to ada"),
    ],
)
@pytest.mark.parametrize("secret", [False, True])
def test_whom_rbac_refuses_is_told_how_to_be_allowed(user: str, way: str, secret: bool) -> None:
    """Rule 10: verb, resource and namespace as the server names them, who was refused, and what grants it."""
    refused = f'User "{user}" cannot patch resource "secrets" in API group "" in the namespace "prod"'
    answer = body(f'secrets "x" is forbidden: {refused}', reason="Forbidden", name="x")
    told = Cause.from_error(translate(403, answer, description="do it", is_write=True, is_secret=secret)).message
    assert refused in told
    assert way in told
    assert "levelgate generate clusterrole" in told
