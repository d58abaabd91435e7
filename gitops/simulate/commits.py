"""Commits that arrive in a simulation: a single head after a base, or a replayed history."""

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
    """Rejection of a file of windows and policies. The text has one line for each mistake."""


@dataclass(frozen=True, slots=True)
class CommitSeries:
    """Base commit and the later pushes, in order."""

    base: SourceState
    pushes: tuple[CommitPush, ...]
    problems: tuple[Problem, ...]
    """Problems of the last commit."""

    def with_rules(self, rules: Catalog) -> CommitSeries:
        """Return the series in which each commit has `rules` in place of its own windows and policies."""
        base = _with_rules(self.base, rules)
        return replace(
            self, base=base, pushes=tuple(replace(push, state=_with_rules(push.state, rules)) for push in self.pushes)
        )


@dataclass
class HistoryReader:
    """Reader of the commits of a local repository as one source."""

    location: str
    name: str
    repository: LocalRepository
    target: SourceTarget

    @classmethod
    def open(cls, location: str, name: str = "") -> HistoryReader:
        """Open the repository or directory at `location` as source `name`.

        If `name` is empty, derive the name of the source from `location`.

        Raises: SourceError if `location` is not a local repository.
        """
        if is_url(location):
            raise SourceError(
                location, "is a URL; a simulation needs a local repository", advice="clone the repository"
            )
        config = source_config.parse_source(f"{name or source_config.derive_name(location)}={location}")
        local = LocalRepository.open(Path(location))
        return cls(location, config.name, local, SourceTarget(config.target.url, path=local.path))

    def read_step(self, base: str, head: str, start: datetime) -> CommitSeries:
        """Return the series in which `head` arrives at `start`. If `head` is empty, the working tree arrives."""
        base_state = self._make_state(self.repository.read_snapshot(self.repository.resolve(base)))
        snapshot = (
            self.repository.read_snapshot(self.repository.resolve(head))
            if head
            else _as_commit(read_working_tree(Path(self.location)))
        )
        head_state = self._make_state(snapshot, base_state.catalog)
        push = CommitPush(start, head_state, snapshot.subject or snapshot.description)
        return CommitSeries(base_state, (push,), collect_problems(head_state.catalog))

    def read_history(self, base: str, head: str, start: datetime | None) -> CommitSeries:
        """Return the first-parent history after `base` up to `head`. Each commit arrives at its committer's time.

        If `start` is given, shift all times so that the first commit arrives at `start`. Even if a committer's clock is
        wrong, a commit never arrives before its parent.

        Raises: SourceError if no commit lies between `base` and `head`.
        """
        first, last = self.repository.resolve(base), self.repository.resolve(head or "HEAD")
        ids = self.repository.list_first_parents(first, last)
        if not ids:
            raise SourceError(
                self.location, f"has no commit between {base} and {head or 'HEAD'}", advice="name an older --base"
            )
        state = base_state = self._make_state(self.repository.read_snapshot(first))
        pushes: list[CommitPush] = []
        for commit in ids:
            snapshot = self.repository.read_snapshot(commit)
            assert snapshot.time
            state = self._make_state(snapshot, state.catalog)
            arrival = max(snapshot.time, pushes[-1].at) if pushes else snapshot.time
            pushes.append(CommitPush(arrival, state, snapshot.subject))
        if start:
            offset = start - pushes[0].at
            pushes = [replace(push, at=push.at + offset) for push in pushes]
        return CommitSeries(base_state, tuple(pushes), collect_problems(state.catalog))

    def _make_state(self, snapshot: SourceSnapshot, previous: Catalog | None = None) -> SourceState:
        return state_of(self.name, self.target, snapshot, previous)


def _as_commit(snapshot: SourceSnapshot) -> SourceSnapshot:
    """Return a working tree as a commit with its own id.

    So a difference from HEAD counts as a change, not as drift.
    """
    content = repr(sorted((name, file.blob) for name, file in snapshot.files.items()))
    revision = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()
    return replace(snapshot, revision=revision, is_dirty=False)


def read_rules(file: Path) -> Catalog:
    """Read a file of windows and policies that replace the windows and policies of a repository.

    Raises: RulesError.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RulesError(f"{file}: cannot be read: {error.strerror}; check the file") from None
    catalog = load({file.name: data})
    if problems := (*catalog.problems, *resolve_rules(catalog, {}).problems):
        raise RulesError("\n".join(map(str, problems)))
    if not catalog.rules:
        raise RulesError(f"{file}: contains no {WINDOW} and no {POLICY}; declare at least one object of these kinds")
    return catalog


def _with_rules(state: SourceState, rules: Catalog) -> SourceState:
    return replace(state, catalog=replace(state.catalog, rules=rules.rules))


def collect_problems(catalog: Catalog) -> tuple[Problem, ...]:
    """Return the problems of a commit that `levelgate lint` finds without a cluster."""
    return tuple(sorted({*render([catalog]).problems, *resolve_rules(catalog, {}).problems}))
