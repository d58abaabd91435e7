"""Proposals of reverts for halted rollouts: one branch and one pull request for each halt.

The name of the branch identifies a proposal. So a restarted process finds an existing branch and pull request, and
creates neither twice. Only the record of the rollout stores the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from applier.cluster import PARENT_MANAGER, Cluster
from applier.errors import ClusterError
from gitops.clock import Clock
from gitops.errors import RevisionNotFound, SourceError, Unauthorized
from gitops.forge.connect import ForgeProject
from gitops.forge.port import Forge, ForgeError, ForgeRefused, RateLimited
from gitops.pull_requests.revert import RevertProposal, make_proposal, pending_reverts
from gitops.reconcile.context import ReconcileResult
from gitops.records.rollout_records import rollout_key
from gitops.source import BranchRef, Credentials, DefaultBranchRef, Mirror, RevertError, RevertRequest, Tip
from gitops.source_config import SourceConfig
from renderer import well_known
from renderer.frozen import dataclass

_log = logging.getLogger(__name__)

MIN_RETRY_DELAY: Final = timedelta(minutes=1)
MAX_RETRY_DELAY: Final = timedelta(minutes=30)
"""Maximum delay between two attempts. The delay starts at `MIN_RETRY_DELAY` and doubles up to the maximum."""

_FINAL_ERRORS = (ForgeRefused, RevertError, Unauthorized, RevisionNotFound)
"""Errors that last until a person acts. Only a restart or a changed configuration causes another attempt."""

_HaltKey = tuple[str, int, datetime]
"""Rollout, its halted revision, and the time of the halt."""


@dataclass
class RevertProposer:
    """Proposer of reverts for the configured sources."""

    cluster: Cluster
    clock: Clock
    notice: Callable[[str, str], None]
    """Function that receives the outcome of each attempt, as (source, text)."""
    hint: Callable[[], None] = lambda: None
    """Function that requests a reconciliation, which reads the outcome from the record of the rollout."""
    _configs: Mapping[str, SourceConfig] = field(default_factory=dict)
    _mirrors: Mapping[str, Mirror] = field(default_factory=dict)
    _tried: dict[_HaltKey, str] = field(default_factory=dict)
    _tasks: dict[_HaltKey, asyncio.Task[None]] = field(default_factory=dict)

    def configure(self, configs: Iterable[SourceConfig], mirrors: Mapping[str, Mirror]) -> None:
        """Replace the configured sources. Retry failed proposals of sources whose configuration has changed."""
        old_configs, self._mirrors = self._configs, mirrors
        self._configs = {config.name: config for config in configs}
        unchanged_names = {name for name, config in self._configs.items() if old_configs.get(name) == config}
        self._tried = {key: source for key, source in self._tried.items() if source in unchanged_names}

    def propose_pending(self, result: ReconcileResult) -> None:
        """Start the pending proposals of `result` in the background, and cancel proposals of resumed rollouts."""
        pending = {(rollout, halt.target, halt.since): halt for rollout, halt in pending_reverts(result)}
        for key in [key for key, task in self._tasks.items() if task.done() or key not in pending]:
            self._tasks.pop(key).cancel()
        for key, halt in pending.items():
            if key in self._tasks or key in self._tried:
                continue
            revert_proposal = make_proposal(result, key[0], halt)
            if revert_proposal is not None and revert_proposal.source in self._configs:
                self._tried[key] = revert_proposal.source
                self._tasks[key] = asyncio.create_task(
                    self._propose_with_retries(revert_proposal), name=f"propose {revert_proposal.branch}"
                )

    def close(self) -> None:
        while self._tasks:
            self._tasks.popitem()[1].cancel()

    async def _propose_with_retries(self, revert_proposal: RevertProposal) -> None:
        retry_delay = MIN_RETRY_DELAY
        while True:
            pause = retry_delay
            try:
                await self._record_outcome(revert_proposal, await self._propose(revert_proposal))
                return
            except RateLimited as limited:
                pause = max(limited.until - self.clock.now(), MIN_RETRY_DELAY)
            except (ForgeError, SourceError, ClusterError) as error:
                self.notice(
                    revert_proposal.source,
                    f"a revert of {revert_proposal.rollout} {revert_proposal.target} is not proposed yet: {error}",
                )
            except Exception as error:
                _log.exception("%s failed", revert_proposal.branch)
                detail = f"because of a fault of Levelgate ({type(error).__name__}); restart Levelgate to try again"
                self.notice(
                    revert_proposal.source,
                    f"a revert of {revert_proposal.rollout} {revert_proposal.target} is not proposed, {detail}",
                )
                return
            await self.clock.sleep(pause.total_seconds())
            retry_delay = min(2 * retry_delay, MAX_RETRY_DELAY)

    async def _record_outcome(self, revert_proposal: RevertProposal, outcome: str) -> None:
        """Write the outcome into the record of the rollout, which the next reconciliation reads."""
        annotations = {well_known.PROPOSED: f"{revert_proposal.target} {outcome}"}
        await self.cluster.merge(
            rollout_key(revert_proposal.rollout), {"metadata": {"annotations": annotations}}, manager=PARENT_MANAGER
        )
        self.notice(revert_proposal.source, f"revert of {revert_proposal.rollout} {revert_proposal.target}: {outcome}")
        self.hint()

    async def _propose(self, revert_proposal: RevertProposal) -> str:
        """Return the URL of the pull request, or the reason why no revert is possible.

        Raises: ForgeError or SourceError if a later attempt may succeed.
        """
        config = self._configs[revert_proposal.source]
        if config.forge is None:
            return f"source {revert_proposal.source} has no `forge` in levelgate.yaml; add `forge`"
        if revert_proposal.impossible_message:
            return revert_proposal.impossible_message
        if not isinstance(config.target.ref, BranchRef | DefaultBranchRef):
            return f"source {revert_proposal.source} follows {config.target.ref}, not a branch; revert it by hand"
        forge, rest_client = config.forge.connect(self.clock)
        try:
            return await self._find_or_create_pull(revert_proposal, config, config.forge, forge)
        except _FINAL_ERRORS as error:
            return str(error)
        finally:
            await rest_client.close()

    async def _find_or_create_pull(
        self, revert_proposal: RevertProposal, config: SourceConfig, project: ForgeProject, forge: Forge
    ) -> str:
        if existing := await forge.list_pulls_from(revert_proposal.branch):
            return existing[0].url
        ref = config.target.ref
        base = ref.name if isinstance(ref, BranchRef) else await forge.get_default_branch()
        await asyncio.to_thread(self._push, revert_proposal, config, project, base)
        try:
            return (
                await forge.create_pull(
                    revert_proposal.branch,
                    base,
                    title=revert_proposal.title,
                    body=revert_proposal.pull_request_body(self.cluster.name),
                )
            ).url
        except ForgeRefused:
            # Another process may have just opened the pull request.
            if existing := await forge.list_pulls_from(revert_proposal.branch):
                return existing[0].url
            raise

    def _push(self, revert_proposal: RevertProposal, config: SourceConfig, project: ForgeProject, base: str) -> None:
        """Push the revert as a new branch. This method blocks.

        If the branch exists, do nothing, because people may have committed to the branch.

        Raises: RevertError if `base` no longer contains both the completed and the halted commit.
        """
        assert revert_proposal.completed is not None
        mirror, target = self._mirrors[revert_proposal.source], f"refs/heads/{base}"
        refs = mirror.list_refs(target, f"refs/heads/{revert_proposal.branch}")
        if f"refs/heads/{revert_proposal.branch}" in refs:
            return
        if target not in refs:
            raise RevertError(f"branch {base} does not exist; push it, or change `ref`")
        onto = mirror.fetch(Tip(target, refs[target]))
        try:
            settled, halted = (
                mirror.find_commit(revert_proposal.completed.commit),
                mirror.find_commit(revert_proposal.target.commit),
            )
            is_one_history = mirror.is_ancestor(settled, halted) and mirror.is_ancestor(halted, onto)
        except RevisionNotFound:
            is_one_history = False
        if not is_one_history:
            raise RevertError(f"the history of {base} was rewritten and lacks the commits; revert them by hand")
        path = config.target.path
        file = f"{path}/{revert_proposal.file}" if path else revert_proposal.file
        message = revert_proposal.commit_message(self.cluster.name)
        request = RevertRequest(onto, settled, halted, file, path, message, revert_proposal.halt.since)
        mirror.push(mirror.create_revert(request), revert_proposal.branch, _push_credentials(config, project))


def _push_credentials(config: SourceConfig, project: ForgeProject) -> Credentials:
    """Return the credentials for a push.

    For HTTP, use the token of the forge, because the token of the source may be read-only.
    """
    source_credentials = config.credentials
    if config.target.scheme not in {"https", "http"}:
        return source_credentials
    return Credentials(project.token_file, source_credentials.username, ca_file=source_credentials.ca_file)
