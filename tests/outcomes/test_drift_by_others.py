"""Drift by anybody is healed: what another manager's update changes of a field that Git sets, with the manager named.

What another manager applies, and what came through the subresource `scale`, is a Conflict: told once, with the ways out. Who is right is said for a
source (`conflicts`), or on the object (`levelgate.dev/conflicts`). Judged by the managed fields and the audit log.
"""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any

import pytest

from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response
from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link
from tests.support.link_platform import LinkPlatform
from tests.support.objects import builtins
from tests.support.platform import MERGE

CONFLICTS = "levelgate.dev/conflicts"
SCRIPT = "--field-manager=script"


def plain(platform: CommandPlatform, conflicts: str = "", **data: str) -> str:
    manifest = json.loads(config_map(platform.namespace, "plain", **(data or {"a": "ours", "b": "ours"})))
    if conflicts:
        manifest["metadata"]["annotations"] = {CONFLICTS: conflicts}
    return json.dumps(manifest)


def deployment(platform: CommandPlatform, image: str = "") -> dict[str, Any]:
    manifest: dict[str, Any] = builtins(platform.namespace)["Deployment"]
    if image:
        manifest["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return manifest


def live(platform: CommandPlatform, name: str = "configmap/plain") -> dict[str, Any]:
    read: dict[str, Any] = json.loads(
        platform.kubectl("get", name, "-n", platform.namespace, "-o", "json", "--show-managed-fields")
    )
    return read


def data(platform: CommandPlatform) -> dict[str, str]:
    return dict(live(platform)["data"])


def updated(
    platform: CommandPlatform, *, manager: str = "script", name: str = "configmap/plain", **values: str | None
) -> None:
    """Some manager changes data by an update."""
    patch = json.dumps({"data": values})
    platform.kubectl("patch", name, "-n", platform.namespace, "--type=merge", "-p", patch, f"--field-manager={manager}")


def applied(platform: CommandPlatform, manager: str = "other", **values: str) -> None:
    """Some manager applies data, by force."""
    text = config_map(platform.namespace, "plain", **values)
    platform.kubectl("apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "-f", "-", stdin=text)


def applies(platform: CommandPlatform, since: int, name: str = "plain") -> tuple[int, int]:
    """How often an object was applied, and how often that was refused."""
    codes = [event.code for event in platform.writes(since) if (event.verb, event.name) == ("patch", name)]
    return sum(code // 100 == 2 for code in codes), sum(code == 409 for code in codes)


def owners(platform: CommandPlatform, *path: str, name: str = "configmap/plain") -> set[str]:
    """The managers that have a field, as managed fields name it."""
    entries = live(platform, name)["metadata"]["managedFields"]
    return {entry["manager"] for entry in entries if _has(entry["fieldsV1"], path)}


def _has(fields: dict[str, Any], path: tuple[str, ...]) -> bool:
    for element in path:
        if element not in fields:
            return False
        fields = fields[element]
    return True


def told(platform: CommandPlatform, text: str) -> str:
    """What the status tells, once it tells this."""

    def ask() -> str:
        said = platform.levelgate("status", "-o", "json").stdout
        assert text in said
        return said

    return eventually(ask, within=20)


def test_an_update_by_any_manager_is_healed_and_its_manager_is_named(platform: CommandPlatform) -> None:
    """Conflicts: a script is a hand like kubectl; the plan names it, and a second run writes nothing."""
    platform.repository.commit({"plain.json": plain(platform)})
    platform.run_once()
    updated(platform, a="theirs")
    planned = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name)
    assert f"~ ConfigMap/plain  in {platform.namespace}   .data.a is changed by script" in planned.stdout
    since = platform.audit.mark()
    platform.run_once()
    assert applies(platform, since) == (1, 0)
    assert (data(platform), owners(platform, "f:data", "f:a")) == ({"a": "ours", "b": "ours"}, {"levelgate"})
    quiet = platform.audit.mark()
    platform.run_once()
    assert platform.writes(quiet) == []


def test_a_manager_that_insists_is_slowed_down_and_named(platform: CommandPlatform) -> None:
    """I11: a controller that changes a field back after each repair meets three repairs, and then the rule for fights."""
    platform.repository.commit({"plain.json": plain(platform)})
    with platform.start("--interval", "1h"):
        eventually(partial(holds, platform, "plain", "ours"))
        since = platform.audit.mark()
        for _ in range(3):
            updated(platform, manager="controller", a="theirs")
            eventually(lambda: data(platform)["a"] == "ours")
        updated(platform, manager="controller", a="theirs")
        assert ".data.a is changed by controller, repeatedly: healed 3 times" in told(platform, "Conflict")
        assert (data(platform)["a"], applies(platform, since)[0]) == ("theirs", 3)


def test_what_another_manager_applies_is_a_conflict_that_is_tried_once(platform: CommandPlatform) -> None:
    """Conflicts: one request for each change of the object or of Git, and none with each pass."""
    platform.repository.commit({"plain.json": plain(platform)})
    with platform.start("--interval", "1s"):
        eventually(partial(holds, platform, "plain", "ours"))
        since = platform.audit.mark()
        applied(platform, a="theirs")
        said = told(platform, ".data.a; remove")
        assert 'conflict with \\"other\\": .data.a' in said
        assert f"take it over with the annotation {CONFLICTS}: force" in said
        for text in ("1", "2", "3"):  # commits that concern another object: each is a pass
            platform.repository.commit({"beside.json": config_map(platform.namespace, "beside", a=text)})
            eventually(partial(holds, platform, "beside", text))
        assert applies(platform, since) == (0, 1)
        assert data(platform)["a"] == "theirs"
        updated(platform, b="theirs")  # the object changes: what is drift of it is healed, the rest is told once more
        eventually(lambda: data(platform)["b"] == "ours")
        told(platform, ".data.a; remove")
        assert (data(platform)["a"], owners(platform, "f:data", "f:a")) == ("theirs", {"other"})
        platform.repository.commit({"plain.json": plain(platform, b="ours")})  # a way out: Git says it no more
        eventually(lambda: "Conflict" not in platform.levelgate("status", "-o", "json").stdout)
        assert data(platform) == {"a": "theirs", "b": "ours"}


def holds(platform: CommandPlatform, name: str, text: str) -> bool:
    jsonpath = ("-o", "jsonpath={.data.a}")
    return platform.kubectl("get", "configmap", name, "-n", platform.namespace, *jsonpath, check=False) == text


def put(platform: CommandPlatform, manifest: dict[str, Any], path: str, manager: str = "curl") -> None:
    """Replace a whole object, as `curl -X PUT` or `kubectl replace` does."""
    platform.kubectl("replace", "--raw", f"{path}?fieldManager={manager}", "-f", "-", stdin=json.dumps(manifest))


def replicas_and_image(platform: CommandPlatform) -> tuple[int, str]:
    spec = live(platform, "deployment/d")["spec"]
    return spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]


def test_a_scaled_workload_is_a_conflict_and_everything_else_of_it_is_healed(platform: CommandPlatform) -> None:
    """Conflicts: what an autoscaler or `kubectl scale` set stays, also while a script's image is taken back."""
    wanted = deployment(platform)
    image = wanted["spec"]["template"]["spec"]["containers"][0]["image"]
    platform.repository.commit({"d.json": json.dumps(wanted)})
    platform.run_once(check=None)
    platform.kubectl("scale", "deployment/d", "-n", platform.namespace, "--replicas=5")
    refused = platform.run_once(check=1)
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in refused.stdout
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "theirs"}]
    edit = ("--type=json", "-p", json.dumps(patch), SCRIPT)
    platform.kubectl("patch", "deployment/d", "-n", platform.namespace, *edit)
    planned = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name).stdout
    assert f"{IMAGE} is changed by script; Conflict: .spec.replicas is changed by kubectl (scale)" in planned
    snapshot = str(platform.cache.parent / "snapshot.json")
    platform.levelgate("snapshot", "-o", snapshot, check=0)
    against = ("--source", platform.name, "--against", snapshot)
    assert (
        planned.splitlines()[3:]
        == platform.levelgate("plan", str(platform.repository.path), *against).stdout.splitlines()[3:]
    )
    since = platform.audit.mark()
    refused = platform.run_once(check=1)
    assert "healed" in refused.stdout
    assert ".spec.replicas; remove the field from Git" in refused.stdout
    assert replicas_and_image(platform) == (5, image)
    assert applies(platform, since, "d")[0] == 1
    wanted["metadata"].setdefault("annotations", {})[CONFLICTS] = "Force"
    platform.repository.commit({"d.json": json.dumps(wanted)})
    platform.run_once(check=None)
    assert replicas_and_image(platform) == (wanted["spec"]["replicas"], image)


IMAGE = '.spec.template.spec.containers[name="app"].image'


def test_whatever_an_update_removes_or_replaces_comes_back(platform: CommandPlatform) -> None:
    """Conflicts: a field without an owner, an item of a list by its key, an object replaced whole, without our marks too."""
    wanted = deployment(platform)
    platform.repository.commit({"d.json": json.dumps(wanted), "plain.json": plain(platform)})
    platform.run_once(check=None)
    before = live(platform, "deployment/d")["spec"]
    updated(platform, a=None)
    changed = live(platform, "deployment/d")
    del changed["metadata"]["managedFields"], changed["spec"]["template"]["spec"]["containers"][1]
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "theirs"
    put(platform, changed, f"/apis/apps/v1/namespaces/{platform.namespace}/deployments/d")
    platform.run_once(check=None)
    assert (data(platform), live(platform, "deployment/d")["spec"]) == ({"a": "ours", "b": "ours"}, before)
    bare = json.loads(config_map(platform.namespace, "plain", a="theirs", b="ours"))
    put(platform, bare, f"/api/v1/namespaces/{platform.namespace}/configmaps/plain")
    platform.run_once(check=None)
    assert data(platform) == {"a": "ours", "b": "ours"}
    quiet = platform.audit.mark()
    platform.run_once(check=None)
    assert platform.writes(quiet) == []


def test_client_side_apply_is_an_update_and_so_is_what_shares_a_field_with_us(platform: CommandPlatform) -> None:
    """Conflicts: the operation decides, and not the name; a field that somebody else has as well may be changed in Git."""
    platform.repository.commit({"plain.json": plain(platform)})
    platform.run_once()
    theirs = config_map(platform.namespace, "plain", a="theirs", b="ours")
    platform.kubectl("apply", "-f", "-", stdin=theirs)
    platform.run_once()
    assert data(platform) == {"a": "ours", "b": "ours"}
    updated(platform, manager="controller", b="theirs")
    updated(platform, manager="controller", b="ours")  # the value of Git, and the field is theirs
    platform.run_once()
    assert owners(platform, "f:data", "f:b") >= {"controller", "levelgate"}
    platform.repository.commit({"plain.json": plain(platform, a="ours", b="new")})
    platform.run_once()
    assert (data(platform), owners(platform, "f:data", "f:b")) == ({"a": "ours", "b": "new"}, {"levelgate"})


def test_a_source_and_an_object_say_whose_word_counts(platform: CommandPlatform) -> None:
    """`conflicts` of a source, and the annotation on an object, which comes first; both in any case where people type them."""
    platform.repository.commit({"plain.json": plain(platform)})
    platform.run_once()
    updated(platform, a="theirs")
    refused = platform.run_once("--conflicts", "Report", check=1)
    assert 'conflict with "script" using v1: .data.a' in refused.stdout
    assert data(platform)["a"] == "theirs"
    platform.repository.commit({"plain.json": plain(platform, "HEAL")})
    platform.run_once("--conflicts", "report")
    assert data(platform)["a"] == "ours"
    applied(platform, a="theirs")
    file = platform.cache.parent / "levelgate.yaml"
    source = {"name": platform.name, "url": str(platform.repository.path), "conflicts": "Force"}
    config = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "Config", "sources": [source]}
    file.write_text(json.dumps(config))
    platform.levelgate("run", "--config", str(file), "--once", "--wait", "0s", check=1)  # the object's word comes first
    assert data(platform)["a"] == "theirs"
    platform.repository.commit({"plain.json": plain(platform)})
    planned = platform.levelgate(
        "plan", str(platform.repository.path), "--config", str(file), "--source", platform.name
    )
    assert "1 that cannot be done" not in planned.stdout
    platform.levelgate("run", "--config", str(file), "--once", "--wait", "0s", check=0)
    assert (data(platform)["a"], owners(platform, "f:data", "f:a")) == ("ours", {"levelgate"})


def test_a_word_that_the_annotation_does_not_know_is_a_mistake_with_its_line(platform: CommandPlatform) -> None:
    path = platform.repository.path / "plain.yaml"
    path.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: plain\n  annotations:\n    levelgate.dev/conflicts: always\n"
    )
    linted = platform.levelgate("lint", str(platform.repository.path), check=1)
    assert "plain.yaml:6:" in linted.stdout + linted.stderr
    assert "must be heal or report or force" in linted.stdout + linted.stderr


def test_instances_their_children_and_their_kind_are_healed_alike(platform: CommandPlatform) -> None:
    """Conflicts: an instance whose spec a script changes moves nothing, and its kind gets its schema back."""
    kind = f"chains.{platform.group}"
    platform.repository.commit(
        {"kind.yaml": chain(platform.group, "ab"), "one.yaml": link(platform.group, platform.namespace)}
    )
    platform.run_once(wait="60s")
    patch = ("--type=merge", SCRIPT, "-p")
    platform.kubectl("patch", kind, "one", "-n", platform.namespace, *patch, '{"spec":{"text":"theirs"}}')
    updated(platform, name="configmap/one-a", text="theirs")
    crd = json.loads(platform.kubectl("get", "crd", kind, "-o", "json"))
    default = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/text/default"
    edit = json.dumps([{"op": "replace", "path": default, "value": "theirs"}])
    platform.kubectl("patch", "crd", kind, "--type=json", SCRIPT, "-p", edit)
    platform.run_once(wait="60s")
    assert json.loads(platform.kubectl("get", "crd", kind, "-o", "json"))["spec"] == crd["spec"]
    assert live(platform, f"{kind}/one")["spec"]["text"] == "one"
    assert live(platform, "configmap/one-a")["data"]["text"] == "one"


def test_healing_passes_closed_windows_and_stops_where_a_person_says_so(platform: CommandPlatform) -> None:
    """Rule 6: drift by a script is healed in a closed window and on a held instance; nothing is written where it is suspended."""
    times = [{"start": "2020-01-01T00:00", "end": "2090-01-01T00:00"}]
    freeze = {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "PropagationWindow",
        "metadata": {"name": "freeze"},
        "spec": {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": times}},
    }
    files = {"kind.yaml": chain(platform.group, "a"), "one.yaml": link(platform.group, platform.namespace)}
    platform.repository.commit(files)
    platform.run_once(wait="60s")
    kind = f"chains.{platform.group}"
    platform.repository.commit({"freeze.json": json.dumps(freeze)})
    for annotation, text in (("x", "one"), ("levelgate.dev/hold", "one"), ("levelgate.dev/suspend", "theirs")):
        platform.kubectl("annotate", kind, "one", "-n", platform.namespace, f"{annotation}=because")
        updated(platform, name="configmap/one-a", text="theirs")
        platform.run_once(check=None)
        assert live(platform, "configmap/one-a")["data"]["text"] == text


def test_a_secret_is_healed_and_its_value_is_told_to_nobody(platform: CommandPlatform) -> None:
    """I10, I11: a Secret that a script changes back again and again is slowed down like others."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": platform.namespace}}
    platform.repository.commit({"s.json": json.dumps({**secret, "stringData": {"a": "ours-value"}})})
    platform.run_once()
    theirs = base64.b64encode(b"their-value").decode()
    with platform.start("--interval", "1h"):
        for _ in range(3):
            updated(platform, name="secret/s", a=theirs)
            eventually(lambda: live(platform, "secret/s")["data"]["a"] != theirs)
        updated(platform, name="secret/s", a=theirs)
        said = told(platform, "repeatedly: healed 3 times")
        assert ".data.a is changed by script" in said
        assert "their-value" not in said
        assert theirs not in said


def test_what_another_manager_applies_just_before_the_repair_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan has seen a script's update; meanwhile an operator applies the field: that is a conflict, and no drift."""
    path = "/api/v1/namespaces/default/configmaps/plain"
    with LinkPlatform(names=(), plain={"plain": json.loads(config_map("default", "plain", a="ours"))}) as fleet:
        fleet.push()
        fleet.settle()
        fleet.request("PATCH", f"{path}?fieldManager=script", {"data": {"a": "script"}}, MERGE)
        answer = Sandbox.answer
        operators = [json.loads(config_map("default", "plain", a="operator"))]

        async def answered(sandbox: Sandbox, request: Request) -> Response:
            if operators and request.method == "PATCH" and request.target.startswith(path):
                apply_path = f"{path}?fieldManager=operator&force=true"
                fleet.request("PATCH", apply_path, operators.pop(), "application/apply-patch+yaml")
            return await answer(sandbox, request)

        monkeypatch.setattr(Sandbox, "answer", answered)
        fleet.step()
        assert operators == []
        assert fleet.request("GET", path)["data"] == {"a": "operator"}
