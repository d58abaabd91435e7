"""Questions about oneself: may I do this (`kubectl auth can-i`), and who am I (`kubectl auth whoami`). A sandbox has no users, so whoever connects
is nobody in particular and may do everything.

Nothing is stored, so the kinds are not among those that the sandbox keeps. Source: Kubernetes, "Authorization Overview", "Authenticating".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.wire import RefusalSubject, Request, Response, bad_request, invalid, invalid_object

_ATTRIBUTES = ("resourceAttributes", "nonResourceAttributes")


def is_review(where: RequestPath) -> bool:
    return where.verb == "create" and (where.group, where.version, where.plural) in _REVIEWS


def review(where: RequestPath, request: Request) -> Response:
    """The answer. Raises Refusal (400, 422) where the question cannot be read, or does not ask about exactly one thing."""
    kind, answer = _REVIEWS[where.group, where.version, where.plural]
    try:
        found = orjson.loads(request.body)
        body = answer(found)
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        raise bad_request(f"the body is no {kind}") from None
    head = {"kind": kind, "apiVersion": f"{where.group}/{where.version}", "metadata": {}}
    return Response(201, orjson.dumps({**head, **body}))


def _may(asked: Mapping[str, Any]) -> dict[str, Any]:
    spec = asked["spec"]
    if len([name for name in _ATTRIBUTES if spec.get(name)]) != 1:
        subject = RefusalSubject("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
        why = f"exactly one of {' or '.join(_ATTRIBUTES)} must be specified"
        raise invalid_object(subject, [invalid("spec." + _ATTRIBUTES[0], None, why)])
    return {"spec": spec, "status": {"allowed": True, "reason": "whoever connects to a sandbox may do everything"}}


def _who(_: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": {"userInfo": {"username": "system:anonymous", "groups": ["system:unauthenticated"]}}}


_REVIEWS: Mapping[tuple[str, str, str], tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", _may),
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): ("SelfSubjectReview", _who),
}
