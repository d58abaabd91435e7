"""Command `levelgate debug`: show what the decisions of a running daemon have read of an object."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

import aiohttp
import click
import orjson

from gitops.cli import describe_exit_codes
from gitops.cli.terminal import echo, print_document
from gitops.config.fields import DEFAULT_ADDRESS
from gitops.errors import GitopsError
from gitops.server import trace_endpoint
from renderer.identity import ObjectKey
from renderer.phrasing import format_count

_TIMEOUT_SECONDS: Final = 30.0
_MAX_ANSWER_BYTES: Final = 8 << 20


class DebugError(GitopsError):
    """Failure to ask the daemon. The text contains the reason and advice."""


@click.command(
    epilog=describe_exit_codes("0 shown", "1 no daemon answers, or it knows no such object", "2 wrong usage")
)
@click.argument("key", metavar="OBJECT")
@click.option(
    "--url", default=f"http://{DEFAULT_ADDRESS}", show_default=True, help="Address of the daemon on this machine."
)
@click.option("--cluster", metavar="NAME", default="", help="Member of the fleet.  [default: the daemon's own cluster]")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def command(key: str, url: str, cluster: str, output: str) -> int:
    """Show why the daemon decided about OBJECT: what read it, why that was computed last, and at what cost.

    Use this command to find out why a reconciliation ran, or why a change has no effect. OBJECT is
    KIND[.GROUP]/[NAMESPACE/]NAME. The daemon answers on its own machine only; in a cluster, forward its port first.

    \b
    levelgate debug ConfigMap/prod/shop-config
    kubectl -n levelgate-system port-forward deploy/levelgate 8480
    levelgate debug WebApp.kro.run/prod/shop -o json
    """
    if ObjectKey.parse(key) is None:
        raise click.UsageError(
            f"{key!r} is no object; write KIND[.GROUP]/[NAMESPACE/]NAME, such as ConfigMap/prod/shop"
        )
    found = asyncio.run(_ask(url, key, cluster))
    if output == "table":
        for line in _lines(found):
            echo(line)
    else:
        print_document(found, output)
    if not found["inputs"]:
        raise DebugError(f"no decision has read {key}; check its kind, group, namespace and name")
    return 0


async def _ask(url: str, key: str, cluster: str) -> dict[str, Any]:
    """Return the trace of an object from the daemon. Raises: DebugError."""
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url.rstrip('/')}{trace_endpoint.PATH}", params={"key": key, "cluster": cluster}) as response,
        ):
            body = await response.content.read(_MAX_ANSWER_BYTES)
            if response.status != 200:
                raise DebugError(f"{url} answers {response.status}: {body.decode(errors='replace').strip()[:500]}")
            answer: dict[str, Any] = orjson.loads(body)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise DebugError(
            f"no daemon answers at {url}: {reason}; start levelgate run, or name the address of one with --url"
        ) from None
    return answer


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table: for each result, when and why it was computed, and how it depends on the object."""
    roots = found["roots"]
    more = "" if found["complete"] else " or more"
    yield f"{found['object']}: {format_count(len(roots), 'dependent result')}{more}"
    for name in found["inputs"]:
        yield f"  input     {name}"
    for root in roots:
        yield ""
        yield root["name"]
        work = f", {format_count(root['evaluations'], 'evaluation')} in {root['milliseconds']:g} ms"
        yield f"  computed  {root['computedAt'] + work if root['computedAt'] else 'never'}"
        yield f"  because   {' < '.join(root['cause']) or '-'}"
        yield f"  reads     {' > '.join(root['path'])}"
