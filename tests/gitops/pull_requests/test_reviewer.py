"""One comment and one state on each pull request, on forges that answer as the real ones do and from real refs (docs/review.md)."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gitops.forge import rest
from gitops.forge.connect import ForgeProject, UnknownForge
from gitops.forge.port import Comment, ForgeRefused, RateLimited
from gitops.plan import planner
from gitops.plan.isolated_process import (
    OUT_OF_MEMORY,
    PlanRequest,
    compute_plan_isolated,
    describe_exit,
    lacks_memory,
)
from gitops.plan.report import Report
from gitops.pull_requests.comment import ReviewedCommits
from gitops.pull_requests.reviewer import Reviewer
from gitops.source import ReadLimits
from tests.support.clock import StillClock
from tests.support.commonmark import outside_of_code
from tests.support.git.forge import BOT, Refusal
from tests.support.git.repository import Repository
from tests.support.git.review import Review, config, on_github
from tests.support.properties.repositories import config_map, definition, instance

__all__ = ["on_github"]

MARK = "<!-- levelgate:plan source=platform -->"


@pytest.fixture(params=["github", "gitea", "gitlab"])
def review(request: pytest.FixtureRequest, repository: Repository) -> Review:
    return Review(repository, request.param)


async def everything(reviewer: Reviewer) -> None:
    assert await reviewer.review_all(), "not all went well"


def test_a_pull_request_gets_one_comment_which_follows_its_head(review: Review) -> None:
    """Also by a process that was started anew, and where somebody else has written our mark."""
    first = review.pull(config("b"))
    forgery = review.forge.say(1, "mallory", f"{MARK}\n<!-- levelgate:state head={first} base=x tip=x -->\nall is well")
    review.run(everything)
    (body,) = review.forge.bodies(1)
    assert body.startswith(f"{MARK}\n<!-- levelgate:state head={first} ")
    assert "### Levelgate plan: 1 create" in body
    assert [(one["sha"], one["state"]) for one in review.forge.states] == [(first, "success")]
    second = review.pull({**config("b"), **config("c")})
    review.run(everything)
    (body,) = review.forge.bodies(1)
    assert (f"head={second}" in body, "2 create" in body) == (True, True)
    assert [one["sha"] for one in review.forge.states] == [first, second]
    assert "all is well" in review.forge.comments[forgery]["body"]


def test_nothing_is_planned_written_or_said_twice(review: Review) -> None:
    """A second look asks which are open, which the forge answers with 304, and nothing else; a new process reads its comment besides."""
    review.pull(config("b"))
    review.run(everything, everything)
    writes = [one for one in review.forge.asked if not one.startswith("GET")]
    assert len(writes) == 3  # the comment, the state that links to it, and which commits they are of
    assert (len(review.notices), review.forge.unchanged >= 1) == (1, True)
    review.run(everything)
    assert [one for one in review.forge.asked if not one.startswith("GET")] == writes
    assert len(review.notices) == 1


def test_a_target_that_has_gone_on_makes_the_plan_stale(review: Review) -> None:
    """The plan is of what the pull request itself changes, whatever happened to its target meanwhile."""
    review.pull(config("b"))
    review.run(everything)
    last_line = review.forge.bodies(1)[0].splitlines()[-1]
    assert "When `main` moves, Levelgate marks the plan as **stale**.</sub>" in last_line
    tip = ""

    async def gone_on(_: Reviewer) -> None:
        nonlocal tip
        tip = review.repository.commit(config("z"))

    review.run(everything, gone_on, everything)
    (body,) = review.forge.bodies(1)
    assert f"> **Stale**: `main` has moved to `{tip[:7]}`" in body
    assert "1 create" in body
    assert review.forge.states[-1]["description"] == "stale: 1 create"


@pytest.mark.parametrize(("state", "word"), [("merged", "Merged"), ("closed", "Closed")])
def test_the_last_word_is_said_once_a_pull_request_is_over(review: Review, state: str, word: str) -> None:
    review.pull(config("b"))

    async def over(_: Reviewer) -> None:
        review.forge.pulls[1].state = state

    async def again(reviewer: Reviewer) -> None:
        await reviewer.review_one(1)

    review.run(everything, over, everything, everything)
    (body,) = review.forge.bodies(1)
    assert f"> {word}: this was the last plan." in body
    assert f"over={state}" in body.splitlines()[1]
    before = len(review.forge.asked)
    review.run(again)
    assert not [one for one in review.forge.asked[before:] if not one.startswith("GET")]


def test_only_heads_of_what_is_open_are_kept(on_github: Review) -> None:
    """Neither one that was pushed over, nor one of a pull request that was closed, be it while nobody looked."""
    for number in range(1, 4):
        on_github.pull(config(f"b{number}"), number)

    async def changed(_: Reviewer) -> None:
        on_github.pull(config("c"), 1)
        on_github.forge.pulls[2].state = "closed"

    on_github.run(everything, changed, everything)
    assert on_github.lent() == {on_github.forge.pulls[1].head, on_github.forge.pulls[3].head}
    on_github.forge.pulls[3].state = "merged"
    on_github.run(everything)
    assert on_github.lent() == {on_github.forge.pulls[1].head}


def test_a_head_that_is_too_large_is_told_and_fetched_once(on_github: Review) -> None:
    on_github.limits = ReadLimits(max_repository_bytes=60_000)
    head = on_github.pull({f"{number}.bin": os.urandom(500).hex() for number in range(120)})

    async def looked(reviewer: Reviewer) -> None:
        fetched = reviewer.mirror.fetch
        asked = list[object]()
        reviewer.mirror.fetch = lambda *one, **how: asked.append(one) or fetched(*one, **how)  # type: ignore[func-returns-value, method-assign]
        for _ in range(2):
            assert not await reviewer.review_all()
            assert len(asked) == 2

    on_github.run(looked)
    (body,) = on_github.forge.bodies(1)
    assert "cannot be made" in body
    assert "is larger than 60000 bytes" in body
    assert [(one["sha"], one["state"]) for one in on_github.forge.states] == [(head, "error")]


def test_of_more_than_anybody_reads_those_that_were_read_are_reviewed(
    on_github: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opens so many pull requests keeps those from a plan that come after, and no others."""
    monkeypatch.setattr(rest, "_MAX_PAGES", 2)
    on_github.forge.page = 1
    for number in range(1, 4):
        on_github.pull(config(f"b{number}"), number)

    async def looked(reviewer: Reviewer) -> None:
        assert not await reviewer.review_all()

    on_github.run(looked)
    assert sum(len(on_github.forge.bodies(number)) for number in range(1, 4)) == 2
    (said,) = (text for number, text in on_github.notices if not number)
    assert "more than 2 pages; Levelgate read the first 2 items; close some pull requests" in said


def test_what_is_opened_again_is_planned_again(review: Review) -> None:
    """In the same comment, by the process that closed it and by a new one."""
    head = review.pull(config("b"))

    def turned(state: str) -> Callable[[Reviewer], Awaitable[None]]:
        async def turn(_: Reviewer) -> None:
            review.forge.pulls[1].state = state

        return turn

    review.run(everything, turned("closed"), everything, turned("open"), everything)
    (body,) = review.forge.bodies(1)
    assert (f"head={head}" in body.splitlines()[1], "Closed" in body) == (True, False)
    review.run(everything, turned("closed"), everything)
    review.run(turned("open"), everything)
    assert review.forge.bodies(1) == [body]


def test_a_head_that_is_pushed_over_while_it_is_planned_is_planned_next(on_github: Review) -> None:
    """The state is that of the commit that was planned, and the next look takes up the other."""
    first = on_github.pull(config("b"))
    second = ""

    async def raced(reviewer: Reviewer) -> None:
        planned = reviewer._plan

        async def pushed_over(commits: ReviewedCommits) -> Report:
            nonlocal second
            report = await planned(commits)
            second = second or on_github.pull({**config("c"), **config("d")})
            return report

        reviewer._plan = pushed_over  # type: ignore[method-assign]
        await reviewer.review_all()
        assert [one["sha"] for one in on_github.forge.states] == [first]
        assert f"head={first}" in on_github.forge.bodies(1)[0]
        await reviewer.review_all()

    on_github.run(raced)
    (body,) = on_github.forge.bodies(1)
    assert (f"head={second}" in body, "2 create" in body) == (True, True)
    assert [one["sha"] for one in on_github.forge.states] == [first, second]


def test_two_sources_of_one_repository_keep_a_comment_and_a_state_each(on_github: Review) -> None:
    on_github.pull(config("b"))

    async def as_another(reviewer: Reviewer) -> None:
        assert await replace(reviewer, source="other", _done={}).review_all()

    on_github.run(everything, as_another, everything, as_another)
    assert sorted(body.splitlines()[0] for body in on_github.forge.bodies(1)) == [
        MARK.replace("platform", "other"),
        MARK,
    ]
    contexts = [one["context"] for one in on_github.forge.states]
    assert contexts == ["levelgate/plan (platform)", "levelgate/plan (other)"]


def test_lists_are_read_to_their_end(review: Review) -> None:
    """Our comment stands on the third page, the second pull request on the second."""
    review.forge.page = 1
    review.pull(config("b"))
    review.pull(config("c"), number=2)
    for number in range(3):
        review.forge.say(1, "ada", f"nice {number}")
    review.run(everything)
    review.run(everything)
    assert [len(review.forge.bodies(number)) for number in (1, 2)] == [1, 1]


def test_a_comment_that_somebody_deleted_is_written_again(on_github: Review) -> None:
    on_github.pull(config("b"))

    async def deleted(reviewer: Reviewer) -> None:
        (known,) = await reviewer.forge.list_comments(1)
        on_github.forge.comments.clear()
        on_github.pull(config("c"))
        reviewer._own_comments = partial(_known, [known])  # type: ignore[method-assign]
        await everything(reviewer)

    on_github.run(everything, deleted)
    assert len(on_github.forge.bodies(1)) == 1
    assert len(on_github.forge.states) == 2


async def _known(comments: list[Comment], _number: int) -> list[Comment]:
    return comments


def test_a_comment_of_ours_that_somebody_else_has_changed_is_written_again(review: Review) -> None:
    """Who may edit comments of others can say there that all is well, and of which commits that is; not with our seal, which is the token's."""
    review.pull(config("b"))
    review.run(everything)
    (written,) = review.forge.bodies(1)
    for old, new in (("1 create", "no changes"), ("+ level 0", "  level 0"), (" seal=", " seal=0")):
        assert old in written
        review.forge.comments[1]["body"] = written.replace(old, new)
        review.run(everything)
        assert review.forge.bodies(1) == [written]


def test_what_a_forge_does_to_the_ends_of_lines_is_no_change(on_github: Review) -> None:
    on_github.pull(config("b"))
    on_github.run(everything)
    on_github.forge.comments[1]["body"] = on_github.forge.bodies(1)[0].replace("\n", " \r\n") + "\r\n"
    before = len(on_github.forge.asked)
    on_github.run(everything)
    assert not [one for one in on_github.forge.asked[before:] if not one.startswith("GET")]


def test_another_token_plans_once_more_and_keeps_the_comment(on_github: Review) -> None:
    on_github.pull(config("b"))
    on_github.run(everything)
    (first,) = on_github.forge.bodies(1)
    on_github.token.write_text("an0ther")
    on_github.forge.token = "an0ther"
    on_github.run(everything)
    (second,) = on_github.forge.bodies(1)
    assert first != second
    assert first.splitlines()[2:] == second.splitlines()[2:]


def test_of_two_comments_of_ours_one_stays(on_github: Review) -> None:
    for text in ("older", "newer"):
        on_github.forge.say(1, BOT, f"{MARK}\n{text}")
    on_github.pull(config("b"))
    on_github.run(everything)
    assert len(on_github.forge.bodies(1)) == 1


def test_a_comment_that_is_refused_as_too_long_is_shortened(on_github: Review) -> None:
    on_github.forge.limit = 20_000
    on_github.pull(
        {name: text for number in range(400) for name, text in config(f"c{number}", f"{number:060}").items()}
    )
    on_github.run(everything)
    (body,) = on_github.forge.bodies(1)
    assert 15_000 < len(body.encode()) <= 20_000
    assert "400 create" in body
    assert sum(one.startswith(("POST", "PATCH")) for one in on_github.forge.asked) > 3  # it was refused at first


REFUSALS = {
    "github, spent": Refusal(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1763640090"}),
    "github, spent, as told since 2024": Refusal(
        429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1763640090"}
    ),
    "github, secondary": Refusal(429, {"retry-after": "90", "x-ratelimit-remaining": "4000"}),
    "github, secondary, as before": Refusal(403, {"Retry-After": "90"}),
    "gitlab": Refusal(429, {"RateLimit-Remaining": "0", "RateLimit-Reset": "1763640090"}, "Retry later"),
    "gitlab, behind a proxy": Refusal(429, {"Retry-After": "Thu, 20 Nov 2025 12:01:30 GMT"}),
    "a proxy that is tired": Refusal(503, {"Retry-After": "90"}),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_limits_of_the_forge_are_kept(on_github: Review, refusal: Refusal) -> None:
    """After a refusal nothing is asked before the time that the forge names."""
    on_github.clock.moment = datetime.fromtimestamp(1763640000, UTC)
    on_github.forge.left, on_github.forge.refusal = 0, refusal
    on_github.pull(config("b"))

    async def limited(reviewer: Reviewer) -> None:
        for _ in range(2):
            with pytest.raises(RateLimited) as refused:
                await reviewer.review_all()
            assert refused.value.until == on_github.clock.moment + timedelta(seconds=90)

    async def later(_: Reviewer) -> None:
        on_github.clock.moment += timedelta(seconds=90)
        on_github.forge.left = None

    on_github.run(limited, later, everything)
    assert len(on_github.forge.asked) == 7
    assert len(on_github.forge.bodies(1)) == 1


@pytest.mark.parametrize("kind", ["github", "gitlab"])
@pytest.mark.parametrize("left", range(6))
def test_a_limit_between_any_two_requests_loses_nothing(repository: Repository, kind: str, left: int) -> None:
    """Neither the comment nor the state, nor is either there twice; also where a new process goes on."""
    review = Review(repository, kind)
    head = review.pull(config("b"))
    review.forge.left, review.forge.refusal = left, Refusal(429, {"Retry-After": "90"})

    async def broken_off(reviewer: Reviewer) -> None:
        with pytest.raises(RateLimited):
            await reviewer.review_all()

    review.run(broken_off)
    review.forge.left = None
    review.run(everything, everything)
    (body,) = review.forge.bodies(1)
    assert f"head={head}" in body
    assert review.forge.states[-1] == {**review.forge.states[0], "sha": head}
    assert "#" in review.forge.states[-1]["target_url"]


def test_following_waits_out_the_limit_and_goes_on(on_github: Review) -> None:
    """A look, then a minute; a refusal that names ninety seconds, then these."""
    on_github.pull(config("b"))
    looks: list[timedelta] = []

    async def following(reviewer: Reviewer) -> None:
        rests = on_github.clock.sleep

        async def sleep(seconds: float) -> None:
            looks.append(timedelta(seconds=seconds))
            on_github.forge.left, on_github.forge.refusal = 0, Refusal(429, {"Retry-After": "90"})
            if len(looks) == 2:
                reviewer.stop.set()
            await rests(seconds)

        on_github.clock.sleep = sleep  # type: ignore[method-assign]
        await reviewer.run(timedelta(minutes=1))

    on_github.run(following)
    assert looks == [timedelta(minutes=1), timedelta(seconds=90)]
    assert len(on_github.forge.bodies(1)) == 1


def test_who_wakes_it_has_it_look_once_and_passes_no_limit(on_github: Review) -> None:
    """A hook in the first minute ends that; one while the forge wants to be left alone ends nothing."""
    rests: list[tuple[float, bool]] = []

    async def following(reviewer: Reviewer) -> None:
        async def sleep(seconds: float) -> None:
            rests.append((seconds, False))
            if len(rests) != 2:
                reviewer.triggered.set()
            else:
                on_github.forge.left, on_github.forge.refusal = 0, Refusal(429, {"Retry-After": "90"})
            if len(rests) > 3:
                reviewer.stop.set()
            for _ in range(20):
                await asyncio.sleep(0)
            rests[-1] = seconds, True
            if len(rests) == 3:
                reviewer.stop.set()

        on_github.clock.sleep = sleep  # type: ignore[method-assign]
        await reviewer.run(timedelta(minutes=1))

    on_github.run(following)
    assert rests == [(60, False), (60, True), (90, True)]


def test_one_that_cannot_be_planned_is_told_so_and_keeps_no_other_waiting(on_github: Review) -> None:
    """Its branch is gone, its files are too many bytes; the third is fine."""
    on_github.pull(config("b"), number=3)
    on_github.pull(config("c"))
    on_github.forge.pulls[1].base = "gone"
    on_github.pull({f"big{number}.json": "x" * (1 << 20) for number in range(51)}, number=2)

    async def reviewed(reviewer: Reviewer) -> None:
        assert not await reviewer.review_all()
        on_github.forge.pulls[2].state = "closed"
        assert not await reviewer.review_all()

    on_github.run(reviewed)
    assert "its target branch 'gone' does not exist" in dict(on_github.notices)[1]
    assert "### Levelgate plan: cannot be made · `platform`" in on_github.forge.bodies(2)[0]
    assert [one["state"] for one in on_github.forge.states] == ["error", "success"]


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"cpu_seconds": 1}, "the plan needs more than the 1 s of CPU time that it may use; make smaller"),
        ({"memory": 64 << 20}, "the plan needs more than the 64 MiB of memory that it may use; make smaller"),
    ],
)
def test_a_plan_that_takes_too_much_costs_only_itself(on_github: Review, limit: dict[str, Any], said: str) -> None:
    """Many instances, each of which stays below its own limits; the next one is planned, by another process. That one has
    what a plan may take: to begin costs a slow machine more than the limit here.
    """
    definition = {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "bombs.kro.run"},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Bomb", "spec": {"text": "string | default=x"}},
            "resources": [
                {
                    "id": "many",
                    "forEach": [{"i": "${lists.range(1000)}"}],
                    "template": {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": "${schema.metadata.name + '-' + string(i)}"},
                        "data": {"long": "${lists.range(1000).map(x, string(x)).join('-')}"},
                    },
                }
            ],
        },
    }
    bomb = {"apiVersion": "kro.run/v1alpha1", "kind": "Bomb", "metadata": {"name": "NAME", "namespace": "prod"}}
    bombs = {f"{number}.json": json.dumps(bomb).replace("NAME", f"b{number}") for number in range(20)}
    on_github.pull({"bomb.json": json.dumps(definition), **bombs})
    on_github.pull(config("c"), number=2)

    async def plan(request: PlanRequest) -> Report:
        return await compute_plan_isolated(request, **(limit if "bomb.json" in request.head.files else {}))

    async def reviewed(reviewer: Reviewer) -> None:
        reviewer.plan = plan
        assert not await reviewer.review_all()

    on_github.run(reviewed)
    assert said in on_github.forge.bodies(1)[0]
    assert "1 create" in on_github.forge.bodies(2)[0]
    assert [one["state"] for one in on_github.forge.states] == ["error", "success"]


class Stuck(StillClock):
    """Whoever asks it for the time waits for ever."""

    def now(self) -> datetime:
        signal.pause()
        return super().now()


@dataclass
class Ending(StillClock):
    """Whoever asks it for the time comes to an end of some kind."""

    how: str = ""

    def now(self) -> datetime:
        match self.how:
            case "abort":
                os.abort()
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(9)
            case "fault":
                raise LookupError
        try:
            raise MemoryError
        except MemoryError:
            raise ValueError("a library says it so") from None


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            "abort",
            "Levelgate itself failed (the process of the plan ended with SIGABRT); report the fault with the log",
        ),
        (
            "exit",
            "Levelgate itself failed (the process of the plan ended with exit code 9); report the fault with the log",
        ),
        ("fault", "Levelgate itself failed (LookupError); report the fault with the log"),
        ("kill", "the process of the plan was killed (SIGKILL), probably because the machine has no memory left"),
        ("memory", "the plan needs more than the 4096 MiB of memory that it may use; make smaller pull requests"),
    ],
)
def test_how_the_process_of_a_plan_ended_is_told(on_github: Review, how: str, said: str) -> None:
    on_github.pull(config("b"))

    async def reviewed(reviewer: Reviewer) -> None:
        reviewer.clock, reviewer.plan = Ending(how=how), compute_plan_isolated
        assert not await reviewer.review_all()

    on_github.run(reviewed)
    assert said in on_github.forge.bodies(1)[0]


@pytest.mark.parametrize(
    ("code", "peak", "said"),
    [
        (-signal.SIGABRT, 90, "MiB of memory"),  # C++ that cannot have what it wants
        (-signal.SIGABRT, 10, "SIGABRT"),
        (1, 90, "MiB of memory"),
        (OUT_OF_MEMORY, 0, "MiB of memory"),
        (-signal.SIGXCPU, 90, "s of CPU time"),
        (-signal.SIGKILL, 90, "SIGKILL"),
        (-64, 10, "SIGRTMAX"),
        (-50, 10, "signal 50"),
        (None, 10, "exit code None"),
    ],
)
def test_a_process_that_had_nearly_all_its_memory_died_for_want_of_it(code: int | None, peak: int, said: str) -> None:
    assert said in describe_exit(code, peak << 20, cpu_seconds=2, memory=100 << 20)


def test_a_group_of_failures_that_holds_a_lack_of_memory_is_one() -> None:
    assert lacks_memory(ExceptionGroup("", [ValueError(), MemoryError()]))
    circle = ValueError()
    circle.__cause__ = LookupError()
    circle.__cause__.__cause__ = circle
    assert not lacks_memory(circle)


def test_what_is_outside_is_not_known_to_a_review(on_github: Review) -> None:
    gated = config_map("page") | {"propagateWhen": ["${external('budget')}"]}
    on_github.pull({"link.json": definition("Link", [gated]), "x.json": instance("Link", "x")})
    on_github.run(everything)
    assert "unknown (a review requests no external facts)" in on_github.forge.bodies(1)[0]


def test_a_plan_that_waits_for_ever_is_given_up(on_github: Review) -> None:
    """It takes no CPU time, so nothing but the clock ends it."""
    on_github.pull(config("b"))

    async def reviewed(reviewer: Reviewer) -> None:
        reviewer.clock, reviewer.plan = Stuck(), partial(compute_plan_isolated, seconds=0.5)
        assert not await reviewer.review_all()

    on_github.run(reviewed)
    assert "the plan takes more than 0.5 s" in on_github.forge.bodies(1)[0]
    assert [one["state"] for one in on_github.forge.states] == ["error"]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "more memory than it may use"),
        (ValueError("s3cret"), "Levelgate itself failed (ValueError)"),
    ],
)
def test_an_error_that_nobody_foresaw_ends_no_more_than_one_plan(
    on_github: Review, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    on_github.pull(config("b"))

    async def fails(*_: object, **__: object) -> Report:
        raise error

    monkeypatch.setattr(planner, "plan_commits", fails)
    on_github.run(lambda reviewer: reviewer.review_all())
    (body,) = on_github.forge.bodies(1)
    assert said in body
    assert "s3cret" not in body


def test_what_a_hostile_pull_request_holds_stays_text(on_github: Review) -> None:
    """Names and values with HTML, links, mentions, ends of fences, and YAML that is none: nothing of it means anything in the comment."""
    hostile = "<img src=x onerror=alert(1)> @everyone [a](javascript:x) ``` --> <!-- levelgate:plan source=platform -->"
    files = config("b", hostile)
    on_github.pull({**files, "@everyone <b>.yaml": "a: [", "bomb.yaml": "a: &a [x]\nb: [*a, *a\n"})
    on_github.run(lambda reviewer: reviewer.review_all())
    (body,) = on_github.forge.bodies(1)
    outside = outside_of_code(body)
    assert "@everyone" not in outside
    assert "<img" not in outside
    assert "javascript" not in outside
    assert body.splitlines().count(MARK) == 1
    assert on_github.forge.states[0]["state"] == "failure"


def test_a_token_that_is_refused_is_named_by_its_file_and_never_told(on_github: Review) -> None:
    on_github.token.write_text("wrong-s3cret")

    async def refused(reviewer: Reviewer) -> None:
        with pytest.raises(ForgeRefused, match=r"the token in .* is invalid") as error:
            await reviewer.review_all()
        assert "s3cret" not in str(error.value)

    on_github.run(refused)


@pytest.mark.parametrize(
    ("url", "kind", "api", "project"),
    [
        ("https://github.com/acme/platform.git", "", "https://api.github.com", "acme/platform"),
        ("https://gitlab.com/acme/teams/platform", "", "https://gitlab.com/api/v4", "acme/teams/platform"),
        ("https://codeberg.org/acme/platform", "", "https://codeberg.org/api/v1", "acme/platform"),
        ("git@github.com:acme/platform.git", "", "https://api.github.com", "acme/platform"),
        ("ssh://git@git.example.com:2222/a/b.git", "gitea", "https://git.example.com/api/v1", "a/b"),
        ("https://git.example.com:8443/a/b", "github", "https://git.example.com:8443/api/v3", "a/b"),
    ],
)
def test_which_forge_it_is_follows_from_the_url(tmp_path: Path, url: str, kind: str, api: str, project: str) -> None:
    place = ForgeProject.from_url(url, tmp_path, kind=kind)
    assert (place.api, place.project) == (api, project)


@pytest.mark.parametrize(
    ("url", "api", "why"),
    [
        ("https://git.example.com/a/b", "https://me:s3cret@git.example.com/api", "contains a credential"),
        ("https://git.example.com/a/b", "http://git.example.com/api/v1", "Levelgate sends no token to this URL"),
        ("https://git.example.com/a/b", "git.example.com/api/v1", "Levelgate sends no token to this URL"),
        (
            "https://git.example.com/a/b",
            "https://git.example.com/api?x=1",
            "/api: Levelgate sends no token to this URL",
        ),
        ("https://me:s3cret@/", "", "the forge cannot be derived from this URL"),
        ("https://git.example.com:99999/a/b", "", "cannot be read as a URL"),
        ("https://[git/a/b", "", "cannot be read as a URL"),
        (f"https://{'git' * 22}.example/a/b", "", "cannot be read as a URL"),
    ],
)
def test_where_a_token_may_not_go_is_refused_without_telling_one(tmp_path: Path, url: str, api: str, why: str) -> None:
    with pytest.raises(UnknownForge, match=why) as refused:
        ForgeProject.from_url(url, tmp_path, kind="gitea", api=api)
    assert "s3cret" not in str(refused.value)


def test_which_forge_it_is_has_to_be_said_otherwise(tmp_path: Path) -> None:
    with pytest.raises(UnknownForge, match="unknown forge; name github, gitlab or gitea"):
        ForgeProject.from_url("https://git.example.com/acme/platform", tmp_path)
    with pytest.raises(UnknownForge, match="--project"):
        ForgeProject.from_url("/srv/platform", tmp_path, kind="gitea")
