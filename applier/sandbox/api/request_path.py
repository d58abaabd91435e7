"""Parser that derives the resource and the verb of a request from its method and path.

The parser processes text only, and does not check that the kind exists.

Source: Kubernetes API concepts, "Resource URIs".
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs, unquote

from applier.sandbox.wire import Request, UnknownPathError, method_not_allowed_refusal
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RequestPath:
    """Resource, verb and query of a request."""

    verb: str
    group: str
    version: str
    plural: str
    namespace: str
    """Namespace of the request, or an empty string for all namespaces or a cluster-scoped object."""
    name: str
    """Name of the object, or an empty string for a collection."""
    subresource: str
    query: Mapping[str, str]


def parse_query(target: str) -> dict[str, str]:
    """Return the query parameters of `target`.

    If the query repeats a parameter, the first value counts, as in the API server.
    """
    _, _, query = target.partition("?")
    if not query:
        return {}
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}


def parse_flag(query: Mapping[str, str], name: str) -> bool:
    """Return the boolean parameter `name` of `query`, or False if the parameter is absent.

    Every value is true except `false` and `0`, as in the API server.
    """
    return query.get(name, "0").lower() not in ("false", "0")


def path_segments(target: str) -> list[str]:
    """Return the percent-decoded segments of the path in `target`, without the query."""
    path = target.partition("?")[0]
    return [unquote(segment) for segment in path.strip("/").split("/")]


def parse_request_path(request: Request) -> RequestPath:
    """Return the parsed path of a request below /api or /apis.

    Raises: UnknownPathError if the path has another form, or Refusal (405) if the path does not support the method.
    """
    match path_segments(request.target):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise UnknownPathError
    query = parse_query(request.target)
    namespace, plural, name, subresource = _parse_resource_segments(rest)
    verb = _determine_verb(request.method, name, subresource, query)
    return RequestPath(verb, group, version, plural, namespace, name, subresource, query)


def _parse_resource_segments(resource_segments: list[str]) -> tuple[str, str, str, str]:
    """Return namespace, plural, name and subresource of a request.

    The segment `namespaces` may begin the path of a namespaced object, or of a Namespace and its subresources.
    """
    match resource_segments:
        case ["namespaces", name, "status" | "finalize"]:
            return "", "namespaces", name, resource_segments[2]
        case ["namespaces", namespace, plural, *more] if len(more) <= 2:
            name, subresource = [*more, "", ""][:2]
            return namespace, plural, name, subresource
        case [plural, *more] if len(more) <= 2:
            name, subresource = [*more, "", ""][:2]
            return "", plural, name, subresource
        case _:
            raise UnknownPathError


def _determine_verb(method: str, name: str, subresource: str, query: Mapping[str, str]) -> str:
    match method, bool(name):
        case "GET", True:
            return "get"
        case "GET", False:
            return "watch" if parse_flag(query, "watch") else "list"
        case "POST", False:
            return "create"
        case "PUT", True:
            return "update"
        case "PATCH", True:
            return "patch"
        case "DELETE", True if not subresource:
            return "delete"
        case "DELETE", False:
            return "deletecollection"
        case _:
            raise method_not_allowed_refusal()
