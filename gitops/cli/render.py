"""Command `levelgate render`: render manifests by level, without a cluster and, for a path, without a network."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from applier.applyset.inventory import parent_body, scope_of
from gitops import source_config
from gitops.cli import describe_exit_codes, program_version
from gitops.cli.options import revision_option, schemas_option
from gitops.cli.terminal import echo_lines, print_document
from gitops.source import locations
from gitops.text import mark_of, title
from renderer import documents
from renderer.identity import Manifest, ObjectKey, applyset_id
from renderer.phrasing import format_count
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering
from renderer.render.render import render
from renderer.render.world import ClusterView
from renderer.well_known import PART_OF


@click.command(epilog=describe_exit_codes("0 rendered", "1 rendered with problems"))
@click.argument("place", metavar="PATH|URL")
@revision_option
@schemas_option
@click.option("-o", "--output", type=click.Choice(["table", "yaml", "json"]), default="table", show_default=True)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a folder for each instance, with a file for each level.",
)
def command(place: str, revision: str, schemas: tuple[str, ...], output: str, output_dir: Path | None) -> int:
    """Render a repository: every instance as manifests, sorted by level.

    Use this command to see the objects that a definition makes for its instances. The command needs no cluster. If a
    node reads the status of another node, the list shows the reading node as waiting, because only a cluster has that
    status.

    \b
    levelgate render sample-repo
    levelgate render . --revision main~1 -o yaml
    levelgate render https://git.example.com/platform.git -o json
    """
    snapshot = locations.read_location(place, revision=revision)
    types, unreadable = source_config.load_schemas(schemas)
    bundle = render([source_config.load_catalog(snapshot)], ClusterView(types=types))
    bundle = replace(bundle, problems=(*unreadable, *bundle.problems))
    if output_dir is not None:
        _write_directory(bundle, output_dir)
        click.echo(f"Wrote {format_count(len(bundle.instances), 'instance')} to {output_dir}", err=True)
    elif output == "json":
        print_document(_as_json(bundle, snapshot.revision), "json", is_sorted=True)
    elif output == "yaml":
        manifests = (
            node.manifest for rendered in bundle.sets for level in rendered.levels for node in level if node.writable
        )
        click.echo(documents.dump(manifests), nl=False)
    else:
        echo_lines(_table(bundle, f"{place}: {snapshot.describe(revision)}"))
    echo_lines(map(str, bundle.problems), err=True)
    return 1 if bundle.problems else 0


def _as_json(bundle: Rendering, revision: str) -> dict[str, Any]:
    """Return the stable document of `render -o json` (docs/reference.md)."""
    return {
        "revision": revision,
        "instances": [_instance_as_json(key, rendered) for key, rendered in bundle.instances.items()],
        "objects": {"levels": [level for rendered in bundle.sources.values() for level in _levels(rendered)]},
        "problems": [
            {"file": problem.file, "line": problem.line, "path": problem.path, "message": problem.message}
            for problem in bundle.problems
        ],
    }


def _instance_as_json(key: ObjectKey, rendered: RenderedApplySet) -> dict[str, Any]:
    return {
        "instance": {
            "apiVersion": rendered.manifest["apiVersion"],
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
        },
        "applyset": applyset_id(key),
        "levels": _levels(rendered),
        "waiting": [{"id": node.id, "for": awaited} for node in rendered.nodes for awaited in node.waiting],
        "errors": [
            *([{"id": "", "message": rendered.error}] if rendered.error else []),
            *({"id": node.id, "message": node.error} for node in rendered.nodes if node.error),
        ],
        "excluded": [{"id": excluded.id, "because": excluded.because} for excluded in rendered.excluded],
    }


def _levels(rendered: RenderedApplySet) -> list[list[dict[str, Any]]]:
    return [
        [
            {"id": node.id, "dependsOn": list(node.depends_on), "manifest": node.manifest}
            for node in level
            if not node.external
        ]
        for level in rendered.levels
    ]


def _table(bundle: Rendering, header: str) -> list[str]:
    lines = [header]
    for source in bundle.sources.values():
        if source.nodes:
            lines += ["", "Objects, definitions and instances", *map(_format_node, source.nodes)]
    for key, rendered in bundle.instances.items():
        lines += ["", title(key)]
        lines += [f"   ! {rendered.error}"] if rendered.error else []
        width = max((len(node.id) for node in rendered.nodes), default=0)
        lines += [_format_node(node, width) for node in rendered.nodes]
        lines += [f"   - {excluded.id}  excluded: {excluded.because}" for excluded in rendered.excluded]
    count = sum(len(rendered.nodes) for rendered in bundle.sets)
    waiting = sum(bool(node.waiting) for rendered in bundle.sets for node in rendered.nodes)
    lines += [
        "",
        f"{format_count(count, 'object')} of {format_count(len(bundle.instances), 'instance')} and the repository, "
        f"{waiting} waiting for data, {format_count(len(bundle.problems), 'problem')}.",
    ]
    return lines


def _format_node(node: RenderedNode, width: int = 0) -> str:
    """Return the line of a node.

    Args:
        width: length of the longest node id in the set, in characters.
    """
    mark = mark_of(node)
    object_text = f"{node.group_kind.kind}/{node.key.name}" if node.key else node.group_kind.kind
    name = object_text if node.id == str(node.key) else f"{node.id:<{max(15, width)}} {object_text}"
    place = f"  in {node.key.namespace}" if node.key and node.key.namespace and node.id == str(node.key) else ""
    note = f"   {node.error}" if node.error else f"   waits for {', '.join(node.waiting)}" if node.waiting else ""
    return f"  {node.level} {mark} {name}{place}{note}".rstrip()


def _write_directory(bundle: Rendering, directory: Path) -> None:
    """Write a folder for each set: the parent, and one file for each level. Replace the output of an earlier run.

    Raises: ClickException if `directory` has other content.
    """
    marker = directory / ".levelgate"
    if directory.exists() and any(directory.iterdir()):
        if not marker.exists():
            raise click.ClickException(f"{directory} has content from another program; name another directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    marker.write_text("levelgate render --output-dir writes this directory. The next run replaces all its content.\n")
    for rendered in bundle.sets:
        folder = directory / _folder_name(rendered)
        folder.mkdir(parents=True, exist_ok=True)
        if rendered.manifest:
            (folder / "parent.yaml").write_text(documents.dump([_parent_manifest(rendered)]))
        for number, level in enumerate(rendered.levels):
            if manifests := [_member_manifest(rendered, node) for node in level if node.writable]:
                (folder / f"level-{number}.yaml").write_text(documents.dump(manifests))


def _folder_name(rendered: RenderedApplySet) -> str:
    return (
        "/".join(filter(None, (str(rendered.parent.group_kind), rendered.parent.namespace, rendered.parent.name)))
        if rendered.manifest
        else "objects"
    )


def _parent_manifest(rendered: RenderedApplySet) -> Manifest:
    """Return the instance with the ApplySet labels and annotations that it has in the cluster."""
    scope = scope_of((node.key for node in rendered.nodes if node.key and not node.external), rendered.parent)
    body = parent_body(rendered.parent, rendered.manifest["apiVersion"], scope, version=program_version())
    metadata = rendered.manifest["metadata"]
    merged_metadata = {
        name: {**(metadata.get(name) or {}), **body["metadata"][name]} for name in ("labels", "annotations")
    }
    return {**rendered.manifest, "metadata": {**metadata, **merged_metadata}}


def _member_manifest(rendered: RenderedApplySet, node: RenderedNode) -> Manifest:
    """Return the manifest with the label of the node's set. For an object of a source itself, add no label."""
    if not rendered.manifest:
        return node.manifest
    metadata = node.manifest["metadata"]
    return {
        **node.manifest,
        "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), PART_OF: rendered.id}},
    }
