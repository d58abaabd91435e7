"""Traces: a span for each part of the work and each write, where the standard variables ask for them, and nothing at all elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer

from applier.cluster import Cluster
from applier.sandbox.endpoints.transport import RequestHandler
from gitops import tracing
from gitops.instrumentation import Stage, combine
from renderer.identity import ObjectKey
from tests.support.environment import IN_CI
from tests.support.git.repository import WorkTree
from tests.support.link_platform import LinkPlatform
from tests.support.platform import commit_id


def named(spans: tuple[ReadableSpan, ...], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@dataclass
class TracedPlatform(LinkPlatform):
    """A platform whose process writes spans."""

    tracer: Tracer = field(kw_only=True)

    def connect(self, door: RequestHandler) -> Cluster:
        return tracing.TracedCluster(super().connect(door), lambda: None, self.tracer)


def test_a_pass_is_a_span_and_all_else_is_within_it() -> None:
    kept = InMemorySpanExporter()
    with (
        tracing.create_tracer("0.1.0", SimpleSpanProcessor(kept)) as tracer,
        TracedPlatform(names=("i0",), tracer=tracer) as fleet,
    ):
        fleet.restart(stage=tracing.stage_for(tracer))
        fleet.push()
        for _ in range(3):
            fleet.step()
        gone = ObjectKey("apps", "Deployment", "default", "gone")
        fleet.call(fleet.cluster.merge(gone, {"metadata": {"labels": {"a": "b"}}}, manager="levelgate"))
        fleet.call(fleet.cluster.delete(gone, uid="another", resource_version=None))
        spans = kept.get_finished_spans()
    first = named(spans, "pass")[0]
    assert attributes(first) == {"levelgate.revisions": (f"platform@{commit_id(1)}",)}
    for name in ("observe", "render", "plan", "apply", "conclude"):
        inner = named(spans, name)
        assert inner
        assert all(span.parent for span in inner)
    write = next(span for span in named(spans, "apply object") if "Deployment" in attributes(span)["levelgate.object"])
    assert attributes(write) == {
        "levelgate.object": "Deployment.apps/default/i0-app",
        "levelgate.instance": "Link/default/i0",
        "levelgate.revision": commit_id(1)[:12],
    }
    (delete,) = named(spans, "delete object")
    assert attributes(delete) == {"levelgate.object": "Deployment.apps/default/gone"}
    assert attributes(named(spans, "merge object")[-1]) == {"levelgate.object": "Deployment.apps/default/gone"}
    assert write.parent
    assert write.parent.span_id in {span.context.span_id for span in named(spans, "apply") if span.context}
    assert spans[0].resource.attributes["service.name"] == "levelgate"


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """A receiver of OTLP over HTTP on this machine: its address, and the requests that it got, decoded."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    received: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            known = (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            if known:
                received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()
        thread.join()


def test_the_spans_of_a_run_reach_a_collector(tmp_path: Path) -> None:
    """The command itself, with the exporter of the extra and the standard variables."""
    if find_spec("opentelemetry.exporter") is None and not IN_CI:
        pytest.skip("the OTLP exporter is not installed: make venv")
    work = WorkTree.create(tmp_path / "platform")
    commit = work.commit(one="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n")
    with collector() as (endpoint, received):
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "c")}
        begin = "from gitops.cli import main; main()"
        program = (sys.executable, "-c", begin, "run", "--once", "--sandbox", "--source", str(work.path))
        done = subprocess.run(
            program, env={**os.environ, **told}, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
    (service,) = {
        one.value.string_value
        for request in received
        for resource in request.resource_spans
        for one in resource.resource.attributes
        if one.key == "service.name"
    }
    assert service == "levelgate"
    spans = [
        span
        for request in received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    names = {span.span_id: span.name for span in spans}
    assert {"ask", "fetch", "pass", "observe", "render", "plan", "apply", "apply object", "conclude"} <= {
        *names.values()
    }
    written = {
        one.value.string_value: names[span.parent_span_id]
        for span in spans
        for one in span.attributes
        if one.key == "levelgate.object"
    }
    assert written["ConfigMap/default/one"] == "apply"
    (first, *_) = (span for span in spans if span.name == "pass")
    (revisions,) = (one.value.array_value.values for one in first.attributes if one.key == "levelgate.revisions")
    assert [one.string_value for one in revisions] == [f"platform@{commit}"]


def test_what_fails_says_so() -> None:
    kept = InMemorySpanExporter()
    with tracing.create_tracer("0.1.0", SimpleSpanProcessor(kept)) as tracer:
        with pytest.raises(ValueError, match="x"), tracing.stage_for(tracer)("fetch", source="platform"):
            raise ValueError("x")
        (span,) = kept.get_finished_spans()
    assert attributes(span) == {"levelgate.source": "platform", "error.type": "ValueError"}
    assert (span.status.status_code, span.status.description, span.events) == (StatusCode.ERROR, None, ())


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_standard_variables_say_whether(environment: dict[str, str], asked: bool) -> None:
    assert tracing.is_enabled(environment) is asked


def test_without_the_extra_whoever_asks_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    asked = {"OTEL_TRACES_EXPORTER": "otlp"}
    message = r"pip install 'levelgate\[tracing\]'"
    with pytest.raises(tracing.NotInstalled, match=message), tracing.open_tracer("0.1.0", asked):
        pass


def test_nothing_is_traced_and_nothing_imported_unless_somebody_asks() -> None:
    program = (
        "import sys; from gitops import tracing\n"
        "with tracing.open_tracer('0', {}) as tracer: assert tracer is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_stages_are_told_to_everyone_in_order() -> None:
    heard: list[str] = []

    class Hearing:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            heard.append(f"{self.name} begins")

        def __exit__(self, *_: object) -> None:
            heard.append(f"{self.name} ends")

    def hearing(who: str) -> Stage:
        return lambda name, /, **_: Hearing(f"{who} {name}")

    stage = combine(hearing("a"), hearing("b"))
    with stage("render"):
        pass
    assert heard == ["a render begins", "b render begins", "b render ends", "a render ends"]
