"""`levelgate plan`: what a commit would change in the cluster, level by level. Writes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import orjson

from applier.adoption import Adoption
from applier.cluster import Cluster
from applier.plan import NodePlan, SetPlan, Verb
from applier.prune import Fate, Orphan
from gitops import compose
from gitops.cli import program_version
from gitops.cli.options import ClusterChoice, adopt_option, cluster_options, refuse_beside_config
from gitops.cli.text import described, local, place, title
from gitops.clock import SystemClock
from gitops.config import Config, read
from gitops.errors import SourceError
from gitops.known import Pass
from gitops.propagation.gates import Fact
from gitops.reconcile import Reconciler
from gitops.record import read_records
from gitops.sources import SourceState
from renderer.identity import ObjectKey
from renderer.model import RenderedSet
from renderer.scope import suggestion

_MARKS = {
    Verb.CREATE: "+",
    Verb.UPDATE: "~",
    Verb.HEAL: "~",
    Verb.REPLACE: "-/+",
    Verb.ADOPT: "<",
    Verb.RECORD: " ",
    Verb.NONE: " ",
    Verb.LOOK: "?",
    Verb.UNKNOWN: "?",
}


@click.command()
@click.argument("place", metavar="PATH|URL")
@click.option(
    "--revision", metavar="REV", default="", help="Plan this commit (branch, tag or id) instead of the working tree."
)
@click.option(
    "--source",
    metavar="NAME",
    default="",
    help="The source that this repository is in the cluster.  [default: the one whose URL and path fit]",
)
@adopt_option
@click.option(
    "-c",
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Plan what `run` with this configuration would do with the source; --adopt then stands in it.",
)
@click.option("--exit-code", is_flag=True, help="Exit 2 when there are changes.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@cluster_options
def command(
    place: str,
    revision: str,
    source: str,
    adopt: Adoption,
    file: Path | None,
    exit_code: bool,
    output: str,
    choice: ClusterChoice,
) -> int:
    """Show what a repository would create, update and delete in the cluster, in the order in which it would happen.

    Marks: + create, ~ update, -/+ replace, < adopt, - delete, ? not knowable yet, ! cannot be done.

    \b
    levelgate plan . --source platform
    levelgate plan . --source platform --revision main --exit-code
    """
    if file:
        refuse_beside_config(adopt="--adopt")
    config = read(file) if file else None
    return asyncio.run(_plan(place, revision, source, adopt, config, choice, exit_code=exit_code, output=output))


async def _plan(
    place: str,
    revision: str,
    source: str,
    adopt: Adoption,
    config: Config | None,
    choice: ClusterChoice,
    *,
    exit_code: bool,
    output: str,
) -> int:
    snapshot = compose.read(place, revision=revision)
    if config:
        choice = choice.or_context(config.context)
    cluster = await choice.connect()
    try:
        named = source or await _source_of(cluster, place)
        name = named or compose.source_config(place).name
        catalog = compose.catalog_of(snapshot, source=name)
        state = _configured(SourceState(catalog, adoption=adopt), name, config)
        facts = {one.name: Fact(None, "a plan does not ask") for one in config.externals} if config else None
        known = (lambda _: facts) if facts is not None else None
        found = await Reconciler(cluster, program_version(), SystemClock(), facts=known).preview([state])
    finally:
        await cluster.close()
    counts = count(found)
    if output == "json":
        click.echo(
            orjson.dumps(
                _as_json(found, snapshot.revision, name, counts), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
            )
        )
    else:
        what = f"Plan of {name}: {described(snapshot, revision)}, against cluster {cluster.name}"
        header = f"{what}\n{local(SystemClock().now())}. Nothing was written."
        click.echo("\n".join([header, *_text(found), "", *_footer(found, counts, named=bool(named))]))
    if found.bundle.problems:
        return 1
    return 2 if exit_code and any(counts[verb] for verb in ("create", "update", "replace", "adopt", "delete")) else 0


def _configured(state: SourceState, name: str, config: Config | None) -> SourceState:
    """Under what the configuration says of this source. Raises GitopsError where it does not know it."""
    if config is None:
        return state
    sources = {one.name: one for one in config.sources}
    if name not in sources:
        raise SourceError(
            name, f"is no source of the configuration{suggestion(name, sources)}", advice="name it: --source"
        )
    return state.configured(sources[name], config.governors)


async def _source_of(cluster: Cluster, place: str) -> str:
    """The one source in the cluster whose repository and path this place is; empty if there is none or more than one."""
    urls, path = compose.locations(place)
    fitting = [name for name, record in await read_records(cluster) if record.url in urls and record.path == path]
    return fitting[0] if len(fitting) == 1 else ""


def count(found: Pass) -> Counter[str]:
    """Objects by what would happen to them: create, update, replace, adopt, delete, release, unchanged, unknown."""
    counts: Counter[str] = Counter()
    for one in found.plan.sets:
        for node in one.nodes:
            if not node.node.external:
                counts[_word(node)] += 1
        counts.update(str(orphan.fate) for orphan in _going(one))
    return counts


def _word(node: NodePlan) -> str:
    if node.node.error:
        return "failed"
    return {Verb.HEAL: "update", Verb.RECORD: "unchanged", Verb.LOOK: "unknown"}.get(node.verb, str(node.verb))


def _going(one: SetPlan) -> Iterator[Orphan]:
    return (orphan for orphan in one.orphans if orphan.fate is not Fate.KEEP)


def _text(found: Pass) -> Iterator[str]:
    if found.bundle.issued:
        yield ""
    for issued in found.bundle.issued:
        count = sum(key.group_kind == issued.kind for key in found.bundle.instances)
        before = f"r{issued.number - 1} -> " if issued.number > 1 else "new: "
        yield f"{issued.kind.kind.lower()}.{issued.kind.group}  {before}r{issued.number}   {count} instances"
    for one in found.plan.sets:
        rows = [
            *(_node_row(node, found.changes) for node in one.nodes if _is_worth_a_row(node)),
            *map(_orphan_row, one.orphans),
        ]
        if one.error:
            rows = [f"  ! {one.error.message}"]
        if rows:
            yield ""
            yield _heading(one.rendered)
            yield from rows


def _heading(rendered: RenderedSet) -> str:
    if rendered.is_source:
        return f"Source {rendered.source}: objects, definitions and instances"
    return title(rendered.parent)


def _is_worth_a_row(node: NodePlan) -> bool:
    return node.verb not in {Verb.NONE, Verb.RECORD} and not node.node.external


def _node_row(node: NodePlan, changes: Mapping[ObjectKey, Sequence[str]]) -> str:
    failed = node.blocked is not None and node.blocked.reason.is_failure
    mark = "!" if node.node.error or failed else "?" if node.node.waiting else _MARKS[node.verb]
    what = f"{node.node.group_kind.kind}/{node.node.key.name}" if node.node.key else node.node.group_kind.kind
    name = f"{node.node.id:<12} " if node.node.id != str(node.node.key) else ""
    where = f"  in {node.node.key.namespace}" if not name and node.node.key and node.node.key.namespace else ""
    return f"  {node.node.level}  {mark} {name}{what}{where}   {_why(node, changes)}".rstrip()


def _why(node: NodePlan, changes: Mapping[ObjectKey, Sequence[str]]) -> str:
    if node.node.error:
        return node.node.error
    if node.node.waiting:
        return f"waits for {', '.join(node.node.waiting)}"
    if node.blocked and node.blocked.reason.is_failure:
        return f"{node.blocked.reason}: {node.blocked.message}"
    if node.node.key and (fields := changes.get(node.node.key)):
        return f"changes {', '.join(fields[:3])}{f' and {len(fields) - 3} more' if fields[3:] else ''}"
    return "; ".join(map(str, node.lost[:3]))


def _orphan_row(orphan: Orphan) -> str:
    level = "-" if orphan.member.level is None else orphan.member.level
    words = {Fate.DELETE: "", Fate.RELEASE: "released, not deleted", Fate.KEEP: "kept"}
    why = f": {orphan.blocked.message}" if orphan.blocked and orphan.fate is Fate.KEEP else ""
    return f"  {level}  - {orphan.member.key.kind}/{place(orphan.member.key)}   {words[orphan.fate]}{why}".rstrip()


def _footer(found: Pass, counts: Counter[str], *, named: bool) -> Iterator[str]:
    yield (
        f"{counts['create']} to create, {counts['update']} to update, {counts['replace']} to replace, {counts['delete']} to delete, "
        f"{counts['unchanged']} unchanged"
        + (f", {counts['adopt']} to adopt" if counts["adopt"] else "")
        + (f", {counts['unknown']} not knowable yet" if counts["unknown"] else "")
        + "."
    )
    if not named:
        yield "Deletions unknown: name a source with --source."
    for problem in found.bundle.problems:
        yield f"Problem: {problem}"


def _as_json(found: Pass, revision: str, source: str, counts: Counter[str]) -> dict[str, object]:
    return {
        "source": source,
        "revision": revision,
        "counts": dict(counts),
        "definitions": [
            {"group": issued.kind.group, "kind": issued.kind.kind, "revision": issued.number}
            for issued in found.bundle.issued
        ],
        "sets": [
            {
                "parent": {
                    "kind": one.rendered.parent.kind,
                    "namespace": one.rendered.parent.namespace,
                    "name": one.rendered.parent.name,
                },
                "changes": [
                    *(
                        {
                            "id": node.node.id,
                            "level": node.node.level,
                            "action": _word(node),
                            "object": str(node.node.key or node.node.group_kind),
                        }
                        for node in one.nodes
                        if _is_worth_a_row(node)
                    ),
                    *(
                        {
                            "id": orphan.member.node,
                            "level": orphan.member.level,
                            "action": str(orphan.fate),
                            "object": str(orphan.member.key),
                        }
                        for orphan in _going(one)
                    ),
                ],
            }
            for one in found.plan.sets
        ],
        "problems": [
            {"file": problem.file, "line": problem.line, "path": problem.path, "message": problem.message}
            for problem in found.bundle.problems
        ],
    }
