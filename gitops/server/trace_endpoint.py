"""Endpoint that tells what the decisions of the daemon have read of an object. It answers this machine alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from applier.loopback import is_loopback
from gitops.queries import QueryGraph
from gitops.reconcile.object_trace import trace_object
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.phrasing import suggestion_or_names

PATH: Final = "/debug/object"


@dataclass
class TraceEndpoint:
    """Handler of requests such as `/debug/object?key=ConfigMap/prod/shop&cluster=local`."""

    graphs: Callable[[], Mapping[str, QueryGraph]]
    """Function that returns the graph of each cluster, by name. The cluster of the daemon is the first one."""

    async def handle_request(self, request: web.Request) -> web.Response:
        """Return the trace of an object as JSON, or a text with the reason why there is none."""
        if not is_loopback(request.remote or ""):
            raise web.HTTPForbidden(
                text="traces are for this machine alone; ask from the pod, or by kubectl port-forward\n"
            )
        text, graphs = request.query.get("key", ""), self.graphs()
        key = ObjectKey.parse(text)
        if key is None:
            raise web.HTTPBadRequest(text=f"{text!r} is no object; write KIND[.GROUP]/[NAMESPACE/]NAME\n")
        cluster = request.query.get("cluster") or next(iter(graphs), "")
        if cluster not in graphs:
            raise web.HTTPNotFound(text=f"no reconciled cluster {cluster!r}{suggestion_or_names(cluster, graphs)}\n")
        return web.json_response(trace_object(graphs[cluster], key).to_dict())
