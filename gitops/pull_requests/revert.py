"""A revert that a halted rollout wants proposed: which, and what its pull request says. Pure.

What people, commits and servers say is written as code, and without values of Secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from applier.plan.set_causes import set_causes
from gitops.plan.report_markdown import format_code
from gitops.reconcile.context import ReconcileResult
from gitops.rollouts.state import Halt, TargetRevision, WaveProgress
from renderer.definition.compile import Definition
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.secret_redaction import SecretRedactor

_MAX_FAILING_INSTANCES: Final = 5
"""Instances that are named with what is wrong with them."""

_MAX_MESSAGE_CHARACTERS: Final = 300
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
    def impossible_message(self) -> str:
        """Why there is nothing to revert to; empty where there is."""
        if self.completed is None:
            return f"nothing completed before {self.target}"
        if self.target.is_rollback:
            return f"{self.target} is already a rollback to r{self.target.reverts}"
        if not (self.target.commit and self.completed.commit):
            return "the commits of these revisions are not recorded"
        return ""

    @property
    def branch(self) -> str:
        """The same for all processes and clusters, so that there is one."""
        return f"levelgate/revert-{self.rollout}-{self.target.commit}"

    @property
    def title(self) -> str:
        return f"Revert {self.rollout} {self.target} ({self.target.commit[:7]})"

    def commit_message(self, cluster: str) -> str:
        """Of the commit."""
        return f"{self.title}\n\nIts rollout was halted in cluster {cluster}: {self.halt.why}.\n"

    def pull_request_body(self, cluster: str) -> str:
        """Of the pull request, in Markdown."""
        assert self.completed is not None
        lines = [
            f"The rollout of {format_code(self.rollout)} {self.target} is halted in cluster {format_code(cluster)} since "
            f"{self.halt.since:%Y-%m-%d %H:%MZ}: {format_code(self.halt.why)}.",
            "",
            "| wave | settled | in flight | held | failed | of |",
            "|---|---|---|---|---|---|",
            *(
                f"| {format_code(wave.name)} | {wave.settled} | {wave.moving} | {wave.held} | {wave.failed} | {wave.total} |"
                for wave in self.waves
            ),
            "",
            *(f"- {format_code(name)}: {format_code(message)}" for name, message in self.failing),
            *([""] if self.failing else []),
            f"This reverts the commits after {format_code(self.completed.commit)} ({self.completed}, which completed) up to "
            f"{format_code(self.target.commit)} and changes {format_code(self.file)}. Once it is merged, moved instances return to it, in order; "
            "the others are not changed. To correct it by another commit, close this: it is not proposed again.",
        ]
        return "\n".join(lines)


def pending_reverts(result: ReconcileResult) -> Iterator[tuple[str, Halt]]:
    """What is halted, by its rollout, is to be reverted, and has no pull request yet as far as the records know."""
    for name, state in sorted(result.propagation.states.items()):
        for halt in state.halts:
            if halt.revert is not None and not halt.revert.url:
                yield name, halt


def make_proposal(result: ReconcileResult, rollout: str, halt: Halt) -> RevertProposal | None:
    """What to propose; None while it cannot be told, because the definition is not known or moves elsewhere now."""
    state = result.propagation.states[rollout]
    kind = _rollout_kind(result.bundle.definitions, rollout)
    target = next((candidate for candidate in state.targets.values() if candidate.revision == halt.target), None)
    if kind is None or target is None:
        return None
    definition = result.bundle.definitions[kind]
    return RevertProposal(
        rollout,
        result.bundle.owners.get(kind, ""),
        definition.origin.file,
        halt,
        target,
        state.completed,
        state.waves,
        tuple(islice(_failing_instances(result, definition.name), _MAX_FAILING_INSTANCES)),
    )


def _failing_instances(result: ReconcileResult, definition: str) -> Iterator[tuple[str, str]]:
    redact = SecretRedactor(result.observed.objects.values())
    for set_plan in result.plan.sets:
        causes = set_causes(set_plan) if set_plan.rendered.definition == definition else ()
        if failure := next((cause for cause in causes if cause.reason.is_failure), None):
            text = redact(f"{failure.reason}: {failure.message}")
            yield str(set_plan.rendered.parent), text[:_MAX_MESSAGE_CHARACTERS]


def _rollout_kind(definitions: Mapping[GroupKind, Definition], rollout: str) -> GroupKind | None:
    """Of the definition whose rollout this is: it bears its name, or its name and that of a policy."""
    matches = [
        (len(definition.name), kind)
        for kind, definition in definitions.items()
        if rollout == definition.name or rollout.startswith(f"{definition.name}.")
    ]
    return max(matches)[1] if matches else None
