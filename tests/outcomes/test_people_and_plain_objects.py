"""What people order of plain objects, and of a source with all that is in it (docs/people.md)."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support import command as process
from tests.support.cluster.waiting import eventually
from tests.support.command_at_time import stand_still
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link
from tests.support.scenarios.gates import HOURS, MONDAY, SATURDAY, annotate, run_at, window

FRIDAY = MONDAY - timedelta(days=3)
"""09:00 in Berlin."""


def commit(platform: CommandPlatform, text: str, *names: str, **annotations: dict[str, str]) -> str:
    """ConfigMaps of these names with this text, and what their annotations say; others of `first` and `second` go."""
    files: dict[str, str | None] = {}
    for name in ("first", "second"):
        if name in names:
            manifest = json.loads(config_map(platform.namespace, name, text=text))
            said = annotations.get(name, {})
            manifest["metadata"]["annotations"] = {f"levelgate.dev/{key}": value for key, value in said.items()}
            files[f"{name}.json"] = json.dumps(manifest)
        elif (platform.repository.path / f"{name}.json").exists():
            files[f"{name}.json"] = None
    return platform.repository.commit(files)


def texts(platform: CommandPlatform) -> dict[str, str]:
    """Text of each ConfigMap of the test."""
    found = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return {one["metadata"]["name"]: one["data"]["text"] for one in items if "text" in (one.get("data") or {})}


def typed(
    platform: CommandPlatform, moment: datetime, *arguments: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """A command at this time."""
    place = ("-n", platform.namespace) if arguments[0] not in {"status", "history"} else ()
    done = process.run((*arguments, *place), platform.environment, before=stand_still, given=(moment,))
    assert done.returncode == code, done.stdout + done.stderr
    return done


def explained(platform: CommandPlatform, moment: datetime, name: str) -> str:
    return typed(platform, moment, "explain", name).stdout


def plan_text(platform: CommandPlatform, moment: datetime) -> str:
    arguments = ("plan", str(platform.repository.path), "--source", platform.name)
    done = process.run(arguments, platform.environment, before=stand_still, given=(moment,))
    assert done.returncode in {0, 2, 3}, done.stdout + done.stderr
    return done.stdout


def drift(platform: CommandPlatform, name: str) -> None:
    platform.kubectl(
        "patch", "configmap", name, "-n", platform.namespace, "--type=merge", "-p", '{"data":{"text":"by hand"}}'
    )


def events(platform: CommandPlatform) -> list[tuple[str, str]]:
    found = platform.kubectl("get", "events.v1.events.k8s.io", "-A", "-o", "json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    mine = [one for one in items if one["regarding"]["name"] == f"source-{platform.name}"]
    return [(one["reason"], one["note"]) for one in mine]


@pytest.mark.both_servers
def test_a_plain_object_is_held_and_released_by_command(platform: CommandPlatform) -> None:
    """It stays what it is, is healed and not pruned; the other one goes on. Who holds it, and why, is told."""
    commit(platform, "one", "first", "second")
    run_at(platform, MONDAY)
    told = typed(platform, MONDAY, "hold", "configmap/first", "--until", "4h", "--reason", "a look at it").stdout
    assert (
        f"ConfigMap {platform.namespace}/first stays as it is until 2026-11-23T12:00:00Z, and is still healed." in told
    )
    run_at(platform, MONDAY)
    assert "a look at it" in explained(platform, MONDAY, "configmap/first")

    commit(platform, "two", "first", "second")
    assert "a look at it" in (found := plan_text(platform, MONDAY)), found
    run_at(platform, MONDAY)
    assert texts(platform) == {"first": "one", "second": "two"}
    why = explained(platform, MONDAY, "configmap/first")
    assert "held by " in why
    assert "until 2026-11-23T12:00Z: a look at it" in why
    assert f"levelgate release configmap/first -n {platform.namespace}" in why
    assert "a look at it" in explained(platform, MONDAY, f"source/{platform.name}")

    commit(platform, "two", "second")
    run_at(platform, MONDAY)
    assert texts(platform) == {"first": "one", "second": "two"}

    commit(platform, "three", "first", "second")
    assert "is no longer held" in typed(platform, MONDAY, "release", "configmap/first").stdout
    assert "is not held" in typed(platform, MONDAY, "release", "configmap/first", code=1).stderr
    run_at(platform, MONDAY)
    assert texts(platform) == {"first": "three", "second": "three"}
    assert "matches Git" in explained(platform, MONDAY, "configmap/first")


def test_a_hold_in_git_keeps_a_plain_object_until_it_is_taken_out(platform: CommandPlatform) -> None:
    """The commit that says it may change the object as well: nothing of that is written."""
    commit(platform, "one", "first", "second")
    run_at(platform, MONDAY)
    commit(platform, "two", "first", "second", first={"hold": "INC-7"})
    run_at(platform, MONDAY)
    assert texts(platform) == {"first": "one", "second": "two"}
    assert "INC-7" in explained(platform, MONDAY, "configmap/first")
    assert (
        "if Git declares levelgate.dev/hold, remove the annotation from Git"
        in typed(platform, MONDAY, "release", "configmap/first", code=1).stderr
    )
    commit(platform, "two", "first", "second")
    run_at(platform, MONDAY)
    assert texts(platform) == {"first": "two", "second": "two"}


@pytest.mark.parametrize("place", ["command", "git", "source"])
def test_what_is_held_is_healed_to_what_was_applied_last(platform: CommandPlatform, place: str) -> None:
    """Also where Git has changed it, or taken it out, since; deleted by hand it is created as it was."""
    commit(platform, "one", "first", "second")
    run_at(platform, MONDAY)
    if place == "git":
        commit(platform, "two", "first", "second", first={"hold": "INC-7"}, second={"hold": "INC-7"})
    else:
        for name in ["configmap/first", "configmap/second"] if place == "command" else [f"source/{platform.name}"]:
            typed(platform, MONDAY, "hold", name, "--reason", "INC-7")
        commit(platform, "two", "first")
    run_at(platform, MONDAY)
    drift(platform, "first")
    drift(platform, "second")
    run_at(platform, MONDAY)
    assert texts(platform) == {"first": "one", "second": "one"}
    if place != "command":  # else its hold goes with it
        platform.kubectl("delete", "configmap", "first", "-n", platform.namespace)
        run_at(platform, MONDAY)
        assert texts(platform) == {"first": "one", "second": "one"}


def test_what_waits_for_a_window_is_healed_to_what_was_applied_last(platform: CommandPlatform) -> None:
    """The window keeps changes back and no repairs."""
    platform.repository.commit({"hours.json": window("hours", HOURS)})
    commit(platform, "one", "first", "second")
    run_at(platform, FRIDAY)
    commit(platform, "two", "first")
    run_at(platform, SATURDAY)
    drift(platform, "first")
    drift(platform, "second")
    run_at(platform, SATURDAY)
    assert texts(platform) == {"first": "one", "second": "one"}


@pytest.mark.both_servers
def test_a_running_daemon_hears_a_hold_and_its_release(platform: CommandPlatform) -> None:
    """By kubectl, of an object with which nothing is wrong: it is told at once, and nothing new is written until it ends."""
    commit(platform, "one", "first", "second")
    with platform.start("--interval", "1h"):
        eventually(lambda: texts(platform) == {"first": "one", "second": "one"})
        annotate(platform, "configmap/first", "levelgate.dev/hold=INC-7")
        eventually(lambda: "INC-7" in platform.levelgate("explain", "configmap/first", "-n", platform.namespace).stdout)
        commit(platform, "two", "first", "second")
        platform.levelgate("reconcile", f"source/{platform.name}")
        eventually(lambda: texts(platform) == {"first": "one", "second": "two"})
        drift(platform, "first")
        eventually(lambda: texts(platform) == {"first": "one", "second": "two"})
        annotate(platform, "configmap/first", "levelgate.dev/hold-")
        eventually(lambda: texts(platform) == {"first": "two", "second": "two"})


def test_a_hold_by_kubectl_ends_by_itself(platform: CommandPlatform) -> None:
    """At `hold-until`, and without one 72 hours after it was first seen."""
    commit(platform, "one", "first", "second")
    run_at(platform, MONDAY)
    annotate(platform, "configmap/first", "levelgate.dev/hold=a game")
    annotate(platform, "configmap/second", "levelgate.dev/hold=another")
    annotate(platform, "configmap/second", f"levelgate.dev/hold-until={MONDAY + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}")
    run_at(platform, MONDAY)
    commit(platform, "two", "first", "second")
    run_at(platform, MONDAY + timedelta(minutes=59))
    assert texts(platform) == {"first": "one", "second": "one"}
    assert "held by kubectl-annotate" in explained(platform, MONDAY, "configmap/first")
    run_at(platform, MONDAY + timedelta(hours=1))
    assert texts(platform) == {"first": "one", "second": "two"}
    run_at(platform, MONDAY + timedelta(hours=71))
    assert texts(platform) == {"first": "one", "second": "two"}
    run_at(platform, MONDAY + timedelta(hours=72))
    assert texts(platform) == {"first": "two", "second": "two"}


def test_a_suspended_plain_object_is_not_even_healed(platform: CommandPlatform) -> None:
    """By command, and until it is resumed."""
    commit(platform, "one", "first", "second")
    run_at(platform, MONDAY)
    typed(platform, MONDAY, "suspend", "configmap/first", "--reason", "INC-7")
    drift(platform, "first")
    drift(platform, "second")
    run_at(platform, MONDAY)
    assert texts(platform) == {"first": "by hand", "second": "one"}
    assert "suspended: INC-7" in explained(platform, MONDAY, "configmap/first")
    commit(platform, "one", "second")
    run_at(platform, MONDAY)
    assert texts(platform) == {"first": "by hand", "second": "one"}
    commit(platform, "one", "first", "second")
    typed(platform, MONDAY, "resume", "configmap/first")
    run_at(platform, MONDAY)
    assert texts(platform) == {"first": "one", "second": "one"}


@pytest.mark.both_servers
def test_a_break_glass_lets_one_plain_object_past_a_closed_window(platform: CommandPlatform) -> None:
    """Only that one, as long as it lasts; each use is told with the person and the reason, in history and as an Event."""
    commit(platform, "one", "first", "second")
    run_at(platform, FRIDAY)
    platform.repository.commit({"hours.json": window("hours", HOURS)})
    changed = commit(platform, "two", "first", "second")
    run_at(platform, SATURDAY)
    assert texts(platform) == {"first": "one", "second": "one"}
    refused = typed(platform, SATURDAY, "break-glass", "configmap/first", "--for", "5h", "--reason", "x", code=1)
    assert "at most 4h" in refused.stderr
    told = typed(platform, SATURDAY, "break-glass", "configmap/first", "--for", "1h", "--reason", "INC-7").stdout
    assert f"ConfigMap {platform.namespace}/first bypasses windows until 2026-11-21T11:00:00Z" in told
    assert "INC-7" in plan_text(platform, SATURDAY)
    run_at(platform, SATURDAY)
    assert texts(platform) == {"first": "two", "second": "one"}
    history = typed(platform, SATURDAY, "history", f"source/{platform.name}", "--commit", changed[:9]).stdout
    assert "INC-7" in history
    assert any(reason == "BreakGlassUsed" and "INC-7" in note and "first" in note for reason, note in events(platform))
    commit(platform, "three", "first", "second")
    run_at(platform, SATURDAY + timedelta(minutes=59))
    assert texts(platform) == {"first": "three", "second": "one"}
    commit(platform, "four", "first", "second")
    run_at(platform, SATURDAY + timedelta(hours=1))
    assert texts(platform) == {"first": "three", "second": "one"}
    why = explained(platform, SATURDAY + timedelta(hours=1), "configmap/first")
    assert "break-glass refused: ended at 2026-11-21T11:00Z" in why


def test_a_break_glass_in_git_lets_a_plain_object_past_a_closed_window(platform: CommandPlatform) -> None:
    """It is told as that of the commit."""
    platform.repository.commit({"hours.json": window("hours", HOURS)})
    commit(platform, "one", "first", "second")
    run_at(platform, FRIDAY)
    words = {"break-glass-reason": "INC-7", "break-glass-until": "2026-11-21T11:00:00Z"}
    changed = commit(platform, "two", "first", "second", first=words)
    run_at(platform, SATURDAY)
    assert texts(platform) == {"first": "two", "second": "one"}
    notes = [note for reason, note in events(platform) if reason == "BreakGlassUsed"]
    assert any(f"by commit {changed[:12]}: INC-7" in note for note in notes), events(platform)


def test_a_break_glass_that_is_too_long_opens_nothing_later_either(platform: CommandPlatform) -> None:
    """Four hours count from when it was first seen."""
    platform.repository.commit({"hours.json": window("hours", HOURS)})
    commit(platform, "one", "first", "second")
    run_at(platform, MONDAY)
    night = MONDAY + timedelta(hours=9)
    for said in ("reason=INC-7", f"until={night + timedelta(hours=6):%Y-%m-%dT%H:%M:%SZ}"):
        annotate(platform, "configmap/first", f"levelgate.dev/break-glass-{said}")
    run_at(platform, night)
    commit(platform, "two", "first", "second")
    run_at(platform, night + timedelta(hours=3))
    assert texts(platform) == {"first": "one", "second": "one"}
    assert "is more than 4h ahead" in explained(platform, night, "configmap/first")


def test_a_break_glass_deletes_what_a_closed_window_keeps(platform: CommandPlatform) -> None:
    """Only what it names."""
    commit(platform, "one", "first", "second")
    run_at(platform, FRIDAY)
    platform.repository.commit(
        {"hours.json": window("hours", HOURS), "rest.json": config_map(platform.namespace, "rest", text="one")}
    )
    run_at(platform, FRIDAY)
    commit(platform, "one")
    run_at(platform, SATURDAY)
    assert texts(platform) == {"first": "one", "second": "one", "rest": "one"}
    typed(platform, SATURDAY, "break-glass", "configmap/first", "--for", "1h", "--reason", "INC-7")
    run_at(platform, SATURDAY)
    assert texts(platform) == {"second": "one", "rest": "one"}
    source = f"source/{platform.name}"
    typed(platform, SATURDAY, "break-glass", source, "--for", "1h", "--reason", "INC-8")
    run_at(platform, SATURDAY)
    assert texts(platform) == {"rest": "one"}
    notes = [note for reason, note in events(platform) if reason == "BreakGlassUsed"]
    assert any("prune" in note and "first" in note and "INC-7" in note for note in notes)
    assert any("prune" in note and "second" in note and "INC-8" in note for note in notes)


def commit_all(platform: CommandPlatform, text: str, **files: str) -> None:
    """A definition with an instance of this text, and a plain object beside them."""
    definition, instance = chain(platform.group, "ab"), link(platform.group, platform.namespace, text=text)
    plain = config_map(platform.namespace, "first", text=text)
    platform.repository.commit({"def.json": definition, "one.json": instance, "first.json": plain, **files})


def test_a_source_is_held_and_released_as_a_whole(platform: CommandPlatform) -> None:
    """Its instances and its plain objects: nothing new, no deletion; drift is healed."""
    source = f"source/{platform.name}"
    commit_all(platform, "one", **{"second.json": config_map(platform.namespace, "second", text="one")})
    run_at(platform, MONDAY)
    told = typed(platform, MONDAY, "hold", source, "--until", "4h", "--reason", "INC-7").stdout
    assert f"{source.replace('/', ' ')} stays as it is until 2026-11-23T12:00:00Z" in told
    assert f"Undo: levelgate release {source}" in told
    run_at(platform, MONDAY)
    assert "INC-7" in explained(platform, MONDAY, source)
    (platform.repository.path / "second.json").unlink()
    commit_all(platform, "two", **{"third.json": config_map(platform.namespace, "third", text="two")})
    drift(platform, "second")
    drift(platform, "one-a")
    run_at(platform, MONDAY)
    found = texts(platform)
    assert found == {"first": "one", "second": found["second"], "one-a": "one", "one-b": "one"}
    for name in (source, "configmap/first", f"chains.{platform.group}/one"):
        why = explained(platform, MONDAY, name)
        assert "INC-7" in why, why
        assert f"levelgate release {source}" in why
    assert "Held" in typed(platform, MONDAY, "status").stdout
    typed(platform, MONDAY, "release", source)
    run_at(platform, MONDAY)
    assert texts(platform) == dict.fromkeys(("first", "third", "one-a", "one-b"), "two")


def test_a_hold_of_a_source_ends_by_itself(platform: CommandPlatform) -> None:
    """At `hold-until`."""
    source = f"source/{platform.name}"
    commit(platform, "one", "first", "second")
    run_at(platform, MONDAY)
    typed(platform, MONDAY, "hold", source, "--until", "4h", "--reason", "INC-7")
    commit(platform, "two", "first", "second")
    run_at(platform, MONDAY + timedelta(hours=3))
    assert texts(platform) == {"first": "one", "second": "one"}
    run_at(platform, MONDAY + timedelta(hours=4))
    assert texts(platform) == {"first": "two", "second": "two"}


def test_a_break_glass_of_a_source_lets_everything_of_it_past_a_closed_window(platform: CommandPlatform) -> None:
    """Plain objects and instances."""
    source = f"source/{platform.name}"
    commit_all(platform, "one", **{"hours.json": window("hours", HOURS)})
    run_at(platform, FRIDAY)
    commit_all(platform, "two")
    run_at(platform, SATURDAY)
    assert texts(platform) == dict.fromkeys(("first", "one-a", "one-b"), "one")
    told = typed(platform, SATURDAY, "break-glass", source, "--for", "1h", "--reason", "INC-7").stdout
    assert f"{source.replace('/', ' ')} bypasses windows until" in told
    run_at(platform, SATURDAY)
    assert texts(platform) == dict.fromkeys(("first", "one-a", "one-b"), "two")
    notes = [note for reason, note in events(platform) if reason == "BreakGlassUsed"]
    assert any("first" in note and "INC-7" in note for note in notes)
    commit_all(platform, "three")
    run_at(platform, SATURDAY + timedelta(hours=1))
    assert texts(platform) == dict.fromkeys(("first", "one-a", "one-b"), "two")


@pytest.mark.parametrize("command", ["hold", "suspend", "break-glass"])
def test_who_names_a_child_is_told_its_instance(platform: CommandPlatform, command: str) -> None:
    """And whoever names what is in no set, or does not exist, is told that."""
    commit_all(platform, "one")
    run_at(platform, MONDAY)
    options = ("--reason", "x", *(("--for", "1h") if command == "break-glass" else ()))
    told = typed(platform, MONDAY, command, "configmap/one-a", *options, code=1).stderr
    assert f"name the instance: levelgate {command} chain/one -n {platform.namespace}" in told
    platform.kubectl("create", "configmap", "stray", "-n", platform.namespace)
    stray = typed(platform, MONDAY, command, "configmap/stray", *options, code=1).stderr
    assert "is not in a source, so Levelgate never writes it" in stray
    missing = typed(platform, MONDAY, command, "configmap/frist", *options, code=1).stderr
    assert "does not exist" in missing
    assert "did you mean 'first'?" in missing
    unknown = typed(platform, MONDAY, command, "source/nothing", *options, code=1).stderr
    assert "source/nothing" in unknown
