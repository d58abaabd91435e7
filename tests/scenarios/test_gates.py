"""Windows, barriers, orders and rollouts on a real API server, as its audit log tells it; the time that Levelgate sees is the test's."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.command_killed import KILLED, run_killed
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, link
from tests.support.scenarios.gates import (
    HOURS,
    MONDAY,
    SATURDAY,
    annotate,
    config_map,
    definition,
    rule,
    run_at,
    window,
)
from tests.support.windows.oracle import VERBS, Daily, Watch, Written


def policy(**spec: Any) -> str:
    return rule("PropagationPolicy", "all", spec)


def slow(node: str, **fields: Any) -> dict[str, Any]:
    """A ConfigMap that is ready when somebody says of its text that it is."""
    said = f"has({node}.metadata.annotations) && 'ready' in {node}.metadata.annotations"
    return config_map(
        node, readyWhen=[f"${{{said} && {node}.metadata.annotations['ready'] == {node}.data.text}}"], **fields
    )


def make_ready(platform: CommandPlatform, name: str, text: str) -> None:
    annotate(platform, f"configmap/{name}", f"ready={text}")


def content_writes(platform: CommandPlatform, mark: int) -> list[str]:
    """The ConfigMaps of the test that were written or deleted, in order."""
    return [
        event.name
        for event in platform.writes(mark)
        if event.resource == "configmaps" and event.namespace == platform.namespace and event.code < 300
    ]


@pytest.mark.parametrize(
    ("barrier", "at_once", "when_ready", "when_open"),
    [
        ("Path", ["one-first", "one-second", "one-slow"], [], ["one-gated"]),
        ("Level", ["one-first", "one-slow"], ["one-second"], ["one-gated"]),
        ("All", ["one-first", "one-slow"], [], ["one-gated", "one-second"]),
    ],
)
def test_barriers(
    platform: CommandPlatform, barrier: str, at_once: list[str], when_ready: list[str], when_open: list[str]
) -> None:
    """S0-9, S0-26: `second` depends on `first` alone; with Level it also waits for `slow`, with All for what a gate holds as well."""
    first, second = config_map("first"), config_map("second", reads="${first.metadata.name}")
    gated = config_map("gated", propagateWhen=["${inWindow('hours')}"])
    files = {
        "def.json": definition(platform.group, slow("slow"), gated, first, second),
        "hours.json": window("hours", {**HOURS, "byName": True}),
        "policy.json": policy(barrier=barrier),
        "one.json": link(platform.group, platform.namespace),
    }
    platform.repository.commit(files)
    run_at(platform, MONDAY)
    make_ready(platform, "one-slow", "one")
    run_at(platform, MONDAY)
    platform.repository.commit({"one.json": link(platform.group, platform.namespace, text="two")})
    found = []
    for moment, is_ready in ((SATURDAY, False), (SATURDAY, True), (MONDAY, True)):
        if is_ready:
            make_ready(platform, "one-slow", "two")
        mark = platform.audit.mark()
        run_at(platform, moment)
        found.append(content_writes(platform, mark))
    assert [sorted(found[0]), *found[1:]] == [at_once, when_ready, when_open]


def test_a_commit_on_saturday_starts_on_monday_at_the_minute(platform: CommandPlatform) -> None:
    """S1-10, W2, I5: nothing of it on the weekend, nor a second before; then all, without a new commit."""
    files = {"def.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    platform.repository.commit({**files, "hours.json": window("hours", HOURS)})
    run_at(platform, MONDAY)
    platform.repository.commit({"one.json": link(platform.group, platform.namespace, text="two")})
    mark = platform.audit.mark()
    for moment in (SATURDAY, MONDAY - timedelta(seconds=1)):
        run_at(platform, moment)
        assert content_writes(platform, mark) == []
        assert reasons(platform) == {"one": "WindowClosed"}
    run_at(platform, MONDAY)
    assert content_writes(platform, mark) == ["one-a", "one-b"]


def rollout(platform: CommandPlatform, text: str, names: str = "abcd", **rules: str) -> None:
    """Commit instances whose definition says `text`, a canary first, and files with rules."""
    app = slow("app")
    app["template"]["data"]["text"] = text
    files: dict[str, str | None] = {}
    for name in names:
        one = json.loads(link(platform.group, platform.namespace, name))
        one["metadata"]["labels"] = {"tier": "canary" if name == names[0] else "prod"}
        files[f"{name}.json"] = json.dumps(one)
    files |= {"def.json": definition(platform.group, app), **{f"{name}.json": text for name, text in rules.items()}}
    platform.repository.commit(files)


def reasons(platform: CommandPlatform) -> dict[str, str]:
    listed = platform.kubectl("get", f"chains.{platform.group}", "-n", platform.namespace, "-o", "json")
    return {
        one["metadata"]["name"]: condition["reason"]
        for one in json.loads(listed)["items"]
        for condition in one["status"]["conditions"]
        if condition["type"] == "Propagated"
    }


def test_people_order_by_kubectl(platform: CommandPlatform) -> None:
    """Surface 1.2, 2.4, S1-12: halt, resume and approve on the record of the rollout, a hold on an instance; the log shows who moved when."""
    record, ours = f"configmap/rollout-chains.{platform.group}", "levelgate-system"
    rollout(platform, "one")
    run_at(platform, MONDAY)
    for name in ("a", "b", "c", "d"):
        make_ready(platform, f"{name}-app", "one")
    run_at(platform, MONDAY)
    assert set(reasons(platform).values()) == {"Settled"}
    rollout(platform, "two", policy=policy(shape={"linear": {"n": 1}}, approvals=[{"after": {"settled": 2}}]))
    mark = platform.audit.mark()
    run_at(platform, MONDAY)
    assert content_writes(platform, mark) == ["a-app"]
    annotate(platform, record, "levelgate.dev/halt=INC-7", ours)
    make_ready(platform, "a-app", "two")
    run_at(platform, MONDAY)
    assert reasons(platform) == {"a": "Settled", **dict.fromkeys("bcd", "Halted")}
    annotate(platform, record, "levelgate.dev/resume=INC-7 is over", ours)
    run_at(platform, MONDAY)
    annotate(platform, f"chains.{platform.group}/c", "levelgate.dev/hold=a game is running")
    make_ready(platform, "b-app", "two")
    run_at(platform, MONDAY)
    assert reasons(platform) == {"a": "Settled", "b": "Settled", "c": "Held", "d": "ApprovalRequired"}
    annotate(platform, record, "levelgate.dev/approve=2", ours)
    run_at(platform, MONDAY)
    annotate(platform, f"chains.{platform.group}/c", "levelgate.dev/hold-")
    make_ready(platform, "d-app", "two")
    run_at(platform, MONDAY)
    assert content_writes(platform, mark) == ["a-app", "b-app", "d-app", "c-app"]
    told = [(one["what"], one["by"]) for one in decisions(platform) if one["by"] != "levelgate"]
    assert told == [(what, "kubectl-annotate") for what in ("halted", "resumed", "approved")]


TEN = "abcdefghij"


@pytest.mark.parametrize(
    ("names", "spec", "sick", "rounds", "halted", "repairs"),
    [
        (
            TEN,
            {"shape": {"exponential": {"factor": 2}}},
            "d",
            ["a", "b", "cd", ""],
            "1 of 10 items failed",
            ["ab", "cd", ""],
        ),
        (
            TEN[:6],
            {"shape": {"linear": {"n": 2}}, "maxFailures": 1, "rollback": {"shape": {"linear": {"n": 6}}}},
            "ac",
            ["ab", "cd", ""],
            "2 of 6 items failed",
            ["abcd", ""],
        ),
    ],
    ids=["one of ten never becomes ready", "more fail than may"],
)
def test_a_bad_revision_halts_and_the_revert_repairs_what_had_moved(
    platform: CommandPlatform,
    names: str,
    spec: dict[str, Any],
    sick: str,
    rounds: list[str],
    halted: str,
    repairs: list[str],
) -> None:
    """S1-16, S1-32, S1-33, B1, B10: it holds the others, halts the rollout when its time is over, and who has not moved is never touched."""
    rollout(platform, "one", names)
    run_at(platform, MONDAY)
    annotate_all(platform, names, "one")
    run_at(platform, MONDAY)
    rollout(platform, "two", names, policy=policy(**spec))
    moment, found = MONDAY, []
    for _ in rounds:
        found.append(moved(platform, moment, codes=(0, 1, 3)))
        annotate_all(platform, set(found[-1]) - set(sick), "two")
        moment += timedelta(minutes=11)
    assert found == rounds
    assert set(reasons(platform).values()) == {"Settled", "Unhealthy", "Halted"}
    assert halted in next(one["why"] for one in decisions(platform) if one["what"] == "halted")
    rollout(platform, "one", names)
    found = []
    for _ in repairs:
        found.append(moved(platform, moment))
        annotate_all(platform, found[-1], "one")
    assert found == repairs
    assert set(reasons(platform).values()) == {"Settled"}


def moved(platform: CommandPlatform, moment: datetime, codes: Collection[int] = (0, 3)) -> str:
    """Whose ConfigMap one pass has written, as one text."""
    mark = platform.audit.mark()
    run_at(platform, moment, codes)
    return "".join(sorted(name.removesuffix("-app") for name in content_writes(platform, mark)))


def annotate_all(platform: CommandPlatform, names: Iterable[str], text: str) -> None:
    """All these are ready."""
    if members := [f"{name}-app" for name in names]:
        platform.kubectl("annotate", "--overwrite", "configmap", *members, f"ready={text}", "-n", platform.namespace)


def decisions(platform: CommandPlatform) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(rollout_record(platform)["data"]["decisions"])
    return found


def test_after_the_canary_a_person_has_to_agree(platform: CommandPlatform) -> None:
    """Surface 1.2, 6: the wave bakes, then waits for an approval; the commands say who and why, and nothing else is opened by it."""
    waves = [
        {"name": tier, "selector": {"matchLabels": {"tier": tier}}, "bake": bake, "shape": {"linear": {"n": 3}}}
        for tier, bake in (("canary", "30m"), ("prod", "0s"))
    ]
    asked = [{"after": {"wave": "canary"}, "by": ["leads"]}]
    rollout(platform, "one")
    run_at(platform, MONDAY)
    annotate_all(platform, "abcd", "one")
    run_at(platform, MONDAY)
    rollout(platform, "two", policy=policy(waves=waves, approvals=asked))
    now = MONDAY + timedelta(hours=1)
    assert moved(platform, now) == "a"
    annotate_all(platform, "a", "two")
    for minutes, reason in ((0, "WaveNotReached"), (29, "WaveNotReached"), (30, "ApprovalRequired")):
        assert moved(platform, now + timedelta(minutes=minutes)) == ""
        assert reasons(platform) == {"a": "Baking" if minutes < 30 else "Settled", **dict.fromkeys("bcd", reason)}
    now += timedelta(minutes=30)
    of_c = ("-n", platform.namespace, "--reason", "a game is running")
    platform.levelgate("hold", f"chains.{platform.group}/c", *of_c, check=0)
    order(platform, "approve", "--after", "canary", "--reason", "looks good")
    assert moved(platform, now) == "bd"
    annotate_all(platform, "bd", "two")
    platform.levelgate("release", f"chains.{platform.group}/c", "-n", platform.namespace, check=0)
    order(platform, "halt", "--reason", "INC-7")
    assert moved(platform, now) == ""
    assert reasons(platform)["c"] == "Halted"
    order(platform, "resume", "--reason", "INC-7 is over")
    assert moved(platform, now) == "c"
    told = {(one["what"], one["why"]) for one in decisions(platform) if one["why"]}
    assert told == {("approved", "looks good"), ("halted", "INC-7"), ("resumed", "INC-7 is over")}


def order(platform: CommandPlatform, command: str, *arguments: str) -> None:
    platform.levelgate(command, f"rollout/chains.{platform.group}", *arguments, check=0)


DRAINS = ("Instance", "Level", "None", "Rollout", "Unit")


def test_a_window_that_closes_midway_and_a_break_glass(platform: CommandPlatform) -> None:
    """3.3, 8, W26, W29, I5: each instance is in a window of its own, with the drain that it is called by; `glass` goes past one like that of `unit`.

    `app` is written while the windows are open, and ready after they have closed; `beside` is on its level and was kept back, `after` comes next.
    """
    now = datetime.now(UTC).replace(second=0, microsecond=0)  # the server dates what was begun
    closes, opens = now + timedelta(hours=1), now + timedelta(days=1)
    files = midway(platform, closes, opens)
    platform.repository.commit({**instances(platform, "one"), "def.json": files.pop("def.json")})
    run_at(platform, now)
    all_ready(platform, "one")
    run_at(platform, now)
    platform.repository.commit({**files, **instances(platform, "two")})
    found = []
    for moment in (now, closes, closes + timedelta(minutes=29)):
        mark = platform.audit.mark()
        run_at(platform, moment)
        found.append(set(content_writes(platform, mark)))
        if moment == closes:
            all_ready(platform, "two")
    apps = {f"{name}-app" for name in (*map(str.lower, DRAINS), "glass")}
    assert found == [
        apps,
        {"instance-beside", "level-beside", "rollout-beside"},
        {"instance-after", "rollout-after"},
    ]
    until = closes + timedelta(minutes=40)
    for said in ("reason=INC-7", f"until={until:%Y-%m-%dT%H:%M:%SZ}"):
        annotate(platform, f"chains.{platform.group}/glass", f"levelgate.dev/break-glass-{said}")
    mark = platform.audit.mark()
    run_at(platform, until - timedelta(minutes=1))
    assert set(content_writes(platform, mark)) == {"glass-beside", "glass-after"}
    overridden = {(one["by"], one["why"]) for one in decisions(platform) if one["what"] == "overridden"}
    assert overridden == {("kubectl-annotate", "INC-7")}
    platform.repository.commit(instances(platform, "three"))
    mark = platform.audit.mark()
    run_at(platform, until)
    assert content_writes(platform, mark) == []
    assert set(reasons(platform).values()) == {"WindowClosed"}
    run_at(platform, opens)
    assert len(set(content_writes(platform, mark))) >= len(apps)


def midway(platform: CommandPlatform, closes: datetime, opens: datetime) -> dict[str, str | None]:
    """A definition, and windows by the label `drain` that are open until `closes` and from `opens` on; `beside` is kept back until then."""
    far = timedelta(days=30)
    open_until = [span(closes - far, closes), span(opens, opens + far)]
    allow = {"kind": "Allow", "timeZone": "UTC", "schedule": {"once": open_until}, "overrunLimit": "30m"}
    deny = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [span(closes - far, closes)]}, "drain": "Rollout"}
    files: dict[str, str | None] = {
        f"{drain}.json": window(
            drain.lower(), {**allow, "drain": drain, "selector": {"instances": {"matchLabels": {"drain": drain}}}}
        )
        for drain in DRAINS
    }
    nodes = slow("app"), config_map("beside"), config_map("after", reads="${app.metadata.name}")
    return {
        **files,
        "beside.json": window("beside", {**deny, "selector": {"nodes": ["beside"]}}),
        "def.json": definition(platform.group, *nodes),
    }


def span(start: datetime, end: datetime) -> dict[str, str]:
    return {"start": f"{start:%Y-%m-%dT%H:%M}", "end": f"{end:%Y-%m-%dT%H:%M}"}


def instances(platform: CommandPlatform, text: str) -> dict[str, str | None]:
    """One for each drain, and one that somebody lets past its window."""
    drains = {**{drain.lower(): drain for drain in DRAINS}, "glass": "Unit"}
    files: dict[str, str | None] = {}
    for name, drain in drains.items():
        one = json.loads(link(platform.group, platform.namespace, name, text=text))
        one["metadata"]["labels"] = {"drain": drain}
        files[f"{name}-instance.json"] = json.dumps(one)
    return files


def all_ready(platform: CommandPlatform, text: str) -> None:
    names = [f"{name}-app" for name in (*map(str.lower, DRAINS), "glass")]
    platform.kubectl("annotate", "--overwrite", "configmap", *names, f"ready={text}", "-n", platform.namespace)


def rollout_record(platform: CommandPlatform) -> Any:
    name = f"configmap/rollout-chains.{platform.group}"
    return json.loads(platform.kubectl("get", name, "-n", "levelgate-system", "-o", "json"))


def test_killed_at_every_write_of_a_rollout_nothing_moves_out_of_turn(platform: CommandPlatform) -> None:
    """S1-28: one after the other also where the process dies after each single write."""
    names = ("a", "b")
    files: dict[str, str | None] = {f"{name}.json": link(platform.group, platform.namespace, name) for name in names}
    platform.repository.commit({**files, "def.json": chain(platform.group, "a")})
    platform.run_once()
    one_by_one = policy(shape={"linear": {"n": 1}})
    platform.repository.commit({"def.json": chain(platform.group, "ab"), "policy.json": one_by_one})
    mark = platform.audit.mark()
    deaths = 0
    while (
        run_killed(platform, 1 + deaths % 2, "after") == KILLED
    ):  # the first write of each may be its term of leadership alone
        deaths += 1
        assert deaths < 60, "it never gets to the end"
    assert deaths > 6
    assert content_writes(platform, mark) == ["a-b", "b-b"]


def test_no_content_is_written_outside_of_an_open_window(platform: CommandPlatform) -> None:
    """I5: a week of random windows, commits and drift (drawn once), every write of content held against the calendar of its moment."""
    draw = Random(5)
    names = ["a", "b", "c"]
    watch, moment = Watch(), SATURDAY
    selectors = [("", ()), ("kinds", ("ConfigMap",)), ("rgds", (f"chains.{platform.group}",))]
    platform.repository.commit({"def.json": chain(platform.group, "ab")})
    for number in range(12):
        files: dict[str, str | None] = {}
        for index in range(2) if number % 3 == 0 else ():
            verbs = draw.choice([VERBS[:3], VERBS, ("update",), ("create", "prune")])
            field, chosen = draw.choice(selectors)
            one = Daily(
                draw.random() < 0.5, draw.randrange(1440), draw.randrange(300, 1000), 0, "Unit", verbs, field, chosen
            )
            files[f"w{index}.json"] = window(f"w{index}", one.spec)
            watch.windows = (one,) if index == 0 else (*watch.windows, one)
        name = draw.choice(names)
        is_gone = draw.random() < 0.4 and (platform.repository.path / f"{name}.json").exists()
        files[f"{name}.json"] = (
            None if is_gone else link(platform.group, platform.namespace, name, text=f"text-{number}")
        )
        platform.repository.commit(files)
        if number % 2:
            platform.kubectl(
                "delete", "configmap", f"{draw.choice(names)}-b", "-n", platform.namespace, "--ignore-not-found"
            )
        moment += timedelta(minutes=draw.randrange(60, 700))
        mark = platform.audit.mark()
        run_at(platform, moment)
        for found in written(platform, mark, moment):
            watch.see(found)
        assert watch.breaches == []
    assert {"create", "update", "prune", "heal"} <= watch.counted.keys(), watch.counted
    platform.repository.commit({"w0.json": None, "w1.json": None})
    run_at(platform, moment)
    assert set(reasons(platform).values()) == {"Settled"}


def written(platform: CommandPlatform, mark: int, moment: datetime) -> list[Written]:
    """What the audit log tells of contents, as the oracle counts it."""
    kinds = {"configmaps": "ConfigMap", "chains": f"Chain.{platform.group}"}
    found = []
    for event in platform.writes(mark):
        manager = parse_qs(urlsplit(event.uri).query).get("fieldManager")
        if (
            event.resource not in kinds
            or event.subresource
            or event.code >= 300
            or event.namespace != platform.namespace
        ):
            continue
        if event.verb != "delete" and manager != ["levelgate"]:
            continue
        content = None if event.verb == "delete" else json.dumps([event.request.get(key) for key in ("spec", "data")])
        member = f"{event.resource}/{event.name}"
        found.append(
            Written(moment, kinds[event.resource], event.namespace, f"chains.{platform.group}", None, member, content)
        )
    return found
