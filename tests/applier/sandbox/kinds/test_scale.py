"""The scale of an object whose selector no real server would have stored; `tests/conformance/test_scale.py` has the others."""

from __future__ import annotations

from typing import Any

import orjson

from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def test_an_invalid_selector_is_refused() -> None:
    sandbox = Sandbox()
    container = {"name": "c", "image": "c"}
    template: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In"}]}
    body = {"metadata": {"name": "web"}, "spec": {"selector": selector, "template": template}}
    assert sandbox.handle(Request("POST", DEPLOYMENTS, body=orjson.dumps(body))).status == 201
    response = sandbox.handle(Request("GET", f"{DEPLOYMENTS}/web/scale"))
    assert response.status == 400
    assert b"label a: operator In needs values" in response.body
