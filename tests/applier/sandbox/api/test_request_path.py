"""Verb and resource of a request."""

from __future__ import annotations

import pytest

from applier.sandbox.api.request_path import parse_request_path
from applier.sandbox.wire import Refusal, Request, UnknownPathError


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/pods?watch=1", ("watch", "", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/pods?watch=false", ("list", "", "v1", "pods", "", "", "")),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            ("patch", "apps", "v1", "deployments", "a", "b", "scale"),
        ),
        ("PUT", "/api/v1/namespaces/a/finalize", ("update", "", "v1", "namespaces", "", "a", "finalize")),
        ("DELETE", "/api/v1/namespaces/a", ("delete", "", "v1", "namespaces", "", "a", "")),
        ("DELETE", "/api/v1/namespaces/a/pods", ("deletecollection", "", "v1", "pods", "a", "", "")),
    ],
)
def test_paths(method: str, target: str, expected: tuple[str, ...]) -> None:
    path = parse_request_path(Request(method, target))
    found = (path.verb, path.group, path.version, path.plural, path.namespace, path.name, path.subresource)
    assert found == expected


def test_what_no_resource_has_is_refused() -> None:
    with pytest.raises(UnknownPathError):
        parse_request_path(Request("GET", "/api/v1/namespaces/a/pods/b/status/c"))
    with pytest.raises(Refusal, match="does not allow this method"):
        parse_request_path(Request("POST", "/api/v1/namespaces/a/pods/b"))
