"""Which commits arrive when: one step from a base to a head, or a history again at the times at which its commits were made."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gitops import source_config
from gitops.errors import GitopsError, SourceError
from gitops.reconcile.sources import SourceState, state_of
from gitops.rollouts.source_rules import in_force
from gitops.simulate.engine import CommitPush
from gitops.source import LocalRepository, SourceSnapshot, SourceTarget, is_url, working_tree
from renderer.catalog.catalog import Catalog, load
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.kinds import POLICY, WINDOW


class RulesRefused(GitopsError):
    """A file of windows and policies that cannot be used; the text has a line for each mistake."""


@dataclass(frozen=True, slots=True)
class CommitSeries:
    """The state before, and what arrives after it, in order. `problems` are the mistakes of the last commit."""

    base: SourceState
    pushes: tuple[CommitPush, ...]
    problems: tuple[Problem, ...]

    def under(self, rules: Catalog) -> CommitSeries:
        """The same commits with these windows and policies instead of their own."""
        base = _ruled(self.base, rules)
        return replace(
            self, base=base, pushes=tuple(replace(one, state=_ruled(one.state, rules)) for one in self.pushes)
        )


@dataclass
class HistoryReader:
    """A local repository as one source. Raises SourceError where there is none."""

    place: str
    name: str = ""

    def __post_init__(self) -> None:
        if is_url(self.place):
            raise SourceError(self.place, "is a URL; history is read from a local repository", advice="clone it")
        config = source_config.source_config(f"{self.name or source_config.likely_name(self.place)}={self.place}")
        self.name = config.name
        self._local = LocalRepository(Path(self.place))
        self._target = SourceTarget(config.target.url, path=self._local.path)

    def step(self, base: str, head: str, start: datetime) -> CommitSeries:
        """From `base` to `head` at `start`; an empty head is the working tree as it lies."""
        before = self._state(self._local.snapshot(self._local.resolve(base)))
        snapshot = (
            self._local.snapshot(self._local.resolve(head)) if head else _as_commit(working_tree(Path(self.place)))
        )
        after = self._state(snapshot, before.catalog)
        push = CommitPush(start, after, snapshot.subject or snapshot.description)
        return CommitSeries(before, (push,), _problems(after.catalog))

    def history(self, base: str, head: str, start: datetime | None) -> CommitSeries:
        """The first-parent history from `base`, which is there at the beginning, to `head`, each commit at its committer's time; with `start` all
        are moved so that the first arrives then.
        """
        first, last = self._local.resolve(base), self._local.resolve(head or "HEAD")
        ids = self._local.first_parents(first, last)
        if not ids:
            raise SourceError(
                self.place, f"there is no commit between {base} and {head or 'HEAD'}", advice="name an older --base"
            )
        state = before = self._state(self._local.snapshot(first))
        pushes: list[CommitPush] = []
        for commit in ids:
            snapshot = self._local.snapshot(commit)
            assert snapshot.time
            state = self._state(snapshot, state.catalog)
            at = max(snapshot.time, pushes[-1].at) if pushes else snapshot.time
            pushes.append(CommitPush(at, state, snapshot.subject))
        if start:
            moved = start - pushes[0].at
            pushes = [replace(one, at=one.at + moved) for one in pushes]
        return CommitSeries(before, tuple(pushes), _problems(state.catalog))

    def _state(self, snapshot: SourceSnapshot, previous: Catalog | None = None) -> SourceState:
        return state_of(self.name, self._target, snapshot, previous)


def _as_commit(snapshot: SourceSnapshot) -> SourceSnapshot:
    """A working tree under an id of its own: what differs from its HEAD is a change, not drift."""
    content = repr(sorted((name, file.blob) for name, file in snapshot.files.items()))
    revision = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()
    return replace(snapshot, revision=revision, is_dirty=False)


def rules_of(file: Path) -> Catalog:
    """Windows and policies of a file, to be used instead of a repository's. Raises RulesRefused, with lines."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RulesRefused(f"{file}: cannot be read: {error.strerror}") from None
    found = load({file.name: data})
    if problems := (*found.problems, *in_force(found, {}).problems):
        raise RulesRefused("\n".join(map(str, problems)))
    if not found.rules:
        raise RulesRefused(f"{file}: holds no {WINDOW} and no {POLICY}")
    return found


def _ruled(state: SourceState, rules: Catalog) -> SourceState:
    return replace(state, catalog=replace(state.catalog, rules=rules.rules))


def _problems(catalog: Catalog) -> tuple[Problem, ...]:
    return tuple(sorted((*catalog.problems, *in_force(catalog, {}).problems)))
