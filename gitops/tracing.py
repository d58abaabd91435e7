"""Traces: a span for each stage and each write, exported according to the standard `OTEL_` variables.

Only this module imports opentelemetry, which the extra `levelgate[tracing]` installs. If no `OTEL_` variable names a
destination, Levelgate makes no traces and does not import opentelemetry.

Source: OpenTelemetry, "Environment Variable Specification", "OTLP Exporter Configuration".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from applier.cluster import Object
from applier.fenced_cluster import FencedCluster
from applier.state.observed import annotation
from gitops.errors import GitopsError
from gitops.instrumentation import Stage, no_stage
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Tracer

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FLUSH_TIMEOUT_MILLISECONDS: Final = 3000
"""Time limit in milliseconds for the process to send the last spans before it ends."""


class NotInstalled(GitopsError):
    """Error of an environment that requests traces while opentelemetry is not installed."""


def is_enabled(environment: Mapping[str, str]) -> bool:
    """Return whether a variable names a destination for traces, and no variable disables traces."""
    is_disabled = (
        environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none"
    )
    return not is_disabled and (
        environment.get("OTEL_TRACES_EXPORTER") == "otlp" or any(map(environment.get, _ENDPOINTS))
    )


@contextmanager
def open_tracer(version: str, environment: Mapping[str, str] = os.environ) -> Iterator[Tracer | None]:
    """Yield a tracer, or None if `environment` does not request traces. Raises: NotInstalled."""
    if not is_enabled(environment):
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise NotInstalled(
            "the environment requests traces (OTEL_...), but opentelemetry is not installed; "
            "run `pip install 'levelgate[tracing]'`, or set OTEL_TRACES_EXPORTER=none"
        ) from None
    with create_tracer(version, BatchSpanProcessor(OTLPSpanExporter())) as tracer:
        yield tracer


@contextmanager
def create_tracer(version: str, processor: SpanProcessor) -> Iterator[Tracer]:
    """Yield a tracer that sends spans to `processor`. At the end, send the last spans within a time limit."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    attributes = {"service.version": version}
    if "OTEL_SERVICE_NAME" not in os.environ and "service.name" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        attributes["service.name"] = "levelgate"
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    provider.add_span_processor(processor)
    try:
        yield provider.get_tracer("levelgate", version)
    finally:
        provider.force_flush(_FLUSH_TIMEOUT_MILLISECONDS)
        provider.shutdown()


def stage_for(tracer: Tracer | None) -> Stage:
    """Return a stage that opens a span inside the enclosing stage's span. Without a tracer, the stage does nothing.

    The span of a full reconciliation has the commits of its sources. Any other span has the attributes of its stage.
    """
    if tracer is None:
        return no_stage

    def stage(name: str, /, **about: str) -> AbstractContextManager[None]:
        if name == "pass":
            return _span(
                tracer, name, {"levelgate.revisions": [f"{source}@{commit}" for source, commit in about.items()]}
            )
        return _span(tracer, name, {f"levelgate.{key}": text for key, text in about.items()})

    return stage


@contextmanager
def _span(tracer: Tracer, name: str, attributes: Mapping[str, str | list[str]]) -> Iterator[None]:
    """Open a span. If the block fails, record the type of the exception.

    The span leaves out the text of the exception, because the text may quote the value of a Secret (I10).
    """
    from opentelemetry.trace import Status, StatusCode

    with tracer.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise


@dataclass
class TracedCluster(FencedCluster):
    """Fenced cluster that opens a span for each write. The span names object, instance and commit."""

    tracer: Tracer

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        with self._span("apply object", ObjectKey.from_manifest(manifest), manifest):
            return await super().apply(manifest, manager=manager, force=force, dry_run=dry_run, subresource=subresource)

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        with self._span("merge object", key, patch):
            return await super().merge(key, patch, manager=manager)

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        with self._span("delete object", key, {}):
            await super().delete(key, uid=uid, resource_version=resource_version, propagation=propagation)

    def _span(self, name: str, key: ObjectKey, body: Object) -> AbstractContextManager[None]:
        attributes = {
            "levelgate.object": str(key),
            "levelgate.instance": annotation(body, well_known.INSTANCE),
            "levelgate.revision": annotation(body, well_known.COMMIT),
        }
        return _span(self.tracer, name, {key: text for key, text in attributes.items() if text})
