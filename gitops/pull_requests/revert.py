"""A revert that a halted rollout wants proposed: which, and what its pull request says. Pure.

What people, commits and servers say is written as code, and without values of Secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from gitops.plan.report_markdown import code
from gitops.reconcile.context import ReconcileResult
from gitops.records.cause_rows import blocked_rows
from gitops.rollouts.state import Halt, TargetRevision, WaveProgress
from renderer.definition.compile import Definition
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.secret_redaction import SecretRedactor

_MOST: Final = 5
"""Instances that are named with what is wrong with them."""

_LONGEST: Final = 300
"""Characters of what is wrong with one."""


@dataclass(frozen=True, slots=True)
class RevertProposal:
    """The `halt` of a `rollout` at `target`; `completed` is what completed before, None where nothing has. `file` has the definition, below the
    directory of the source. `failing` are instances with what is wrong with them.
    """

    rollout: str
    source: str
    file: str
    halt: Halt
    target: TargetRevision
    completed: TargetRevision | None
    waves: Sequence[WaveProgress]
    failing: Sequence[tuple[str, str]]

    @property
    def impossible(self) -> str:
        """Why there is nothing to revert to; empty where there is."""
        if self.completed is None:
            return f"nothing completed before {self.target}"
        if self.target.is_rollback:
            return f"{self.target} goes back already, to what r{self.target.reverts} was"
        if not (self.target.commit and self.completed.commit):
            return "it is not recorded which commits brought these revisions"
        return ""

    @property
    def branch(self) -> str:
        """The same for all processes and clusters, so that there is one."""
        return f"levelgate/revert-{self.rollout}-{self.target.commit}"

    @property
    def title(self) -> str:
        return f"Revert {self.rollout} {self.target} ({self.target.commit[:7]})"

    def message(self, cluster: str) -> str:
        """Of the commit."""
        return f"{self.title}\n\nIts rollout was halted in cluster {cluster}: {self.halt.why}.\n"

    def body(self, cluster: str) -> str:
        """Of the pull request, in Markdown."""
        assert self.completed is not None
        lines = [
            f"The rollout of {code(self.rollout)} {self.target} is halted in cluster {code(cluster)} since "
            f"{self.halt.since:%Y-%m-%d %H:%MZ}: {code(self.halt.why)}.",
            "",
            "| wave | settled | moving | held | failed | of |",
            "|---|---|---|---|---|---|",
            *(
                f"| {code(one.name)} | {one.settled} | {one.moving} | {one.held} | {one.failed} | {one.total} |"
                for one in self.waves
            ),
            "",
            *(f"- {code(name)}: {code(why)}" for name, why in self.failing),
            *([""] if self.failing else []),
            f"This takes back what came after {code(self.completed.commit)} ({self.completed}, which completed) up to "
            f"{code(self.target.commit)} and changes {code(self.file)}. Once it is merged, instances that moved go back, in order; "
            "those that did not are not touched. Close it to mend things by another commit: it is not proposed again.",
        ]
        return "\n".join(lines)


def wanted(found: ReconcileResult) -> Iterator[tuple[str, Halt]]:
    """What is halted, by its rollout, is to be reverted, and has no pull request yet as far as the records know."""
    for name, state in sorted(found.propagation.states.items()):
        for halt in state.halts:
            if halt.revert is not None and not halt.revert.url:
                yield name, halt


def proposal(found: ReconcileResult, rollout: str, halt: Halt) -> RevertProposal | None:
    """What to propose; None while it cannot be told, because the definition is not known or moves elsewhere now."""
    state = found.propagation.states[rollout]
    kind = _kind(found.bundle.definitions, rollout)
    target = next((one for one in state.targets.values() if one.revision == halt.target), None)
    if kind is None or target is None:
        return None
    definition = found.bundle.definitions[kind]
    return RevertProposal(
        rollout,
        found.bundle.owners.get(kind, ""),
        definition.origin.file,
        halt,
        target,
        state.completed,
        state.waves,
        tuple(islice(_failing(found, definition.name), _MOST)),
    )


def _failing(found: ReconcileResult, definition: str) -> Iterator[tuple[str, str]]:
    discreet = SecretRedactor(found.observed.objects.values())
    for one in found.plan.sets:
        if one.rendered.definition == definition:
            wrong = [(cause.reason, cause.message) for _, cause, _ in blocked_rows(one) if cause.reason.is_failure]
            if wrong:
                reason, message = wrong[0]
                yield str(one.rendered.parent), discreet(f"{reason}: {message}")[:_LONGEST]


def _kind(definitions: Mapping[GroupKind, Definition], rollout: str) -> GroupKind | None:
    """Of the definition whose rollout this is: it bears its name, or its name and that of a policy."""
    fits = [
        (len(one.name), kind)
        for kind, one in definitions.items()
        if rollout == one.name or rollout.startswith(f"{one.name}.")
    ]
    return max(fits)[1] if fits else None
