"""Command `levelgate tree`: show an instance or a source with all objects below it, by level."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import click

from gitops.cli.options import READ_EXIT_CODES, ClusterChoice, member_options, parse_ref, report_unreadable
from gitops.cli.terminal import echo, format_header, print_document
from gitops.clock import SystemClock
from gitops.explain.tree import TreeNode, read_tree, walk
from gitops.records.references import Ref, find_key, get_object
from gitops.text import align_table, format_local_time, title


@click.command(epilog=READ_EXIT_CODES)
@click.argument("ref", nargs=-1, required=True)
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the instance.  [default: the context's]")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml", "name"]), default="table", show_default=True
)
@member_options
def command(ref: tuple[str, ...], namespace: str | None, output: str, choice: ClusterChoice) -> int:
    """Show the objects below REF, such as webapp/shop or source/platform: level, node, object, health.

    Use this command to see which object of an instance is not healthy.

    \b
    levelgate tree webapp/shop -n prod
    levelgate tree source/platform
    """
    parsed_ref = parse_ref(ref)
    if parsed_ref.node:
        raise click.UsageError(f"a tree begins at an instance; use levelgate tree {parsed_ref.type}/{parsed_ref.name}")
    return asyncio.run(_tree(parsed_ref, namespace, output, choice))


async def _tree(ref: Ref, namespace: str | None, output: str, choice: ClusterChoice) -> int:
    async with choice.connect_readable(namespace) as (cluster, ref_namespace):
        key = await find_key(cluster, ref, ref_namespace)
        now = SystemClock().now()
        root = await read_tree(cluster, await get_object(cluster, ref, key), now)
    if output in {"json", "yaml"}:
        print_document(_as_json(root), output)
    elif output == "name":
        echo("\n".join(branch.key.command_reference for _, branch in walk(root)))
    else:
        echo("\n".join([format_header(cluster.name, format_local_time(now)), "", *_text(root)]))
    return report_unreadable(cluster)


def _text(root: TreeNode) -> Iterable[str]:
    rows = [["LEVEL", "OBJECT", "NODE", "HEALTH", "WHY"]]
    for depth, branch in walk(root):
        level = "" if branch.level is None else str(branch.level)
        why = branch.cause if branch.health == "Current" else branch.message
        name = f"{'  ' * depth}{title(branch.key)}"
        node = "" if branch.node == str(branch.key) else branch.node
        rows.append([level, name, node, branch.health, why])
    return align_table(rows)


def _as_json(branch: TreeNode) -> dict[str, Any]:
    return {
        **branch.key._asdict(),
        "level": branch.level,
        "node": branch.node,
        "health": branch.health,
        "message": branch.message,
        "cause": branch.cause,
        "members": [_as_json(member) for member in branch.children],
    }
