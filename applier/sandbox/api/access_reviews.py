"""Reviews by which a client learns its permissions (`kubectl auth can-i`) and its identity (`kubectl auth whoami`).

A sandbox has no users, so every client is anonymous and may send every request. The server does not store reviews, so
the registry does not contain the kinds of reviews.

Source: Kubernetes, "Authorization Overview", "Authenticating".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.wire import RefusalSubject, Request, Response, bad_request, invalid_object, invalid_value

_ATTRIBUTE_FIELDS = ("resourceAttributes", "nonResourceAttributes")


def is_review(request_path: RequestPath) -> bool:
    """Return whether the request at `request_path` creates a review."""
    return request_path.verb == "create" and (request_path.group, request_path.version, request_path.plural) in _REVIEWS


def answer_review(request_path: RequestPath, request: Request) -> Response:
    """Return the answer to the review in the body of `request`, without storing the review.

    Raises: Refusal (400 if the review is malformed, 422 if an access review does not have exactly one field of
    attributes).
    """
    kind, build_answer = _REVIEWS[request_path.group, request_path.version, request_path.plural]
    try:
        review_request = orjson.loads(request.body)
        body = build_answer(review_request)
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        raise bad_request(f"the body is not a {kind} object; send a {kind} as JSON") from None
    type_meta = {"kind": kind, "apiVersion": f"{request_path.group}/{request_path.version}", "metadata": {}}
    return Response(201, orjson.dumps({**type_meta, **body}))


def _review_access(review_request: Mapping[str, Any]) -> dict[str, Any]:
    spec = review_request["spec"]
    if len([name for name in _ATTRIBUTE_FIELDS if spec.get(name)]) != 1:
        subject = RefusalSubject("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
        detail = f"exactly one of {' or '.join(_ATTRIBUTE_FIELDS)} must be specified"
        raise invalid_object(subject, [invalid_value("spec." + _ATTRIBUTE_FIELDS[0], None, detail)])
    return {"spec": spec, "status": {"allowed": True, "reason": "every client of a sandbox may do everything"}}


def _review_identity(_: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": {"userInfo": {"username": "system:anonymous", "groups": ["system:unauthenticated"]}}}


_REVIEWS: Mapping[tuple[str, str, str], tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", _review_access),
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): ("SelfSubjectReview", _review_identity),
}
