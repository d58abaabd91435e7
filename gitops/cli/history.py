"""`levelgate history`: what each commit did, when, which gates it met, and who had a word in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

import click

from applier.cluster import Cluster
from gitops.cli import program_version
from gitops.cli.options import ClusterChoice, cluster_options, utc_option
from gitops.cli.terminal import echo, tell
from gitops.cli.typed import typed
from gitops.clock import SystemClock
from gitops.errors import GitopsError
from gitops.records import pass_history
from gitops.records.cause_rows import timestamp
from gitops.records.pass_history import PassRecord, RecordedAction
from gitops.records.references import SOURCE, Ref, existing, locate
from gitops.records.source_record import read_records
from gitops.rollouts.state import OVERRIDDEN
from gitops.text import aligned, title
from gitops.times import TimeFormat
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@click.command()
@click.argument("ref", nargs=-1)
@click.option("--commit", metavar="SHA", default="", help="All that this commit did, object by object.")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the instance.  [default: the context's]")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@utc_option
@cluster_options
def command(
    ref: tuple[str, ...], commit: str, namespace: str | None, output: str, utc: bool, choice: ClusterChoice
) -> int:
    """Show what the commits of every source did, the newest first. REF is one source, or one instance.

    It reads the records of the sources: the last 50 passes that did something. What a commit was meant to do says
    levelgate plan . --base A --head B.

    \b
    levelgate history
    levelgate history source/platform --commit 9c1d2e7
    levelgate history webapp/shop -n prod
    """
    wanted = typed(ref) if ref else None
    if wanted and (wanted.node or wanted.own not in {"", SOURCE}):
        raise click.UsageError(f"history is of a source or an instance, not of {wanted}")
    return asyncio.run(_history(wanted, commit.lower(), namespace, output, TimeFormat(utc), choice))


@dataclass(frozen=True, slots=True)
class _Commit:
    """The passes of one source at one commit, the oldest first."""

    source: str
    commit: str
    passes: tuple[PassRecord, ...]

    @property
    def counts(self) -> str:
        """`12 updated, 8 created, 1 failed`"""
        deeds = [deed for one in self.passes for deed in one.deeds]
        found = Counter("failed" if deed.error else deed.action for deed in deeds)
        more = sum(one.more for one in self.passes)
        told = [f"{number} {action}" for action, number in found.most_common()]
        return ", ".join([*told, *([f"{more} more"] if more else [])])

    @property
    def met(self) -> str:
        """`WindowClosed 3`"""
        found = Counter(one.reason for passed in self.passes for one in passed.met)
        return ", ".join(f"{reason} {number}" for reason, number in found.most_common())

    @property
    def words(self) -> str:
        """`overridden by ada`"""
        found = dict.fromkeys(f"{one.what} by {one.by}" for passed in self.passes for one in passed.words)
        return ", ".join(found)


async def _history(
    ref: Ref | None, commit: str, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice
) -> int:
    now = SystemClock().now()
    async with choice.connected() as cluster:
        key = await locate(cluster, ref, namespace or cluster.namespace) if ref else None
        found = await _commits(cluster, ref.name if ref and ref.own else "", None if ref and ref.own else key)
        if ref and key and not found:
            await existing(cluster, ref, key)
    chosen = [one for one in found if one.commit.startswith(commit)]
    if not chosen and (commit or ref):
        known = ", ".join(dict.fromkeys(one.commit[:7] for one in found)) or "none"
        what = f"commit {commit}" if commit else str(ref)
        raise GitopsError(f"nothing is recorded of {what} in cluster {cluster.name}; recorded commits: {known}")
    if output != "table":
        tell([_as_json(one) for one in chosen], output)
        return 0
    header = f"Cluster {cluster.name}, {times.full(now)}, levelgate {program_version()}"
    lines = [line for one in chosen for line in _told(one, times)] if commit else _table(chosen, times)
    echo("\n".join([header, "", *lines]).rstrip())
    return 0


async def _commits(cluster: Cluster, source: str, instance: ObjectKey | None) -> list[_Commit]:
    """The newest first; empty and None: of all sources, and of all that they hold."""
    found = [
        _Commit(name, commit, tuple(together))
        for name, record in await read_records(cluster)
        if source in {"", name}
        for commit, together in groupby(_of(pass_history.read(record.passes), instance), lambda one: one.commit)
    ]
    return sorted(found, key=lambda one: one.passes[-1].at, reverse=True)


def _of(recorded: Iterable[PassRecord], instance: ObjectKey | None) -> Iterator[PassRecord]:
    """What of it concerns one instance; None: all."""
    if instance is None:
        yield from recorded
        return
    for one in recorded:
        deeds = tuple(deed for deed in one.deeds if str(instance) in {deed.set, deed.object})
        met = tuple(gate for gate in one.met if gate.set == str(instance))
        if deeds or met:
            yield replace(one, deeds=deeds, met=met, more=0)


def _table(found: Iterable[_Commit], times: TimeFormat) -> Iterator[str]:
    rows = [
        (
            one.source,
            one.commit[:7],
            times.minute(one.passes[0].at),
            times.minute(one.passes[-1].at),
            one.passes[-1].state,
            one.counts,
            one.met,
            one.words,
        )
        for one in found
    ]
    if not rows:
        yield "No pass is recorded yet. Start with: levelgate run --source NAME=URL"
        return
    yield from aligned([("SOURCE", "COMMIT", "FROM", "TO", "STATE", "DID", "MET", "PEOPLE"), *rows])


def _told(one: _Commit, times: TimeFormat) -> Iterator[str]:
    first, last = one.passes[0].at, one.passes[-1].at
    yield f"{one.source} {one.commit[:12]}, {times.full(first)} to {times.full(last)}: {one.passes[-1].state}"
    rows = [
        (times.second(passed.at), _name(deed.set), "" if deed.level is None else f"level {deed.level}", _deed(deed))
        for passed in one.passes
        for deed in passed.deeds
    ]
    yield from aligned(rows) if rows else ()
    if more := sum(passed.more for passed in one.passes):
        yield f"and {more} more, of which no record is kept"
    if gates := [(passed.at, gate) for passed in one.passes for gate in passed.met]:
        yield "Met"
        yield from aligned(
            [(times.second(at), _name(gate.set), gate.node, f"{gate.reason}: {gate.message}") for at, gate in gates]
        )
    if words := [word for passed in one.passes for word in passed.words]:
        yield "People"
        for word in words:
            why = f": {word.why}" if word.why else ""
            yield f"{times.second(word.at)}   {word.what} by {word.by}   {word.subject}{why}"
    yield ""


def _deed(deed: RecordedAction) -> str:
    return f"{deed.object} NOT {deed.action}: {deed.error}" if deed.error else f"{deed.object} {deed.action}"


def _name(text: str) -> str:
    key = ObjectKey.parse(text)
    return title(key) if key else text


def _as_json(one: _Commit) -> dict[str, Any]:
    """The stable contract of `history -o json` (docs/reference.md)."""
    return {
        "source": one.source,
        "commit": one.commit,
        "passes": [
            {
                "at": timestamp(passed.at),
                "state": passed.state,
                "did": [
                    {name: getattr(deed, name) for name in ("set", "object", "action", "level", "node", "error")}
                    for deed in passed.deeds
                ],
                "more": passed.more,
                "met": [
                    {name: getattr(gate, name) for name in ("set", "node", "reason", "message")} for gate in passed.met
                ],
                "people": [
                    {
                        "at": timestamp(word.at),
                        "what": word.what,
                        "subject": word.subject,
                        "by": word.by,
                        "why": word.why,
                        "pastWindow": word.what == OVERRIDDEN,
                    }
                    for word in passed.words
                ],
            }
            for passed in one.passes
        ],
    }
