"""I10: no value of a Secret is in any output, whatever quotes it: refusals of the server, failing expressions, conditions (docs/semantics.md).

Looked at is everything that the cluster holds afterwards but for the Secret (statuses, records of sources, rollouts and passes, Events), what is told
of each action, transition and wait, the page, its data and the metrics of the daemon, and its traces. Commands show nothing else.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gitops import instrumentation, tracing
from gitops.reconcile.reconciler import Reconciler
from gitops.windows.window import LOCAL
from tests.support.link_platform import LinkPlatform
from tests.support.monitoring.scene import scene

SHORT, LONG, LINES = "pa55word", "c4nary of a password! " * 9, 'c4nary\nof "two" lines, it\'s long'
SECRET: dict[str, Any] = {
    "id": "secret",
    "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "default"}},
}
VALUE = "string(secret.data.password)"


def config(name: str, *, labels: str = "", text: str = "x", **more: Any) -> dict[str, Any]:
    metadata = {"name": f"${{schema.metadata.name}}-{name}", **({"labels": {"l": labels}} if labels else {})}
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}
    return {"id": name, "template": template, **more}


SERVICE = {
    "id": "service",
    "template": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"type": f"${{{VALUE}}}", "ports": [{"port": 80}]},
    },
}
QUOTING = {
    "a refused label": [config("label", labels=f"${{{VALUE}}}")],
    "a refused word": [SERVICE],
    "a failing number": [config("number", text=f"${{string(int({VALUE}))}}")],
    "a failing index": [config("index", text=f"${{{{'a': 'b'}}[{VALUE}]}}")],
    "a failing time": [config("time", text=f"${{string(timestamp({VALUE}))}}")],
    "a failing pattern": [config("pattern", text=f"${{string('x'.matches('(' + {VALUE}))}}")],
    "an includeWhen that fails": [config("maybe", includeWhen=[f"${{int({VALUE}) == 1}}"])],
    "an includeWhen that is false": [config("maybe", includeWhen=[f"${{{VALUE} == 'x'}}"])],
    "a copy that is read": [
        config("copy", text=f"${{{VALUE}}}"),
        config("reader", text="${string(int(copy.data.text))}"),
    ],
    "a readyWhen that fails": [config("ready", text=f"${{{VALUE}}}", readyWhen=["${int(ready.data.text) == 1}"])],
    "a readyWhen that is false": [config("ready", text=f"${{{VALUE}}}", readyWhen=["${ready.data.text == 'x'}"])],
}


@pytest.mark.parametrize("value", [SHORT, LONG, LINES], ids=["short", "long", "lines"])
@pytest.mark.parametrize("name", QUOTING)
async def test_it_is_nowhere(name: str, value: str) -> None:
    spans, told = InMemorySpanExporter(), list[str]()
    async with AsyncExitStack() as stack:
        tracer = stack.enter_context(tracing.create_tracer("0", SimpleSpanProcessor(spans)))
        seen = await stack.enter_async_context(scene(names=("i0",), more=[SECRET, *QUOTING[name]]))
        fleet, stage = seen.fleet, instrumentation.combine(tracing.stage_for(tracer), seen.seen.stage)
        fleet.reconciler = Reconciler(
            tracing.TracedCluster(fleet.cluster, lambda: None, tracer), "0", fleet.clock, LOCAL, stage=stage
        )
        fleet.reconciler.report = lambda one: told.append(repr(one))
        fleet.reconciler.on_transitions = lambda some: told.append(repr(some))
        encoded = base64.b64encode(value.encode()).decode()
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "data": {"password": encoded}}
        fleet.request("POST", "/api/v1/namespaces/default/secrets", body)
        for image in ("one", "two"):
            fleet.push(image)
            for _ in range(3):
                found = await seen.step(timedelta(minutes=1))
                told.append(repr(found.propagation.stays))
        told += [await seen.page(), await seen.page("/instances/g.test/Link/default/i0"), await seen.metrics()]
        sent = [span.to_json() for span in spans.get_finished_spans()]
        assert sent
        everything = dict(enumerate([*told, *sent])) | dict(objects(fleet))
        pieces = {piece for form in (value, encoded) for piece in (form[:12], json.dumps(form[:12])[1:-1])}
        assert [where for where, text in everything.items() if any(piece in text for piece in pieces)] == []
        is_quoted = any("(value of Secret default/db)" in text for text in everything.values())
        assert is_quoted == (not name.endswith("is false") and (name, value) != ("a refused label", SHORT))


def objects(fleet: LinkPlatform) -> Iterator[tuple[str, str]]:
    """All but the Secret and what the author has copied it to."""
    store = fleet.sandbox.state.store
    for resource in store.resources():
        for key, stored in store.resource_store(resource).objects.items():
            if resource != "secrets" and (resource != "configmaps" or key[0] == "levelgate-system"):
                yield f"{resource} {key}", stored.content.decode()
