"""The question whether one may do something (`kubectl auth can-i`): whoever connects to a sandbox may do everything.

Nothing is stored, so the kind is not among those that the sandbox keeps. Source: Kubernetes, "Authorization Overview".
"""

from __future__ import annotations

import orjson

from applier.sandbox.addresses import Address
from applier.sandbox.wire import Request, Response, Subject, bad_request, invalid, invalid_object

_KIND = "SelfSubjectAccessReview"
_ATTRIBUTES = ("resourceAttributes", "nonResourceAttributes")


def is_review(where: Address) -> bool:
    return (where.group, where.version, where.plural, where.verb) == (
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "create",
    )


def review(request: Request) -> Response:
    """The answer: allowed. Raises Refusal (400, 422) where it does not ask about exactly one thing."""
    try:
        spec = orjson.loads(request.body)["spec"]
        asked = [name for name in _ATTRIBUTES if spec.get(name)]
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        raise bad_request("the body is no SelfSubjectAccessReview") from None
    if len(asked) != 1:
        subject = Subject("authorization.k8s.io", "selfsubjectaccessreviews", _KIND)
        why = f"exactly one of {' or '.join(_ATTRIBUTES)} must be specified"
        raise invalid_object(subject, [invalid("spec." + _ATTRIBUTES[0], None, why)])
    answer = {
        "kind": _KIND,
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": True, "reason": "whoever connects to a sandbox may do everything"},
    }
    return Response(201, orjson.dumps(answer))
