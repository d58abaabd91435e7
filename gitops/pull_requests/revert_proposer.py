"""Propose reverts of what was halted: one branch and one pull request each, however often the process is started anew.

Nothing about it is remembered but in the record of the rollout: what is pushed or proposed already is found again, by the name of its branch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from applier.cluster import PARENT, Cluster
from applier.errors import ClusterError
from gitops.clock import Clock
from gitops.errors import RevisionNotFound, SourceError, Unauthorized
from gitops.forge.connect import ForgeProject
from gitops.forge.port import Forge, ForgeError, ForgeRefused, RateLimited
from gitops.pull_requests.revert import RevertProposal, proposal, wanted
from gitops.reconcile.context import ReconcileResult
from gitops.records.rollout_records import rollout_key
from gitops.source import BranchRef, Credentials, DefaultBranchRef, Mirror, RevertError, RevertRequest, Tip
from gitops.source_config import SourceConfig
from renderer import well_known
from renderer.frozen import dataclass

_log = logging.getLogger(__name__)

FIRST_WAIT: Final = timedelta(minutes=1)
LONGEST_WAIT: Final = timedelta(minutes=30)
"""Between two attempts, where a server does not answer."""

_FINAL = (ForgeRefused, RevertError, Unauthorized, RevisionNotFound)
"""Who meets these has to change something first; it is tried again at the next start, and when the configuration changes."""

_Key = tuple[str, int, datetime]
"""A rollout, what was halted of it, and when."""


@dataclass
class RevertProposer:
    """Proposes in the name of the sources that it is `configure`d for. `notice` hears of what is proposed and of what is tried again, `hint` asks
    for a pass that takes up what was told to a record.
    """

    cluster: Cluster
    clock: Clock
    notice: Callable[[str, str], None]
    hint: Callable[[], None] = lambda: None
    _configs: Mapping[str, SourceConfig] = field(default_factory=dict)
    _mirrors: Mapping[str, Mirror] = field(default_factory=dict)
    _tried: dict[_Key, str] = field(default_factory=dict)
    _tasks: dict[_Key, asyncio.Task[None]] = field(default_factory=dict)

    def configure(self, configs: Iterable[SourceConfig], mirrors: Mapping[str, Mirror]) -> None:
        """Work with these from now on; where something else is said of a source, what could not be proposed for it is tried again."""
        known, self._mirrors = self._configs, mirrors
        self._configs = {one.name: one for one in configs}
        same = {name for name, one in self._configs.items() if known.get(name) == one}
        self._tried = {key: source for key, source in self._tried.items() if source in same}

    def heed(self, found: ReconcileResult) -> None:
        """Begin with what this pass wants proposed; returns at once. What is wanted no more, as somebody resumed, is given up."""
        due = {(rollout, halt.target, halt.since): halt for rollout, halt in wanted(found)}
        for key in [key for key, task in self._tasks.items() if task.done() or key not in due]:
            self._tasks.pop(key).cancel()
        for key, halt in due.items():
            if key in self._tasks or key in self._tried:
                continue
            one = proposal(found, key[0], halt)
            if one is not None and one.source in self._configs:
                self._tried[key] = one.source
                self._tasks[key] = asyncio.create_task(self._work(one), name=f"propose {one.branch}")

    def close(self) -> None:
        while self._tasks:
            self._tasks.popitem()[1].cancel()

    async def _work(self, one: RevertProposal) -> None:
        wait = FIRST_WAIT
        while True:
            rest = wait
            try:
                await self._tell(one, await self._outcome(one))
                return
            except RateLimited as limited:
                rest = max(limited.until - self.clock.now(), FIRST_WAIT)
            except (ForgeError, SourceError, ClusterError) as error:
                self.notice(one.source, f"a revert of {one.rollout} {one.target} is not proposed yet: {error}")
            except Exception as error:
                _log.exception("%s failed", one.branch)
                why = f"by a fault of Levelgate ({type(error).__name__}); it is tried again at the next start"
                self.notice(one.source, f"a revert of {one.rollout} {one.target} is not proposed, {why}")
                return
            await self.clock.sleep(rest.total_seconds())
            wait = min(2 * wait, LONGEST_WAIT)

    async def _tell(self, one: RevertProposal, outcome: str) -> None:
        """Into the record of the rollout, which the next pass reads."""
        annotations = {well_known.PROPOSED: f"{one.target} {outcome}"}
        await self.cluster.merge(rollout_key(one.rollout), {"metadata": {"annotations": annotations}}, manager=PARENT)
        self.notice(one.source, f"revert of {one.rollout} {one.target}: {outcome}")
        self.hint()

    async def _outcome(self, one: RevertProposal) -> str:
        """The URL of the pull request, or why there is none. Raises ForgeError, SourceError where trying again may help."""
        config = self._configs[one.source]
        if config.forge is None:
            return f"source {one.source} has no `forge` in levelgate.yaml"
        if one.impossible:
            return one.impossible
        if not isinstance(config.target.ref, BranchRef | DefaultBranchRef):
            return f"source {one.source} follows {config.target.ref}, not a branch; revert where it is made"
        forge, rest = config.forge.connect(self.clock)
        try:
            return await self._proposed(one, config, config.forge, forge)
        except _FINAL as error:
            return str(error)
        finally:
            await rest.close()

    async def _proposed(self, one: RevertProposal, config: SourceConfig, place: ForgeProject, forge: Forge) -> str:
        if known := await forge.pulls_from(one.branch):
            return known[0].url
        ref = config.target.ref
        base = ref.name if isinstance(ref, BranchRef) else await forge.default_branch()
        await asyncio.to_thread(self._push, one, config, place, base)
        try:
            return (await forge.propose(one.branch, base, title=one.title, body=one.body(self.cluster.name))).url
        except ForgeRefused:
            if known := await forge.pulls_from(one.branch):  # somebody was faster
                return known[0].url
            raise

    def _push(self, one: RevertProposal, config: SourceConfig, place: ForgeProject, base: str) -> None:
        """Blocks. A branch that is there already is left as it is: people may have gone on with it."""
        assert one.completed is not None
        mirror, target = self._mirrors[one.source], f"refs/heads/{base}"
        refs = mirror.refs(target, f"refs/heads/{one.branch}")
        if f"refs/heads/{one.branch}" in refs:
            return
        if target not in refs:
            raise RevertError(f"there is no branch {base}")
        onto = mirror.fetch(Tip(target, refs[target]))
        try:
            settled, halted = mirror.commit(one.completed.commit), mirror.commit(one.target.commit)
            is_one_history = mirror.is_ancestor(settled, halted) and mirror.is_ancestor(halted, onto)
        except RevisionNotFound:
            is_one_history = False
        if not is_one_history:
            raise RevertError(f"the history of {base} was rewritten since")
        path = config.target.path
        file = f"{path}/{one.file}" if path else one.file
        message = one.message(self.cluster.name)
        commit = mirror.reverted(RevertRequest(onto, settled, halted, file, path, message, one.halt.since))
        mirror.push(commit, one.branch, _pushing(config, place))


def _pushing(config: SourceConfig, place: ForgeProject) -> Credentials:
    """By HTTP in the name of the forge's token, which may write where that of the source only reads."""
    own = config.credentials
    if config.target.scheme not in {"https", "http"}:
        return own
    return Credentials(place.token_file, own.username, ca_file=own.ca_file)
