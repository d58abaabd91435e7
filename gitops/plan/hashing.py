"""The hash of a plan: equal for plans that do the same, wherever and whenever they are made.

It covers what changes and how, the order, and the rules that say when. It leaves out times, what people say and how far a rollout is: these change
while a plan waits to be carried out. Values of Secrets are masked before they come here; where one is part of a change, the content of its file
stands for it, which whoever may read the repository knows already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gitops.plan.report import PlannedChange, RevisionMove
from renderer.catalog.catalog import Catalog
from renderer.errors import Problem
from renderer.identity import digest
from renderer.kinds import SECRET

HASH_DIGITS = 16


def plan_hash(
    head: Catalog, changes: Sequence[PlannedChange], moves: Iterable[RevisionMove], problems: Iterable[Problem]
) -> str:
    """DIGITS hexadecimal digits."""
    change_rows = [_change_row(change) for change in changes if not change.is_undone]
    files = sorted(set(_secret_file_digests(head, changes)))
    rules = sorted(digest(rule.manifest) for rule in head.rules)
    move_rows = [[move.name, move.old, move.new] for move in moves]
    problem_rows = [[problem.path, problem.message] for problem in problems]
    return digest([head.source, change_rows, files, rules, move_rows, problem_rows])[:HASH_DIGITS]


def is_same(expected: str, actual: str) -> bool:
    """Is the plan that somebody agreed to this one? Fewer digits than all would be easy to meet by chance, or on purpose."""
    return expected.strip().lower() == actual


def _change_row(change: PlannedChange) -> list[Any]:
    diff = [[field_diff.path, field_diff.old, field_diff.new] for field_diff in change.diff]
    return [change.action, change.ref, str(change.instance or ""), change.node, change.level, diff, change.immutable]


def _secret_file_digests(head: Catalog, changes: Iterable[PlannedChange]) -> Iterator[str]:
    """What stands in them, as a digest; not where they lie."""
    for change in changes:
        if change.kind == str(SECRET) and (content := head.contents.get(change.file)):
            yield hashlib.sha256(content.data).hexdigest()
