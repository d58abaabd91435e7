"""`onHalt: ProposeRevert`: a halted rollout proposes, once, to take back what halted it (docs/rollouts.md; S1-33).

Whole passes on the sandbox with a still clock, real commits, and forges on loopback that answer as the three kinds do.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gitops.forge.connect import ForgeProject
from gitops.pull_requests.revert import RevertProposal, make_proposal
from gitops.pull_requests.revert_proposer import MIN_RETRY_DELAY, RevertProposer, _push_credentials
from gitops.reconcile.context import ReconcileResult
from gitops.rollouts.state import Halt, TargetRevision
from gitops.source import BranchRef, Credentials, DefaultBranchRef, Mirror, Ref, SourceTarget, TagRef, Tip
from gitops.source_config import SourceConfig
from renderer.errors import SourceLocation
from renderer.identity import GroupKind
from tests.support.cluster.waiting import until
from tests.support.git.forge import TOKEN, FakeForge, Pull
from tests.support.git.repository import WorkTree
from tests.support.link_platform import GROUP, LinkPlatform

POLICY: Mapping[str, Any] = {"shape": {"linear": {"n": 2}}, "onHalt": "ProposeRevert"}
TEN = datetime(2026, 11, 20, 10, tzinfo=UTC)
CANARY = "c4nary-of-a-password"
SECRET = {
    "id": "secret",
    "template": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-secret"},
        "data": {"password": base64.b64encode(CANARY.encode()).decode()},
    },
}


@dataclass
class GitFleet(LinkPlatform):
    """A fleet whose commits are real, below `platform/` of a repository."""

    work: WorkTree = field(default_factory=lambda: WorkTree(Path()))

    def committed(self, files: Mapping[str, str]) -> str:
        below = {f"platform/{name}": text for name, text in files.items()}
        return self.work.replace(below, f"image {self.image}", below="platform")


@dataclass
class HaltedRollout:
    """A fleet that was halted at its second revision, and a daemon's proposer, which each `propose` starts anew."""

    fleet: GitFleet
    work: WorkTree
    tmp_path: Path
    kind: str = "github"
    ref: Ref = field(default_factory=lambda: BranchRef("main"))
    has_forge: bool = True
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.forge = FakeForge(self.kind)
        self.token = self.tmp_path / "token"
        self.token.write_text(f"{TOKEN}\n")

    def halt(self, **policy: Any) -> ReconcileResult:
        self.fleet.start(webapps={**POLICY, **policy})
        self.fleet.push("bad")
        self.fleet.move("bad", rounds=3, except_for=["i1"])
        found = self.fleet.step(timedelta(minutes=11))
        assert self.fleet.rollout().halts
        return found

    def propose(self, found: ReconcileResult) -> str:
        """What the record of the rollout says of it after the next pass; "" where nothing is told."""

        async def go() -> None:
            told = asyncio.Event()
            async with self.forge.serving() as forge:
                proposer = RevertProposer(
                    self.fleet.cluster, self.fleet.clock, lambda *one: self.notices.append(": ".join(one)), told.set
                )
                proposer.configure([self._config(forge.url)], {"platform": self._mirror})
                proposer.propose_pending(found)
                proposer.propose_pending(found)  # nothing is begun twice
                if any(one.get_name().startswith("propose ") for one in asyncio.all_tasks()):
                    await asyncio.wait_for(told.wait(), 60)
                proposer.close()

        self.fleet.call(go())
        self.fleet.step()
        (halt,) = self.fleet.rollout().halts
        return str(halt.revert or "")

    @property
    def _mirror(self) -> Mirror:
        return Mirror(SourceTarget(str(self.work.path), self.ref, "platform"), self.tmp_path / "cache")

    def _config(self, api: str) -> SourceConfig:
        place = ForgeProject.from_url("", self.token, kind=self.kind, api=api, project="acme/platform")
        return SourceConfig("platform", self._mirror.target, forge=place if self.has_forge else None)

    @property
    def branch(self) -> str:
        (target,) = set(self.fleet.rollout().targets.values())
        return f"levelgate/revert-links.{GROUP}-{target.commit}"


@pytest.fixture
def work(tmp_path: Path) -> WorkTree:
    return WorkTree.create(tmp_path / "work")


@pytest.fixture
def fleet(work: WorkTree) -> Iterator[GitFleet]:
    with GitFleet(("i0", "i1", "i2", "i3"), work=work) as found:
        yield found


@pytest.fixture
def story(fleet: GitFleet, work: WorkTree, tmp_path: Path) -> HaltedRollout:
    return HaltedRollout(fleet, work, tmp_path)


@pytest.mark.parametrize("kind", ["github", "gitea", "gitlab"])
@pytest.mark.parametrize("ref", [BranchRef("main"), DefaultBranchRef()], ids=["branch", "default"])
def test_one_pull_request_that_takes_it_back(
    fleet: GitFleet, work: WorkTree, tmp_path: Path, kind: str, ref: Ref
) -> None:
    """Its tree is that of what completed; it is told wherever the halt is told, and a process that is started anew finds it again."""
    story = HaltedRollout(fleet, work, tmp_path, kind, ref)
    found = story.halt()
    good = work.git("rev-parse", "main^")
    told = story.propose(found)
    (pull,) = story.forge.pulls.values()
    assert (pull.branch, pull.base) == (story.branch, "main")
    assert told == f"a revert is proposed: {_url(kind, pull)}"
    assert work.git("rev-parse", f"{story.branch}^{{tree}}") == work.git("rev-parse", f"{good}^{{tree}}")
    assert work.git("rev-parse", f"{story.branch}^") == work.git("rev-parse", "main")
    assert pull.body.splitlines()[0] == f"Revert links.{GROUP} r2 ({work.git('rev-parse', 'main')[:7]})"
    assert "| `all` | 1 | 0 | 0 | 1 | 4 |" in pull.body
    assert "`1 of 4 items failed in wave all, more than the limit of 0`" in pull.body
    assert "Unhealthy: not healthy at r2 within the progress deadline" in pull.body
    assert told in fleet.propagated("i3")[1]
    assert story.notices == [f"platform: revert of links.{GROUP} r2: {_url(kind, pull)}"]
    asked = list(story.forge.asked)
    fleet.restart()
    assert story.propose(fleet.step()) == told
    assert story.forge.asked == asked


def _url(kind: str, pull: Pull) -> str:
    return f"https://forge.test/acme/platform/{'-/merge_requests' if kind == 'gitlab' else 'pull'}/{pull.number}"


def test_it_is_told_once_as_an_event_and_a_notification(story: HaltedRollout) -> None:
    """The words are those of the vocabulary: the rollout is `RolloutHalted`."""
    told: list[tuple[str, str]] = []
    found = story.halt()
    story.fleet.reconciler.on_transitions = lambda some: told.extend(
        (str(one.event_reason), one.message) for one in some
    )
    revert = story.propose(found)
    story.fleet.step()
    assert told == [("Halted", f"r2: {revert}")]
    events = story.fleet.request("GET", "/apis/events.k8s.io/v1/events")["items"]
    assert [one["note"] for one in events if "revert" in one["note"]] == [f"r2: {revert}"]


def test_once_it_is_merged_the_instances_go_back_in_order(story: HaltedRollout) -> None:
    """The content of r1 under a new number, by the pace of a rollback, and nothing is proposed of that."""
    found = story.halt()
    story.propose(found)
    story.work.git("merge", "--quiet", "--ff-only", story.branch)
    story.fleet.push("one")
    assert story.fleet.move("one", rounds=4) == [["i0", "i1"]]
    assert set(story.fleet.waits().values()) == {"Settled"}
    assert story.fleet.rollout().halts == ()


@pytest.mark.parametrize("step", ["the branch", "the pull request"])
def test_a_process_that_is_killed_in_between(story: HaltedRollout, step: str) -> None:
    """Pushed, but not proposed; proposed, but not told: the next one goes on, and there is one of each."""
    found = story.halt()
    first = story.propose(found)
    commit = story.work.git("rev-parse", story.branch)
    if step == "the branch":
        story.forge.pulls.clear()
    assert story.propose(found) == first  # of the pass before: the record does not know yet
    assert story.work.git("rev-parse", story.branch) == commit
    assert len(story.forge.pulls) == 1


@pytest.mark.parametrize("kind", ["github", "gitea", "gitlab"])
def test_a_fork_with_a_branch_of_that_name_is_not_ours(
    fleet: GitFleet, work: WorkTree, tmp_path: Path, kind: str
) -> None:
    story = HaltedRollout(fleet, work, tmp_path, kind)
    found = story.halt()
    story.forge.pulls[7] = Pull(7, "0" * 40, branch=story.branch, fork=True)
    assert story.propose(found).endswith(_url(kind, story.forge.pulls[8]))


def test_a_branch_that_people_went_on_with_stays_as_it_is(story: HaltedRollout) -> None:
    """It was pushed by a process that was killed before it proposed."""
    found = story.halt()
    story.propose(found)
    story.forge.pulls.clear()
    story.work.git("checkout", "--quiet", story.branch)
    theirs = story.work.commit("and a word about it", notes="why")
    story.work.git("checkout", "--quiet", "main")
    assert story.propose(found).startswith("a revert is proposed: ")
    assert story.work.git("rev-parse", story.branch) == theirs


def test_one_that_was_closed_is_not_proposed_again(story: HaltedRollout) -> None:
    found = story.halt()
    story.forge.pulls[7] = Pull(7, "0" * 40, branch=story.branch, state="closed")
    assert story.propose(found).endswith("/pull/7")
    assert len(story.forge.pulls) == 1


def test_what_is_missing_is_said(story: HaltedRollout) -> None:
    """Then it is as with `Stop`: it stays halted, and healed."""
    found = story.halt()
    story.has_forge = False
    told = story.propose(found)
    assert told == "no revert is proposed: source platform has no `forge` in levelgate.yaml; add `forge`"
    assert told in story.fleet.propagated("i3")[1]
    assert story.fleet.step(timedelta(minutes=1)).changed == 0
    story.has_forge = True
    assert story.propose(story.fleet.step()).startswith(
        "a revert is proposed: "
    )  # after a restart, with what was missing


def test_without_the_policy_nothing_is_proposed(story: HaltedRollout) -> None:
    found = story.halt(onHalt="Stop")
    assert (story.propose(found), story.forge.asked) == ("", [])


def test_what_a_person_halts_is_for_people(story: HaltedRollout) -> None:
    story.fleet.start(webapps=POLICY)
    story.fleet.push("bad")
    story.fleet.step()
    story.fleet.order(halt="INC-7")
    assert (story.propose(story.fleet.step()), story.forge.asked) == ("", [])


def test_somebody_has_mended_it_since_in_the_same_lines(story: HaltedRollout) -> None:
    found = story.halt()
    file = story.work.path / "platform/link.json"
    file.write_text(file.read_text().replace('"bad"', '"mended"'))
    story.work.commit("mended")
    assert (
        story.propose(found) == "no revert is proposed: a later commit changes the same lines of platform/link.json; "
        "revert the file by hand"
    )
    assert story.branch not in story.work.git("branch", "--list")
    assert story.forge.pulls == {}


@pytest.mark.parametrize("since", [True, False], ids=["since it was halted", "before it came"])
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "never fetched"])
def test_a_history_that_was_rewritten(story: HaltedRollout, since: bool, is_known: bool) -> None:
    """The daemon has both commits still, as it fetched them; a copy that is new has none."""
    found = story.halt()
    main = "refs/heads/main"
    if is_known:
        story._mirror.fetch(Tip(main, story.work.git("rev-parse", "main")))
    if since:
        story.work.git("commit", "--quiet", "--amend", "-m", "another")
    else:
        state = found.propagation.states[f"links.{GROUP}"]
        assert state.completed
        alone = story.work.git("commit-tree", "main~^{tree}", "-m", "of another history")
        completed = replace(state.completed, commit=alone)
        states = {**found.propagation.states, f"links.{GROUP}": replace(state, completed=completed)}
        found = replace(found, propagation=replace(found.propagation, states=states))
        if is_known:
            story.work.git("branch", "alone", alone)
            story._mirror.fetch(Tip("refs/heads/alone", alone))
    assert (
        story.propose(found)
        == "no revert is proposed: the history of main was rewritten and lacks the commits; revert them by hand"
    )


def test_a_source_that_follows_no_branch(story: HaltedRollout) -> None:
    found = story.halt()
    story.work.git("tag", "v1")
    story.ref = TagRef("v1")
    assert story.propose(found) == (
        "no revert is proposed: source platform follows tag v1, not a branch; revert it by hand"
    )


def test_a_token_that_is_refused(story: HaltedRollout) -> None:
    found = story.halt()
    story.token.write_text("gu3ssed\n")
    told = story.propose(found)
    assert "is invalid: renew it" in told
    assert "gu3ssed" not in str((told, story.notices))


def test_a_forge_that_does_not_answer_is_asked_again_ever_more_rarely(story: HaltedRollout) -> None:
    found = story.halt()
    began, asked = story.fleet.clock.moment, []
    answer = story.forge._list

    async def tired(request: Any) -> Any:
        asked.append(story.fleet.clock.moment - began)
        if len(asked) < 8:
            raise OSError("down")
        return await answer(request)

    story.forge._list = tired  # type: ignore[method-assign]
    assert story.propose(found).startswith("a revert is proposed: ")
    assert asked[:8] == [MIN_RETRY_DELAY * factor for factor in (0, 1, 3, 7, 15, 31, 61, 91)]
    assert sum("is not proposed yet" in one for one in story.notices) == 7


@pytest.mark.parametrize(("said", "waited"), [(600, 600), (5, 60)])
def test_limits_of_the_forge_are_waited_out(story: HaltedRollout, said: int, waited: int) -> None:
    """And a minute at least."""
    found = story.halt()
    began, asked = story.fleet.clock.moment, []
    answer = story.forge._list

    async def limited(request: Any) -> Any:
        asked.append((story.fleet.clock.moment - began).total_seconds())
        if len(asked) == 1:
            return web.json_response({}, status=429, headers={"Retry-After": str(said)})
        return await answer(request)

    story.forge._list = limited  # type: ignore[method-assign]
    assert story.propose(found).startswith("a revert is proposed: ")
    assert (asked[:2], story.notices[:-1]) == ([0, waited], [])


def test_where_somebody_was_faster_his_is_the_one(story: HaltedRollout) -> None:
    """Another process, or a person, between the question and the answer."""
    found, propose = story.halt(), story.forge._propose

    async def beaten(request: Any) -> Any:
        story.forge.pulls[9] = Pull(9, "0" * 40, branch=story.branch)
        return await propose(request)

    story.forge._propose = beaten  # type: ignore[method-assign]
    assert story.propose(found).endswith("/pull/9")
    assert len(story.forge.pulls) == 1


def test_what_could_not_be_proposed_is_tried_again_when_the_configuration_changes(story: HaltedRollout) -> None:
    """And what is wanted no more is given up."""
    found = story.halt()
    story.fleet.order(resume="INC-7 is over")
    resumed = story.fleet.step()
    assert not resumed.propagation.states[f"links.{GROUP}"].halts

    async def go() -> list[int]:
        def under_way() -> list[asyncio.Task[Any]]:
            return [one for one in asyncio.all_tasks() if one.get_name().startswith("propose ")]

        counts: list[int] = []
        async with story.forge.serving() as forge:
            proposer = RevertProposer(story.fleet.cluster, story.fleet.clock, lambda *_: None)
            for has_forge in (False, False, True):
                story.has_forge = has_forge
                proposer.configure([story._config(forge.url)], {"platform": story._mirror})
                proposer.propose_pending(found)
                counts.append(len(under_way()))
                if not has_forge:
                    await asyncio.gather(*under_way())
            proposer.propose_pending(resumed)
            await asyncio.wait(under_way())
        return counts

    assert story.fleet.call(go()) == [1, 0, 1]
    assert story.forge.pulls == {}


def test_five_of_those_that_failed_are_named_and_the_definition_by_its_whole_name(story: HaltedRollout) -> None:
    """A definition whose name another begins with has rollouts that are called alike."""
    found = story.halt()
    rollout = f"links.{GROUP}"
    (kind,), (halt,) = found.bundle.definitions, found.propagation.states[rollout].halts
    named = found.bundle.definitions[kind]
    shorter = {GroupKind("other.test", "Link"): replace(named, name="links", origin=SourceLocation("other.json", 1))}
    bundle = replace(found.bundle, definitions={**shorter, kind: named})
    told = make_proposal(
        replace(found, bundle=bundle, plan=replace(found.plan, sets=found.plan.sets * 6)), rollout, halt
    )
    assert told
    assert (told.file, [name for name, _ in told.failing]) == ("link.json", ["Link.g.test/default/i1"] * 5)


@pytest.mark.parametrize(
    ("completed", "target", "why"),
    [
        (None, TargetRevision(2, "b" * 40), "nothing completed before r2"),
        (TargetRevision(2, "b" * 40), TargetRevision(3, "c" * 40, reverts=1), "r3 is already a rollback to r1"),
        (TargetRevision(1), TargetRevision(2, "b" * 40), "r1 or r2 has no recorded commit; revert the commits by hand"),
        (TargetRevision(1, "a" * 40), TargetRevision(2), "r1 or r2 has no recorded commit; revert the commits by hand"),
        (TargetRevision(1, "a" * 40), TargetRevision(2, "b" * 40), ""),
    ],
)
def test_what_there_is_nothing_to_revert_to_is_not_proposed(
    completed: TargetRevision | None, target: TargetRevision, why: str
) -> None:
    halt = Halt(target.revision, TEN, "levelgate", "1 of 4 failed")
    assert (
        RevertProposal("links.g.test", "platform", "link.json", halt, target, completed, (), ()).impossible_message
        == why
    )


@pytest.mark.parametrize("url", ["https://git.example.com/acme/platform", "git@git.example.com:acme/platform"])
def test_a_branch_is_pushed_by_http_in_the_name_of_the_forge(tmp_path: Path, url: str) -> None:
    """The token of the source may be one that only reads; who the server is stays the same."""
    own = Credentials(tmp_path / "own", "robot", ca_file=tmp_path / "ca")
    place = ForgeProject.from_url(url, tmp_path / "forge", kind="gitea")
    pushing = _push_credentials(SourceConfig("platform", SourceTarget(url), own, forge=place), place)
    assert pushing == (replace(own, token_file=place.token_file) if url.startswith("https") else own)


def test_a_fault_of_our_own_is_told_and_met_once(story: HaltedRollout, caplog: pytest.LogCaptureFixture) -> None:
    found = story.halt()

    async def go() -> None:
        async with story.forge.serving() as forge:
            proposer = RevertProposer(
                story.fleet.cluster, story.fleet.clock, lambda *one: story.notices.append(": ".join(one))
            )
            proposer.configure([story._config(forge.url)], {})  # of a source without a mirror
            proposer.propose_pending(found)
            await until(lambda: bool(story.notices))
            proposer.propose_pending(found)
            assert not [one for one in asyncio.all_tasks() if one.get_name().startswith("propose ")]

    story.fleet.call(go())
    (told,) = story.notices
    assert told.startswith(f"platform: a revert of links.{GROUP} ")
    assert told.endswith("because of a fault of Levelgate (KeyError); restart Levelgate to try again")
    assert "Traceback" in caplog.text  # for who mends it


def test_no_value_of_a_secret_stands_in_it_and_no_word_means_anything(
    fleet: GitFleet, work: WorkTree, tmp_path: Path
) -> None:
    """I10, and hostile words: a server quotes what it refuses."""
    fleet.more = [SECRET]
    story = HaltedRollout(fleet, work, tmp_path)
    found = story.halt()
    hostile = f"<img src=x> @everyone [a](http://x.test) | `` quoted {CANARY} and {base64.b64encode(CANARY.encode()).decode()}"
    for one in found.plan.sets:
        for node in one.nodes:
            if node.blocked and node.blocked.reason.is_failure:
                object.__setattr__(node.blocked, "message", hostile)
        if one.not_moved and one.not_moved.reason.is_failure:
            object.__setattr__(one.not_moved, "message", hostile)
    story.propose(found)
    (pull,) = story.forge.pulls.values()
    assert CANARY not in pull.body
    assert base64.b64encode(CANARY.encode()).decode() not in pull.body
    assert "(value of Secret default/i" in pull.body
    assert "```Unhealthy: <img src=x> @everyone" in pull.body
