"""Command `levelgate history`: show actions, causes and requests of people, by commit."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from itertools import groupby
from typing import Any

import click

from applier.cluster import Cluster
from gitops.cli import describe_exit_codes
from gitops.cli.options import ClusterChoice, member_options, parse_ref, utc_option
from gitops.cli.terminal import echo, format_header, print_document
from gitops.clock import SystemClock
from gitops.errors import GitopsError
from gitops.records import pass_history
from gitops.records.pass_history import PassRecord, RecordedAction
from gitops.records.references import SOURCE, Ref, find_key, get_object
from gitops.records.source_record import read_records
from gitops.rollouts.state import OVERRIDDEN
from gitops.text import TimeFormat, align_table, title
from gitops.timestamps import timestamp
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@click.command(epilog=describe_exit_codes("0 shown", "1 no record of REF or the commit, or an error"))
@click.argument("ref", nargs=-1)
@click.option("--commit", metavar="SHA", default="", help="Show all actions of this commit, object by object.")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the instance.  [default: the context's]")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@utc_option
@member_options
def command(
    ref: tuple[str, ...], commit: str, namespace: str | None, output: str, utc: bool, choice: ClusterChoice
) -> int:
    """Show what the commits of every source did, newest first. REF is a source or an instance.

    Use this command to find out when a change reached the cluster, what delayed it, and who intervened. The command
    reads the records of the last 50 reconciliations with actions. To see the intended effect of a commit, use levelgate
    plan . --base A --head B.

    \b
    levelgate history
    levelgate history source/platform --commit 9c1d2e7
    levelgate history webapp/shop -n prod
    """
    parsed_ref = parse_ref(ref) if ref else None
    if parsed_ref and (parsed_ref.node or parsed_ref.own_type not in {"", SOURCE}):
        raise click.UsageError(f"history does not show {parsed_ref}; name a source or an instance")
    return asyncio.run(_history(parsed_ref, commit.lower(), namespace, output, TimeFormat(utc), choice))


@dataclass(frozen=True, slots=True)
class _CommitPasses:
    """Reconciliations of one source at one commit, oldest first."""

    source: str
    commit: str
    passes: tuple[PassRecord, ...]

    @property
    def action_counts(self) -> str:
        """Return the number of actions by kind, such as `12 updated, 8 created, 1 failed`."""
        counter = Counter(
            "failed" if recorded_action.error else recorded_action.action
            for pass_record in self.passes
            for recorded_action in pass_record.deeds
        )
        more = sum(pass_record.more for pass_record in self.passes)
        parts = [f"{number} {action}" for action, number in counter.most_common()]
        return ", ".join([*parts, *([f"{more} more"] if more else [])])

    @property
    def cause_counts(self) -> str:
        """Return the number of causes by reason, such as `WindowClosed 3`."""
        counter = Counter(cause.reason for pass_record in self.passes for cause in pass_record.met)
        return ", ".join(f"{reason} {number}" for reason, number in counter.most_common())

    @property
    def people_actions(self) -> str:
        """Return the requests of people that took effect, such as `overridden by ada`, and name each request once."""
        return ", ".join(
            dict.fromkeys(
                f"{person_action.what} by {person_action.by}"
                for pass_record in self.passes
                for person_action in pass_record.words
            )
        )


async def _history(
    ref: Ref | None, commit: str, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice
) -> int:
    now = SystemClock().now()
    async with choice.connect() as cluster:
        key = await find_key(cluster, ref, namespace or cluster.namespace) if ref else None
        commits = await _commits(
            cluster, ref.name if ref and ref.own_type else "", None if ref and ref.own_type else key
        )
        if ref and key and not commits:
            await get_object(cluster, ref, key)
    selected = [commit_passes for commit_passes in commits if commit_passes.commit.startswith(commit)]
    if not selected and (commit or ref):
        recorded_commits = ", ".join(dict.fromkeys(commit_passes.commit[:7] for commit_passes in commits)) or "none"
        missing_subject = f"commit {commit}" if commit else str(ref)
        raise GitopsError(
            f"no action of {missing_subject} is recorded in cluster {cluster.name}; "
            f"name one of the recorded commits: {recorded_commits}"
        )
    if output != "table":
        print_document([_as_json(commit_passes) for commit_passes in selected], output)
        return 0
    lines = (
        [line for commit_passes in selected for line in _commit_lines(commit_passes, times)]
        if commit
        else _table(selected, times)
    )
    echo("\n".join([format_header(cluster.name, times.format_full(now)), "", *lines]).rstrip())
    return 0


async def _commits(cluster: Cluster, source: str, instance: ObjectKey | None) -> list[_CommitPasses]:
    """Return the commits of one source, or of all sources if `source` is empty, newest first.

    With an `instance`, restrict each commit to that instance. Within a source, the commits keep the order of the
    record. Times do not decide the order, because they are in full seconds and a clock can move back.
    """
    by_source = [
        [
            _CommitPasses(name, commit, tuple(pass_records))
            for commit, pass_records in groupby(
                _restrict_to_instance(pass_history.parse_passes(record.passes), instance),
                lambda pass_record: pass_record.commit,
            )
        ]
        for name, record in await read_records(cluster)
        if source in {"", name}
    ]
    return list(merge(*map(reversed, by_source), key=lambda commit: commit.passes[-1].at, reverse=True))


def _restrict_to_instance(passes: Iterable[PassRecord], instance: ObjectKey | None) -> Iterator[PassRecord]:
    """Yield the reconciliations that concern `instance`, restricted to its actions and causes.

    If `instance` is None, yield all reconciliations unchanged.
    """
    if instance is None:
        yield from passes
        return
    for pass_record in passes:
        recorded_actions = tuple(
            recorded_action
            for recorded_action in pass_record.deeds
            if str(instance) in {recorded_action.set, recorded_action.object}
        )
        causes = tuple(cause for cause in pass_record.met if cause.set == str(instance))
        if recorded_actions or causes:
            yield replace(pass_record, deeds=recorded_actions, met=causes, more=0)


def _table(commits: Iterable[_CommitPasses], times: TimeFormat) -> Iterator[str]:
    rows = [
        (
            commit_passes.source,
            commit_passes.commit[:7],
            times.format_minute(commit_passes.passes[0].at),
            times.format_minute(commit_passes.passes[-1].at),
            commit_passes.passes[-1].state,
            commit_passes.action_counts,
            commit_passes.cause_counts,
            commit_passes.people_actions,
        )
        for commit_passes in commits
    ]
    if not rows:
        yield "No reconciliation is recorded yet. To start, run levelgate run --source NAME=URL."
        return
    yield from align_table([("SOURCE", "COMMIT", "FROM", "TO", "STATE", "ACTIONS", "CAUSES", "PEOPLE"), *rows])


def _commit_lines(commit_passes: _CommitPasses, times: TimeFormat) -> Iterator[str]:
    first, last = commit_passes.passes[0].at, commit_passes.passes[-1].at
    period = f"{times.format_full(first)} to {times.format_full(last)}"
    yield f"{commit_passes.source} {commit_passes.commit[:12]}, {period}: {commit_passes.passes[-1].state}"
    rows = [
        (
            times.format_second(pass_record.at),
            _object_title(recorded_action.set),
            "" if recorded_action.level is None else f"level {recorded_action.level}",
            _format_action(recorded_action),
        )
        for pass_record in commit_passes.passes
        for recorded_action in pass_record.deeds
    ]
    yield from align_table(rows) if rows else ()
    if more := sum(pass_record.more for pass_record in commit_passes.passes):
        yield f"and {more} more, which Levelgate does not record"
    if causes := [(pass_record.at, cause) for pass_record in commit_passes.passes for cause in pass_record.met]:
        yield "Met"
        yield from align_table(
            [
                (times.format_second(moment), _object_title(cause.set), cause.node, f"{cause.reason}: {cause.message}")
                for moment, cause in causes
            ]
        )
    if person_actions := [person_action for pass_record in commit_passes.passes for person_action in pass_record.words]:
        yield "People"
        for person_action in person_actions:
            why = f": {person_action.why}" if person_action.why else ""
            action = f"{person_action.what} by {person_action.by}   {person_action.subject}{why}"
            yield f"{times.format_second(person_action.at)}   {action}"
    yield ""


def _format_action(recorded_action: RecordedAction) -> str:
    return (
        f"{recorded_action.object} NOT {recorded_action.action}: {recorded_action.error}"
        if recorded_action.error
        else f"{recorded_action.object} {recorded_action.action}"
    )


def _object_title(text: str) -> str:
    key = ObjectKey.parse(text)
    return title(key) if key else text


def _as_json(commit_passes: _CommitPasses) -> dict[str, Any]:
    """Return `commit_passes` in the stable format of `history -o json` (docs/reference.md)."""
    return {
        "source": commit_passes.source,
        "commit": commit_passes.commit,
        "passes": [
            {
                "at": timestamp(pass_record.at),
                "state": pass_record.state,
                "did": [
                    {
                        name: getattr(recorded_action, name)
                        for name in ("set", "object", "action", "level", "node", "error")
                    }
                    for recorded_action in pass_record.deeds
                ],
                "more": pass_record.more,
                "met": [
                    {name: getattr(cause, name) for name in ("set", "node", "reason", "message")}
                    for cause in pass_record.met
                ],
                "people": [
                    {
                        "at": timestamp(person_action.at),
                        "what": person_action.what,
                        "subject": person_action.subject,
                        "by": person_action.by,
                        "why": person_action.why,
                        "pastWindow": person_action.what == OVERRIDDEN,
                    }
                    for person_action in pass_record.words
                ],
            }
            for pass_record in commit_passes.passes
        ],
    }
