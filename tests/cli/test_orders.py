"""The commands of people, as they are typed: what each writes, how it is undone, and what it refuses (docs/people.md)."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitops.cli import EXIT_USAGE
from gitops.records.requests import PersonRequest, RequestSubject, break_glass, hold, pin
from renderer.identity import ObjectKey
from tests.support.cli import Typed
from tests.support.clock import START
from tests.support.link_platform import ROLLOUT, LinkPlatform
from tests.support.platform import OWN, commit_id

ORDERS = r"levelgate\.dev/(hold|suspend|halt|resume|approve|break-glass|requested-by)"
LINKS = "/apis/g.test/v1/namespaces/default/links"


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b", "c")) as found:
        yield found


def noted(fleet: LinkPlatform, path: str) -> dict[str, str]:
    found: dict[str, Any] = fleet.request("GET", path)["metadata"].get("annotations", {})
    return {name: text for name, text in found.items() if re.match(ORDERS, name)}


def undo(fleet: LinkPlatform, typed: Typed, told: str) -> str:
    """Type the command that the answer names."""
    command = told.rpartition("Undo: levelgate ")[2].strip().replace("...", "undone")
    return typed(fleet, *shlex.split(command))


def test_a_game_developer_keeps_their_environment_while_they_play(fleet: LinkPlatform, typed: Typed) -> None:
    """S1-12: a swap of the pod would lose their state. They hold their own, the others pass, it lapses or is released; who, why, until is told."""
    fleet.start(webapps={"shape": {"linear": {"n": 3}}, "maxHold": "8h"})
    told = typed(fleet, "hold", "link/b", "--until", "4h", "--reason", "a game is running")
    assert told.splitlines() == [
        "Cluster prod-eu, Fri 2026-11-20 13:00 CET",
        "Link default/b stays at its revision until 2026-11-20T16:00:00Z, and is still healed. "
        "Other instances of its rollout do not wait for it.",
        "Written: levelgate.dev/hold=a game is running, levelgate.dev/hold-until=2026-11-20T16:00:00Z",
        "Undo: levelgate release link/b -n default",
    ]
    fleet.push("two")
    assert fleet.move("two") == [["a", "c"]]
    assert fleet.propagated("b") == ("Held", "held by levelgate-cli until 2026-11-20T16:00Z: a game is running")
    assert undo(fleet, typed, told).splitlines()[1:] == [
        "Link default/b is no longer held.",
        "Written: levelgate.dev/hold-, levelgate.dev/hold-until-",
        "Undo: levelgate hold link/b -n default --reason ...",
    ]
    assert fleet.move("two") == [["b"]]


def test_what_is_proposed_next_is_said_of_the_same_cluster(fleet: LinkPlatform, typed: Typed) -> None:
    """Whoever copies it must not reach another cluster than the one that was spoken of."""
    fleet.start()
    given = ("--kubeconfig", "my config", "--context", "dev")
    said = "--kubeconfig 'my config' --context dev"
    told = typed(fleet, "hold", "link/b", "--reason", "INC-7", *given)
    assert told.endswith(f"Undo: levelgate release link/b -n default {said}\n")
    fleet.push("two")
    fleet.move("two")
    assert f"Next: levelgate explain link/b -n default {said}\n" in typed(fleet, "status", *given)
    assert typed(fleet, "explain", "link/b", *given).endswith(f"levelgate release link/b -n default {said}\n")
    assert typed(fleet, "explain", "link/b", "--sandbox").endswith("levelgate release link/b -n default --sandbox\n")


@pytest.mark.parametrize(
    ("arguments", "path", "written"),
    [
        (["suspend", "--all", "--reason", "INC-7"], f"{OWN}/levelgate", {"suspend": "INC-7"}),
        (["suspend", "source/platform", "--reason", "x"], f"{OWN}/source-platform", {"suspend": "x"}),
        (
            ["suspend", "rgd/links.g.test", "--reason", "x", "--until", "2026-11-20T14:00"],
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/links.g.test",
            {"suspend": "x", "suspend-until": "2026-11-20T13:00:00Z"},
        ),
        (["suspend", "link", "a", "--reason", "x"], f"{LINKS}/a", {"suspend": "x"}),
        (["hold", "links.g.test/a", "-n", "default", "--reason", "x"], f"{LINKS}/a", {"hold": "x"}),
    ],
)
def test_what_is_suspended_or_held_is_let_go_by_the_other_half(
    fleet: LinkPlatform, typed: Typed, arguments: list[str], path: str, written: dict[str, str]
) -> None:
    """Surface 1.2: undo pairs are fixed."""
    fleet.start()
    told = typed(fleet, *arguments)
    assert noted(fleet, path) == {f"levelgate.dev/{name}": text for name, text in written.items()}
    undo(fleet, typed, told)
    assert noted(fleet, path) == {}
    refused = typed(fleet, *shlex.split(told.rpartition("Undo: levelgate ")[2]), code=1)
    assert ("; if Git declares levelgate.dev/" in refused) == (not path.startswith(OWN))


@pytest.mark.parametrize(
    ("said", "until"),
    [
        ("2027-03-28T01:59", "2027-03-28T00:59:00Z"),
        ("2027-03-28T02:30", "2027-03-28T01:30:00Z"),
        ("2027-10-31T02:30", "2027-10-31T00:30:00Z"),
        ("2027-10-31T03:30", "2027-10-31T02:30:00Z"),
    ],
)
def test_a_time_without_a_zone_is_that_of_the_terminal_also_across_summer_time(
    fleet: LinkPlatform, typed: Typed, said: str, until: str
) -> None:
    """An hour that does not exist is the one after it; of one that comes twice the first counts, so that nothing is stopped for longer than meant."""
    fleet.start()
    typed(fleet, "suspend", "source/platform", "--reason", "x", "--until", said)
    assert noted(fleet, f"{OWN}/source-platform")["levelgate.dev/suspend-until"] == until


@pytest.mark.parametrize(
    ("zone", "said"), [("America/New_York", "9999-12-31T23:59"), ("Asia/Tokyo", "0001-01-01T00:00")]
)
def test_a_time_that_no_calendar_has_is_wrong_usage(
    fleet: LinkPlatform, typed: Typed, monkeypatch: pytest.MonkeyPatch, zone: str, said: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    told = typed(fleet, "suspend", "source/platform", "--reason", "x", "--until", said, code=EXIT_USAGE)
    assert f"{said!r} is not a time" in told


def test_a_rollout_is_halted_and_resumed(fleet: LinkPlatform, typed: Typed) -> None:
    fleet.start()
    fleet.push("two")
    fleet.move("two", rounds=1)
    told = typed(fleet, "halt", "rollout/links.g.test", "--reason", "INC-7")
    assert fleet.move("two") == []
    assert fleet.waits()["b"] == "Halted"
    assert "needs a reason" in typed(fleet, "resume", "rollout/links.g.test", code=1)
    undo(fleet, typed, told)
    assert fleet.move("two") == [["b"], ["c"]]
    assert "not halted" in typed(fleet, "resume", "rollout/links.g.test", "--reason", "x", code=1)
    assert "this rollout is not in progress" in typed(fleet, "halt", "rollout/links.g.test", "--reason", "x", code=1)
    assert noted(fleet, ROLLOUT) == {}


def test_a_rollout_is_approved(fleet: LinkPlatform, typed: Typed) -> None:
    fleet.start(webapps={"shape": {"linear": {"n": 3}}, "approvals": [{"after": {"settled": 1}}]})
    fleet.push("two")
    assert fleet.move("two") == [["a"]]
    told = typed(fleet, "approve", "rollout/links.g.test", "--after", "1", "--reason", "looks good")
    assert "Undo: ends with the next revision" in told
    assert fleet.move("two") == [["b", "c"]]
    assert "is already approved" in typed(fleet, "approve", "rollout/links.g.test", "--after", "1", code=1)


def test_an_approval_names_a_point_that_there_is(fleet: LinkPlatform, typed: Typed) -> None:
    waves = [{"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}}, {"name": "prod"}]
    fleet.start(webapps={"waves": waves, "approvals": [{"after": {"wave": "canary"}}]})
    fleet.push("two")
    fleet.move("two")
    for after in ("canari", "prod", "3"):
        told = typed(fleet, "approve", "rollout/links.g.test", "--after", after, code=1)
        assert f"requires no approval after '{after}'; choose from canary" in told
    assert noted(fleet, ROLLOUT) == {}
    typed(fleet, "approve", "rollout/links.g.test", "--after", "canary")


def test_a_commit_is_approved_by_enough_of_its_id(fleet: LinkPlatform, typed: Typed) -> None:
    """The brake on deletions: a few characters could mean any commit, and another commit is another matter."""
    fleet.names = tuple(f"x{number}" for number in range(8))
    fleet.start()
    fleet.names = ("x0",)
    fleet.push()
    fleet.step()
    commit = commit_id(fleet.commits)
    assert f"approve commit {commit}" in typed(fleet, "approve", "source/platform", "--commit", "000000", code=1)
    assert f"approve commit {commit}" in typed(fleet, "approve", "source/platform", "--commit", "9c1d2e7", code=1)
    fleet.approve("000")
    fleet.step()
    assert fleet.status("x1")
    typed(fleet, "approve", "source/platform", "--commit", commit[:12])
    for _ in range(4):
        fleet.step()
    assert not fleet.status("x1")


def test_a_break_glass_is_short(fleet: LinkPlatform, typed: Typed) -> None:
    fleet.start()
    assert "at most 4h" in typed(fleet, "break-glass", "link/a", "--for", "5h", "--reason", "x", code=1)
    typed(fleet, "break-glass", "link/a", "--for", "4h", "--reason", "INC-7")
    assert noted(fleet, f"{LINKS}/a") == {
        "levelgate.dev/break-glass-reason": "INC-7",
        "levelgate.dev/break-glass-until": (START + timedelta(hours=4)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


@pytest.mark.parametrize(
    ("order", "signed"),
    [
        (lambda subject: break_glass(subject, "INC-7", START), "break-glass-by"),
        (lambda subject: pin(subject, "4e01b7a", "INC-7", None), "pin-by"),
        (lambda subject: hold(subject, "INC-7", None), "requested-by"),
    ],
)
def test_an_order_is_signed_where_no_other_of_the_same_object_is(
    order: Callable[[RequestSubject], PersonRequest], signed: str
) -> None:
    """Of two that stand on one object at once each keeps its own name."""
    subject = RequestSubject(
        ObjectKey("g.test", "Link", "default", "a"), {"metadata": {"uid": "1"}}, None, "ada", START, is_instance=True
    )
    assert order(subject).patch["metadata"]["annotations"][f"levelgate.dev/{signed}"] == "ada"
    assert order(replace(subject, by="")).patch["metadata"]["annotations"][f"levelgate.dev/{signed}"] is None


def test_an_order_can_be_shown_as_kubectl_or_as_lines_for_git(fleet: LinkPlatform, typed: Typed) -> None:
    """Surface 1.1, 6: nothing that a person can order needs this program. Nothing is written."""
    fleet.start()
    order = ["hold", "link/a", "--reason", "it's mine", "--until", "1h"]
    assert typed(fleet, *order, "--dry-run").splitlines() == [
        "# Cluster prod-eu, Fri 2026-11-20 13:00 CET",
        "kubectl annotate links.g.test a -n default --overwrite 'levelgate.dev/hold=it'\"'\"'s mine' levelgate.dev/hold-until=2026-11-20T13:00:00Z",
    ]
    assert typed(fleet, *order, "--git").splitlines()[1:] == [
        "# a.json: Link default/a",
        "metadata:",
        "  annotations:",
        "    levelgate.dev/hold: it's mine",
        "    levelgate.dev/hold-until: '2026-11-20T13:00:00Z'",
    ]
    assert typed(fleet, "suspend", "--all", "--reason", "x", "--dry-run").splitlines()[1:] == [
        "kubectl annotate configmaps levelgate -n levelgate-system --overwrite levelgate.dev/suspend=x levelgate.dev/suspend-until-"
    ]
    assert "is in no file" in typed(fleet, "suspend", "--all", "--reason", "x", "--git", code=1)
    assert noted(fleet, f"{LINKS}/a") == {}


def test_what_a_rollout_is_asked_stands_on_its_definition_in_git(fleet: LinkPlatform, typed: Typed) -> None:
    """1.1, 6: or it is done otherwise there, and `--git` says how."""
    fleet.start(paced={"approvals": [{"after": {"settled": 1}}]})
    fleet.push("two")
    fleet.step()
    rollout = "rollout/links.g.test"
    assert typed(fleet, "halt", rollout, "--reason", "INC-7", "--git").splitlines()[1:] == [
        "# its file: the definition of rollout links.g.test",
        "metadata:",
        "  annotations:",
        "    levelgate.dev/halt: INC-7",
    ]
    typed(fleet, "halt", rollout, "--reason", "INC-7")
    fleet.step()
    assert typed(fleet, "resume", rollout, "--reason", "over", "--git").splitlines()[1:] == [
        "# its file: remove these from metadata.annotations of the definition of rollout links.g.test",
        "levelgate.dev/halt",
    ]
    approval = typed(fleet, "approve", rollout, "--after", "1", "--git", code=1)
    assert "remove the point after 1 from `approvals` of its policy" in approval
    pin = typed(fleet, "pin", "source/platform", "--revision", "4e01b7a", "--reason", "x", "--git", code=1)
    assert "revert, or set `ref: {commit: ...}`" in pin


def test_what_is_no_instance_is_told_where_it_belongs(fleet: LinkPlatform, typed: Typed) -> None:
    fleet.start()
    refused = typed(fleet, "hold", "deployment/a-app", "--reason", "x", code=1)
    assert "belongs to instance Link/default/a" in refused
    assert "name the instance: levelgate hold link/a -n default" in refused
    missing = typed(fleet, "hold", "link/z", "--reason", "x", code=1)
    assert (
        "link/z does not exist in namespace default in cluster prod-eu; for an object that is only in Git, print"
        in missing
    )
    assert "levelgate.dev/hold: x" in typed(fleet, "hold", "link/z", "--reason", "x", "--git")


def test_what_git_says_is_taken_out_there(fleet: LinkPlatform, typed: Typed) -> None:
    """A word of Git on the live object would come back with the next write."""
    said = {"levelgate.dev/hold": "x", "levelgate.dev/hold-until": "2026-11-20T11:00:00Z"}
    fleet.written["a"] = {"metadata": {"annotations": said}}
    fleet.start()
    assert "is held by Git; remove levelgate.dev/hold from a.json" in typed(fleet, "release", "link/a", code=1)


def test_a_source_is_pinned_to_a_commit_and_let_go(fleet: LinkPlatform, typed: Typed) -> None:
    """Surface 1.2: pin and unpin."""
    fleet.start()
    told = typed(fleet, "pin", "source/platform", "--revision", "4E01B7A", "--until", "4h", "--reason", "INC-7")
    assert "source platform stays at commit 4e01b7a until 2026-11-20T16:00:00Z, whatever its ref names." in told
    found = fleet.request("GET", f"{OWN}/source-platform")["metadata"]["annotations"]
    assert found["levelgate.dev/pin"] == "4e01b7a"
    assert "Undo: levelgate unpin source/platform" in told
    typed(fleet, "unpin", "source/platform")
    found = fleet.request("GET", f"{OWN}/source-platform")["metadata"]["annotations"]
    assert not [name for name in found if "pin" in name]
    assert "is not pinned" in typed(fleet, "unpin", "source/platform", code=1)
    assert "is not a commit" in typed(fleet, "pin", "source/platform", "--revision", "main", "--reason", "x", code=1)
