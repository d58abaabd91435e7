"""Proposed reverts for halted rollouts: the choice of commits, and the text of the pull request. Pure.

The module writes text from people, commits and servers as Markdown code, without values of Secrets.
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
"""Maximum number of failing instances that a pull request names."""

_MAX_MESSAGE_CHARACTERS: Final = 300
"""Maximum number of characters in the failure of an instance."""


@dataclass(frozen=True, slots=True)
class RevertProposal:
    """Proposal to revert the commits of a halted rollout."""

    rollout: str
    source: str
    file: str
    """File of the definition, relative to the directory of the source."""

    halt: Halt
    target: TargetRevision
    """Revision whose rollout is halted."""

    completed: TargetRevision | None
    """Revision that completed last, or None if no revision has completed."""

    waves: Sequence[WaveProgress]
    failing: Sequence[tuple[str, str]]
    """Names of failing instances, each with the text of its failure."""

    @property
    def impossible_message(self) -> str:
        """Return the reason why no revert is possible, or an empty string if a revert is possible."""
        if self.completed is None:
            return f"nothing completed before {self.target}"
        if self.target.is_rollback:
            return f"{self.target} is already a rollback to r{self.target.reverts}"
        if not (self.target.commit and self.completed.commit):
            return f"{self.completed} or {self.target} has no recorded commit; revert the commits by hand"
        return ""

    @property
    def branch(self) -> str:
        """Return the name of the branch. All processes and clusters use the same name, so only one branch exists."""
        return f"levelgate/revert-{self.rollout}-{self.target.commit}"

    @property
    def title(self) -> str:
        """Return the title of the commit and of the pull request."""
        return f"Revert {self.rollout} {self.target} ({self.target.commit[:7]})"

    def commit_message(self, cluster: str) -> str:
        """Return the message of the reverting commit."""
        return f"{self.title}\n\nIts rollout is halted in cluster {cluster}: {self.halt.why}.\n"

    def pull_request_body(self, cluster: str) -> str:
        """Return the text of the pull request, in Markdown."""
        assert self.completed is not None
        return "\n".join(
            [
                f"The rollout of {format_code(self.rollout)} {self.target} is halted in cluster {format_code(cluster)} "
                f"since {self.halt.since:%Y-%m-%d %H:%MZ}: {format_code(self.halt.why)}.",
                "",
                "| wave | settled | in flight | held | failed | of |",
                "|---|---|---|---|---|---|",
                *map(_wave_row, self.waves),
                "",
                *(f"- {format_code(name)}: {format_code(message)}" for name, message in self.failing),
                *([""] if self.failing else []),
                f"This pull request reverts the commits after {format_code(self.completed.commit)} "
                f"({self.completed}, which completed) up to {format_code(self.target.commit)} "
                f"and changes {format_code(self.file)}. "
                f"After the merge, instances that have moved return to {self.completed} in order. "
                "Other instances stay as they are. "
                "To correct the failure by another commit, close this pull request. Levelgate proposes no other.",
            ]
        )


def _wave_row(wave: WaveProgress) -> str:
    counts = (wave.settled, wave.moving, wave.held, wave.failed, wave.total)
    return f"| {' | '.join((format_code(wave.name), *map(str, counts)))} |"


def pending_reverts(result: ReconcileResult) -> Iterator[tuple[str, Halt]]:
    """Yield the rollout and the halt of each halt that needs a proposed revert and has no recorded pull request."""
    for name, state in sorted(result.propagation.states.items()):
        for halt in state.halts:
            if halt.revert is not None and not halt.revert.url:
                yield name, halt


def make_proposal(result: ReconcileResult, rollout: str, halt: Halt) -> RevertProposal | None:
    """Return the proposal for a halt, or None if the definition is unknown or the halt's target is outdated."""
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
    """Yield the failing instances of a definition, each with its first failure."""
    redact = SecretRedactor(result.observed.objects.values())
    for set_plan in result.plan.sets:
        causes = set_causes(set_plan) if set_plan.rendered.definition == definition else ()
        if failure := next((cause for cause in causes if cause.reason.is_failure), None):
            text = redact(f"{failure.reason}: {failure.message}")
            yield str(set_plan.rendered.parent), text[:_MAX_MESSAGE_CHARACTERS]


def _rollout_kind(definitions: Mapping[GroupKind, Definition], rollout: str) -> GroupKind | None:
    """Return the kind whose definition has the rollout `rollout`, named `DEFINITION` or `DEFINITION.POLICY`.

    The longest matching name counts, because the name of a definition may contain dots.
    """
    matches = [
        (len(definition.name), kind)
        for kind, definition in definitions.items()
        if rollout == definition.name or rollout.startswith(f"{definition.name}.")
    ]
    return max(matches)[1] if matches else None
