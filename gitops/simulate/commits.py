"""Which commits arrive when: one step from a base to a head, or a history again at the times at which its commits were made."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gitops import source_config
from gitops.errors import GitopsError, SourceError
from gitops.reconcile.sources import SourceState, state_of
from gitops.rollouts.source_rules import resolve_rules
from gitops.simulate.engine import CommitPush
from gitops.source import LocalRepository, SourceSnapshot, SourceTarget, is_url, read_working_tree
from renderer.catalog.catalog import Catalog, load
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.kinds import POLICY, WINDOW
from renderer.render.render import render


class RulesError(GitopsError):
    """A file of windows and policies that cannot be used; the text has a line for each mistake."""


@dataclass(frozen=True, slots=True)
class CommitSeries:
    """The state before, and what arrives after it, in order. `problems` are the mistakes of the last commit."""

    base: SourceState
    pushes: tuple[CommitPush, ...]
    problems: tuple[Problem, ...]

    def with_rules(self, rules: Catalog) -> CommitSeries:
        """The same commits with these windows and policies instead of their own."""
        base = _with_rules(self.base, rules)
        return replace(
            self, base=base, pushes=tuple(replace(push, state=_with_rules(push.state, rules)) for push in self.pushes)
        )


@dataclass
class HistoryReader:
    """A local repository as one source. Raises SourceError where there is none."""

    location: str
    name: str = ""

    def __post_init__(self) -> None:
        if is_url(self.location):
            raise SourceError(self.location, "is a URL; history is read from a local repository", advice="clone it")
        config = source_config.parse_source(f"{self.name or source_config.derive_name(self.location)}={self.location}")
        self.name = config.name
        self._local = LocalRepository.open(Path(self.location))
        self._target = SourceTarget(config.target.url, path=self._local.path)

    def read_step(self, base: str, head: str, start: datetime) -> CommitSeries:
        """From `base` to `head` at `start`; an empty head is the working tree as it lies."""
        base_state = self._make_state(self._local.read_snapshot(self._local.resolve(base)))
        snapshot = (
            self._local.read_snapshot(self._local.resolve(head))
            if head
            else _as_commit(read_working_tree(Path(self.location)))
        )
        head_state = self._make_state(snapshot, base_state.catalog)
        push = CommitPush(start, head_state, snapshot.subject or snapshot.description)
        return CommitSeries(base_state, (push,), collect_problems(head_state.catalog))

    def read_history(self, base: str, head: str, start: datetime | None) -> CommitSeries:
        """The first-parent history from `base`, which is there at the beginning, to `head`, each commit at its committer's time; with `start` all
        are moved so that the first arrives then.
        """
        first, last = self._local.resolve(base), self._local.resolve(head or "HEAD")
        ids = self._local.list_first_parents(first, last)
        if not ids:
            raise SourceError(
                self.location, f"no commit between {base} and {head or 'HEAD'}", advice="name an older --base"
            )
        state = base_state = self._make_state(self._local.read_snapshot(first))
        pushes: list[CommitPush] = []
        for commit in ids:
            snapshot = self._local.read_snapshot(commit)
            assert snapshot.time
            state = self._make_state(snapshot, state.catalog)
            arrival = max(snapshot.time, pushes[-1].at) if pushes else snapshot.time
            pushes.append(CommitPush(arrival, state, snapshot.subject))
        if start:
            offset = start - pushes[0].at
            pushes = [replace(push, at=push.at + offset) for push in pushes]
        return CommitSeries(base_state, tuple(pushes), collect_problems(state.catalog))

    def _make_state(self, snapshot: SourceSnapshot, previous: Catalog | None = None) -> SourceState:
        return state_of(self.name, self._target, snapshot, previous)


def _as_commit(snapshot: SourceSnapshot) -> SourceSnapshot:
    """A working tree under an id of its own: what differs from its HEAD is a change, not drift."""
    content = repr(sorted((name, file.blob) for name, file in snapshot.files.items()))
    revision = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()
    return replace(snapshot, revision=revision, is_dirty=False)


def read_rules(file: Path) -> Catalog:
    """Windows and policies of a file, to be used instead of a repository's. Raises RulesError, with lines."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RulesError(f"{file}: cannot be read: {error.strerror}") from None
    catalog = load({file.name: data})
    if problems := (*catalog.problems, *resolve_rules(catalog, {}).problems):
        raise RulesError("\n".join(map(str, problems)))
    if not catalog.rules:
        raise RulesError(f"{file}: holds no {WINDOW} and no {POLICY}")
    return catalog


def _with_rules(state: SourceState, rules: Catalog) -> SourceState:
    return replace(state, catalog=replace(state.catalog, rules=rules.rules))


def collect_problems(catalog: Catalog) -> tuple[Problem, ...]:
    """The mistakes of a commit, as `levelgate lint` finds them without a cluster."""
    return tuple(sorted({*render([catalog]).problems, *resolve_rules(catalog, {}).problems}))
