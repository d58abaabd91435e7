"""Command `levelgate generate`: CRDs, ClusterRoles, example instances, diagrams and JSON Schemas from definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import click
import orjson

from gitops.cli import describe_exit_codes
from gitops.cli.terminal import echo_lines
from gitops.config.schema import CONFIG_SCHEMA
from gitops.rollouts import policy_schema
from gitops.source import locations
from gitops.windows import window_reader
from renderer import documents
from renderer.catalog.catalog import load
from renderer.definition.compile import Definition
from renderer.export import json_schema
from renderer.export.cluster_role import build_cluster_role
from renderer.export.diagram import render_dot, render_mermaid
from renderer.export.example import build_example
from renderer.identity import Manifest
from renderer.kinds import OWN_API_VERSION, POLICY, WINDOW
from renderer.phrasing import format_count

_DEFINITION = re.compile(rb"""kind["']?:\s*["']?ResourceGraphDefinition""")
"""Pattern of a definition, which recognizes a file with a definition even if the file cannot be parsed."""
_FORMAT = click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)


_EXIT_CODES = describe_exit_codes("0 every definition is read", "1 a definition cannot be read")


@click.group(name="generate", epilog=_EXIT_CODES)
def command() -> None:
    """Make artefacts from definitions, without a cluster. PATH is a file or a directory. --kind chooses one kind.

    \b
    levelgate generate crd sample-repo/definitions
    """


def _definition_command(function: Callable[..., None]) -> click.Command:
    """Return the subcommand that calls `function` with the definitions in PATH.

    If the subcommand cannot read a definition, its exit code is 1.
    """

    @command.command(epilog=_EXIT_CODES)
    @click.argument("places", metavar="PATH...", nargs=-1, required=True)
    @click.option("--kind", metavar="KIND", default="", help="Only the definition of this kind.")
    @wraps(function)
    def run(places: tuple[str, ...], kind: str, **options: Any) -> int:
        definitions, code = _read_definitions(places, kind)
        function(definitions, **options)
        return code

    return run


@_definition_command
@_FORMAT
def crd(definitions: list[Definition], output: str) -> None:
    """Print the CustomResourceDefinition of each definition.

    Use this command to see, or to apply by hand, the CRD that levelgate run would apply.

    \b
    levelgate generate crd sample-repo/definitions | kubectl apply --server-side -f -
    """
    _print((definition.crd for definition in definitions), output)


@_definition_command
@_FORMAT
def clusterrole(definitions: list[Definition], output: str) -> None:
    """Print a ClusterRole for each definition: permissions for its kind, and for the kinds in its templates.

    Use this command before you merge a new definition. deploy/kubernetes.yaml aggregates the ClusterRoles by their
    label. The ClusterRoles leave out permissions that a template grants to other users.

    \b
    levelgate generate clusterrole sample-repo/definitions | kubectl apply --server-side -f -
    """
    _print(map(build_cluster_role, definitions), output)


@_definition_command
@_FORMAT
@click.option("--all-fields", is_flag=True, help="Also print optional fields without a default.")
def instance(definitions: list[Definition], output: str, all_fields: bool) -> None:
    """Print an example instance of each definition, with required fields and fields with a default.

    Use this command to start a new instance.

    \b
    levelgate generate instance sample-repo/definitions --kind WebApp > hello.yaml
    """
    _print((build_example(definition, all_fields=all_fields) for definition in definitions), output)


@_definition_command
@click.option("--format", "form", type=click.Choice(["mermaid", "dot"]), default="mermaid", show_default=True)
def diagram(definitions: list[Definition], form: str) -> None:
    """Print the graph of each definition as Mermaid or Graphviz text.

    Use this command for documentation, or to review the order of a definition.

    \b
    levelgate generate diagram sample-repo/definitions --kind WebApp --format dot | dot -Tsvg > webapp.svg
    """
    click.echo("\n".join(map(render_mermaid if form == "mermaid" else render_dot, definitions)), nl=False)


@_definition_command
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a file for each kind, GROUP/KIND_VERSION.json, instead of printing one schema for all kinds.",
)
def schema(definitions: list[Definition], output_dir: Path | None) -> None:
    """Print JSON Schemas for editors: of instances, definitions, windows, policies and levelgate.yaml.

    Use this command to get completion and error messages in your editor.

    \b
    levelgate generate schema sample-repo > .vscode/levelgate.json
    levelgate generate schema sample-repo --output-dir schemas
    """
    schemas = editor_schemas(definitions)
    if output_dir is None:
        click.echo(_json(json_schema.combine_schemas(schemas)))
        return
    for path, content in schema_files(schemas):
        _write(output_dir / path, content)
    click.echo(f"Wrote {format_count(len(schemas), 'schema')} to {output_dir}", err=True)


def editor_schemas(definitions: Iterable[Definition]) -> list[dict[str, Any]]:
    """Return the JSON Schemas of definitions, windows, policies, levelgate.yaml, and the instances of `definitions`."""
    return [
        json_schema.definition_schema(),
        json_schema.spec_schema(OWN_API_VERSION, WINDOW, window_reader.SPEC),
        json_schema.spec_schema(OWN_API_VERSION, POLICY, policy_schema.SPEC),
        json_schema.object_schema(CONFIG_SCHEMA),
        *map(json_schema.instance_schema, definitions),
    ]


def schema_files(schemas: Iterable[dict[str, Any]]) -> Iterator[tuple[Path, bytes]]:
    """Yield the path and content of one file for each kind, such as `kro.run/webapp_v1alpha1.json`."""
    for kind_schema in schemas:
        group, _, version = kind_schema["properties"]["apiVersion"]["const"].rpartition("/")
        yield Path(group) / f"{kind_schema['title'].lower()}_{version}.json", _json(kind_schema) + b"\n"


def _read_definitions(places: Collection[str], kind: str) -> tuple[list[Definition], int]:
    """Return the definitions in `places`, sorted by kind, and the exit code: 1 if a definition is broken.

    The function prints the problems of definitions, and no other problems.

    Raises: ClickException if `places` contain neither a definition nor a problem.
    """
    files: dict[str, bytes] = {}
    for place in places:
        if Path(place).is_file():
            files[place] = _read_bytes(Path(place))
        else:
            files |= {f"{place}/{path}": file.data for path, file in locations.read_location(place).files.items()}
    catalog = load(files)
    definitions = [
        definition for _, definition in sorted(catalog.definitions.items()) if kind in ("", definition.group_kind.kind)
    ]
    unreadable_files = {file for file in catalog.unreadable_files if _DEFINITION.search(files.get(file, b""))}
    broken_files = {origin.file for origin in catalog.broken.values()} | unreadable_files
    problems = [problem for problem in catalog.problems if problem.file in broken_files]
    echo_lines(map(str, problems), err=True)
    if not definitions and not problems:
        kinds = ", ".join(sorted(group_kind.kind for group_kind in catalog.definitions))
        raise click.ClickException(
            f"no definition in {', '.join(places)} defines kind {kind}; name one of {kinds}"
            if kind and kinds
            else f"no definition found in {', '.join(places)}; name a path with definitions"
        )
    return definitions, 1 if problems else 0


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror}; check the file") from None


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror}; check the directory") from None


def _print(manifests: Iterable[Manifest], output: str) -> None:
    if output == "yaml":
        click.echo(documents.dump(manifests), nl=False)
    else:
        click.echo(_json({"apiVersion": "v1", "kind": "List", "items": list(manifests)}))


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
