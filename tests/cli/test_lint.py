"""`levelgate lint`: everything that is wrong, by file and line, and what is probably not meant."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gitops.cli import invoke
from gitops.clock import SystemClock
from tests.support.properties.repositories import (
    GROUP,
    UNREADABLE,
    config_map,
    definition,
    deployment,
    instance,
    plain,
    widget,
)
from tests.support.windows.documents import manifest


def written(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return str(folder)


def linted(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> str:
    assert invoke(["lint", *arguments]) == code
    return capsys.readouterr().out


def findings(capsys: pytest.CaptureFixture[str], folder: str, code: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(linted(capsys, folder, "-o", "json", code=code))["findings"]
    return found


def warnings(capsys: pytest.CaptureFixture[str], folder: Path, resources: list[dict[str, Any]], **schema: Any) -> Any:
    schema = {"spec": {"text": "string | default=a"}, **schema}
    place = written(folder, d=definition("Link", resources, **schema))
    return {(one["path"], one["message"]) for one in findings(capsys, place, code=0) if one["severity"] == "warning"}


def test_a_clean_repository_has_no_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert linted(capsys, "sample-repo", "--strict", code=0).endswith("0 errors, 0 warnings.\n")


def test_findings_come_by_file_and_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wrong = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: 1\n---\nkind: Pod\n"
    place = written(tmp_path, b=UNREADABLE, a=wrong, c=definition("Link", [config_map("A"), config_map("b", "nosuch")]))
    out = linted(capsys, place, code=1).splitlines()
    assert [line.partition(": ")[0] for line in out[:-1]] == [
        "a.yaml:4",
        "a.yaml:6",
        "b.yaml:4",
        "c.yaml:1",
        "c.yaml:1",
    ]
    assert out[-1] == "3 files: 5 errors, 0 warnings."


def test_json_has_its_stable_shape(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = json.loads(linted(capsys, written(tmp_path, a=UNREADABLE), "-o", "json", code=1))
    assert (found.keys(), found["errors"], found["warnings"]) == ({"errors", "warnings", "findings"}, 1, 0)
    assert found["findings"][0].keys() == {"severity", "file", "line", "path", "message"}


def test_what_only_instances_show_is_told_once_for_all_of_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    same = [config_map("a", name="same"), config_map("b", name="same")]
    place = written(
        tmp_path, d=definition("Link", same), x=instance("Link", "x"), y=instance("Link", "y"), z=instance("Link", "z")
    )
    errors = [one for one in findings(capsys, place) if one["severity"] == "error"]
    assert [(one["file"], one["path"]) for one in errors] == [("d.yaml", "a"), ("d.yaml", "b")]
    assert errors[0]["message"].startswith("identity collision")
    assert errors[0]["message"].endswith(f"(in Link.{GROUP}/default/x and 2 more)")


def test_endless_nesting_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    node = config_map("a")
    node["template"] |= {"apiVersion": f"{GROUP}/v1", "kind": "Link", "spec": {"text": "${schema.spec.text}"}}
    del node["template"]["data"]
    place = written(tmp_path, d=definition("Link", [node]), x=instance("Link", "x"))
    (error,) = (one for one in findings(capsys, place) if one["severity"] == "error")
    assert "does links.g.test create instances of itself?" in error["message"]


def test_warnings_fail_only_when_strict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = written(tmp_path, d=definition("Link", [deployment("web", readyWhen=[])]))
    assert "d.yaml:1: warning: spec" in linted(capsys, place, code=0)
    linted(capsys, place, "--strict", code=1)


@pytest.mark.parametrize("ready", [[], ["${web.status.availableReplicas > 0}"]])
def test_a_workload_without_readywhen(capsys: pytest.CaptureFixture[str], tmp_path: Path, ready: list[str]) -> None:
    node = deployment("web")
    node["readyWhen"] = ready
    told = ("spec.resources[0]", "web: no readyWhen, so Ready means only that the object exists; add readyWhen")
    assert (told in warnings(capsys, tmp_path, [node])) is not bool(ready)


def test_text_that_looks_like_an_expression(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    node = config_map("a")
    node["template"]["data"] = {"open": "${schema.spec.text", "block": "${schema.spec.text}\n", "fine": "${'a'} b"}
    node["template"]["data"]["${schema.spec.text}"] = "key"
    found = dict(warnings(capsys, tmp_path, [node]))
    key = 'spec.resources[0].template.data["${schema.spec.text}"]'
    assert found.keys() == {"spec.resources[0].template.data.open", "spec.resources[0].template.data.block", key}
    assert "does not evaluate an expression in a key" in found[key]
    assert "is not closed" in found["spec.resources[0].template.data.open"]
    assert "the value is a text" in found["spec.resources[0].template.data.block"]


def test_what_nothing_uses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    spec = {"text": "string", "size": "integer | default=1", "port": "Port | default=1"}
    found = warnings(capsys, tmp_path, [config_map("a")], spec=spec, types={"Port": "integer", "Old": "string"})
    assert found == {
        ("spec.schema.spec.size", "no expression reads schema.spec.size; remove the field"),
        ("spec.schema.spec.port", "no expression reads schema.spec.port; remove the field"),
        ("spec.schema.types.Old", "no field has the type Old; remove the type"),
    }


def test_an_instance_of_a_kind_that_nothing_defines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = written(tmp_path, d=definition("Link", [config_map("a")]), x=instance("Lnik", "x"))
    told = [one["message"] for one in findings(capsys, place, code=0) if one["file"] == "x.yaml"]
    assert len(told) == 1
    assert told[0].startswith(
        f"Lnik.{GROUP} is not defined in this repository; if another repository defines the kind, name that repository with --schemas"
    )


CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.free.test}
spec:
  group: free.test
  names: {kind: Widget, plural: widgets}
  scope: Cluster
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties: {spec: {type: object, required: [size], properties: {size: {type: integer}, name: {type: string}}}}
        type: object
"""


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"siz": 1, "size": 1}, "spec.siz", "no field 'siz'; did you mean 'size'?"),
        ({"size": "${schema.spec.text}"}, "spec.size", "${schema.spec.text}: is a string, where an integer is needed; write int(schema.spec.text)"),
        ({"name": "a"}, "spec.size", "is required and not given"),
    ],
)  # fmt: skip
def test_crds_of_a_folder_take_part_in_the_check(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, spec: dict[str, Any], path: str, message: str
) -> None:
    """Rgd 1.11: offline, the folder stands for the cluster."""
    (tmp_path / "schemas").mkdir()
    schemas = written(tmp_path / "schemas", widgets=CRD)
    (tmp_path / "platform").mkdir()
    node = widget("free")
    del node["template"]["data"]
    node["template"]["spec"] = spec
    link = definition("Link", [node, config_map("a")], spec={"text": "string | default=a"})
    place = written(tmp_path / "platform", d=link, x=instance("Link", "x"))
    assert findings(capsys, place, code=0)[0]["severity"] == "warning"
    found = json.loads(linted(capsys, place, "--schemas", schemas, "-o", "json", code=1))["findings"]
    (error,) = (one for one in found if one["severity"] == "error")
    assert (error["path"], error["message"]) == (f"spec.resources[0].template.{path}", message)
    assert not [one for one in found if "no schema of" in one["message"]]
    invoke(["render", place, "--schemas", schemas])
    assert ("Widget/x-free" in capsys.readouterr().out) == (message == "is required and not given")


def test_what_stands_there_as_it_is_applied_is_held_against_its_kind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Kubernetes' own, and instances of definitions that another repository has. Text that looks like an expression is text."""
    (tmp_path / "platform").mkdir()
    link = definition("Link", [config_map("a")], spec={"size": "integer | required=true maximum=9"})
    platform = written(tmp_path / "platform", d=link)
    (tmp_path / "shop").mkdir()
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"prots": []}}
    script = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"run": "${A:-${B}}"}}
    large = instance("Link", "x", size=12)
    place = written(tmp_path / "shop", a=large, b=json.dumps(service), c=json.dumps(script))
    found = json.loads(linted(capsys, place, "--schemas", platform, "-o", "json", code=1))["findings"]
    assert [(one["file"], one["path"], one["message"]) for one in found] == [
        ("a.yaml", "spec.size", "12 is above the maximum 9"),
        ("b.yaml", "spec.prots", "no field 'prots'; did you mean 'ports'?"),
    ]


def test_a_folder_of_schemas_that_cannot_be_read_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert invoke(["lint", "sample-repo", "--schemas", str(tmp_path / "empty")]) == 1
    assert (
        "holds no CustomResourceDefinition; name the folder with the CustomResourceDefinitions"
        in capsys.readouterr().err
    )
    broken = written(tmp_path / "empty", broken=UNREADABLE)
    for command in ("lint", "render"):
        assert invoke([command, "sample-repo", "--schemas", broken]) == 1
        captured = capsys.readouterr()
        assert f"{broken}/broken.yaml:4: " in captured.out + captured.err


def test_scalars_that_kubernetes_reads_otherwise(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {a: 'b'}}\nimmutable: yes\n"
    assert "a.yaml:4: warning: yes is read as true" in linted(capsys, written(tmp_path, a=text), code=0)


def test_windows_and_policies_are_read_and_their_mistakes_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """W27, and a pace that is none; each with its file, line and place."""
    window = """apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {name: hours}
spec:
  kind: Allow
  timeZone: Europe/Berlin
  schedule: {cron: "0 9 1 * 1"}
  duration: 8h
"""
    policy = """apiVersion: levelgate.dev/v1alpha1
kind: PropagationPolicy
metadata: {name: pace}
spec:
  shape: {exponential: {factor: 1}}
"""
    found = findings(capsys, written(tmp_path, window=window, policy=policy))
    told = {(one["file"], one["line"], one["path"]) for one in found if "not supported yet" not in one["message"]}
    assert told == {
        ("window.yaml", 7, "spec.schedule.cron"),
        ("policy.yaml", 5, "spec.shape.exponential.factor"),
    }


def test_a_break_glass_that_passes_nothing_is_told_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.3, 14: no more than four hours ahead; one that is over does no harm, and is to be taken out."""
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime(2026, 11, 23, 8, tzinfo=UTC))
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n  annotations:\n    levelgate.dev/break-glass-reason: INC-7\n"
    files = {
        name: f"{text.replace('NAME', name)}    levelgate.dev/break-glass-until: {until}\n"
        for name, until in (
            ("far", "2026-11-23T12:00:01Z"),
            ("fine", "2026-11-23T12:00:00Z"),
            ("over", "2026-11-23T08:00:00Z"),
        )
    }
    files["half"] = text.replace("NAME", "half")
    told = {
        (one["file"], one["line"], one["severity"], one["message"])
        for one in findings(capsys, written(tmp_path, **files))
    }
    assert told == {
        (
            "far.yaml",
            7,
            "error",
            "is more than 4h ahead and bypasses no window; write at most 2026-11-23T12:00:00Z",
        ),
        (
            "half.yaml",
            6,
            "error",
            "has no effect without levelgate.dev/break-glass-until; add the missing annotation, or remove this annotation",
        ),
        ("over.yaml", 7, "warning", "is in the past; remove the annotation"),
    }


@pytest.mark.parametrize(("word", "severity"), [("Warn", "warning"), ("Reject", "error")])
def test_windows_that_leave_too_little_room_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, severity: str
) -> None:
    """3.2: `availability` of the default policy."""
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime(2026, 11, 23, 8, tzinfo=UTC))
    asked = f"{{atLeast: 48h, per: 32d, contiguous: 4h, onViolation: {word}}}"
    policy = f"""apiVersion: levelgate.dev/v1alpha1
kind: PropagationPolicy
metadata: {{name: all}}
spec: {{windows: {{availability: {asked}}}}}
"""
    short = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * *"}, "duration": "1h"}
    place = written(tmp_path, p=policy, m=plain("settings"), w=manifest("short", **short).decode())
    (found,) = findings(capsys, place, code=int(severity == "error"))
    assert (found["file"], found["path"], found["severity"]) == ("p.yaml", "spec.windows.availability", severity)
    assert found["message"] == (
        "objects under short may change for 0s in the 32d from 2026-11-23 08:00Z; "
        "the policy requires 2d, in pieces of 4h or more; open the windows longer"
    )


def test_gates_are_checked_against_the_windows_of_the_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1-37. That a gate is never open is a warning."""
    allow = {"kind": "Allow", "timeZone": "UTC", "duration": "1h"}
    morning = manifest("morning", **allow, schedule={"cron": "0 9 * * *"}).decode()
    night = manifest("night", **allow, schedule={"cron": "0 2 * * *"}, byName=True).decode()
    nodes = [
        config_map("a", propagateWhen=["${inWindow('nigth')}"]),
        config_map("b", propagateWhen=["${inWindow('night')}"]),
    ]
    place = written(tmp_path, d=definition("Link", nodes), i=instance("Link", "x"), m=morning, n=night)
    gates = [one for one in findings(capsys, place) if "propagateWhen" in one["path"]]
    found = {one["path"]: (one["severity"], one["message"]) for one in gates}
    assert found == {
        "spec.resources[0].propagateWhen[0]": (
            "error",
            "${inWindow('nigth')}: window 'nigth' does not exist; did you mean 'night'?",
        ),
        "spec.resources[1].propagateWhen[0]": (
            "warning",
            "${inWindow('night')}: requires night while morning is open, but these windows are never open together; change a window or the gate",
        ),
    }


def test_with_a_configuration_the_facts_that_gates_ask_for_are_known(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "platform").mkdir()
    nodes = [config_map("a", propagateWhen=["${external('budgt')}"])]
    place = written(tmp_path / "platform", d=definition("Link", nodes), i=instance("Link", "x"))
    asked = [one for one in findings(capsys, place, code=0) if "external" in one["message"]]
    assert asked == []
    file = tmp_path / "levelgate.yaml"
    file.write_text(
        "apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources: [{name: a, url: /a}]\nexternals:\n"
        '- {name: budget, maxAge: 1m, http: {url: "https://x/y", expect: "y"}}\n'
    )
    told = linted(capsys, place, "--config", str(file), code=1)
    assert "external fact 'budgt' is not declared; did you mean 'budget'?" in told
    file.write_text("apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources: [{name: a, url: /a, interval: 5}]\n")
    assert f"{file}:3: sources[0].interval: 5 is not text" in linted(capsys, place, "--config", str(file), code=1)


@pytest.mark.parametrize(("source", "told"), [("", True), ("forge: {kind: gitea, tokenFile: t}", False)])
def test_with_a_configuration_it_is_known_whether_reverts_can_be_proposed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, source: str, told: bool
) -> None:
    """S1-33: without a forge a halt that is to propose its revert only stops."""
    (tmp_path / "t").write_text("secret")
    (tmp_path / "platform").mkdir()
    policy = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "all"}}
    place = written(tmp_path / "platform", p=json.dumps({**policy, "spec": {"onHalt": "ProposeRevert"}}))
    file = tmp_path / "levelgate.yaml"
    config = "apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources: [{name: shop, url: 'https://git.example.com/a/b', %s}]\n"
    file.write_text(config % source)
    assert "ProposeRevert" not in linted(capsys, place, code=0)
    found = linted(capsys, place, "--config", str(file), code=0)
    assert (
        "p.yaml:1: warning: spec.onHalt: ProposeRevert only stops the rollout: source shop has no `forge`" in found
    ) is told


def test_instances_that_no_one_wave_fits_are_told_and_policies_that_nothing_tells_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """docs/rollouts.md: who fits no wave, or several, goes last and is named; between two policies as specific as each other nothing decides."""
    waves = [{"name": name, "selector": {"matchLabels": {"tier": name}}} for name in ("canary", "prod")]
    policy = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "pace"}}
    files = {
        "d": definition("Link", [config_map("app")]),
        "fits": instance("Link", "fits").replace('"name"', '"labels": {"tier": "canary"}, "name"'),
        "lost": instance("Link", "lost"),
        "p": json.dumps({**policy, "spec": {"waves": waves}}),
    }
    told = linted(capsys, written(tmp_path, **files), code=0)
    assert f"p.yaml:1: warning: spec.waves: Link.{GROUP}/default/lost fits no wave; it moves last, in wave rest" in told
    assert "fits fits" not in told
    written(tmp_path, q=json.dumps({**policy, "metadata": {"name": "other"}, "spec": {"bake": "5m"}}))
    told = linted(capsys, str(tmp_path), code=1)
    assert told.count("exactly as specifically as") == 1


def test_clusters_and_placements_are_checked_with_what_they_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = "apiVersion: levelgate.dev/v1alpha1\n"
    eu = f"{own}kind: Cluster\nmetadata:\n  name: eu\n  labels: {{region: eu}}\nspec:\n  access: {{file: eu}}\n"
    us = f"{own}kind: Cluster\nmetadata: {{name: us}}\nspec:\n  token: abc\n  access: {{file: us}}\n"
    place = f"{own}kind: Placement\nmetadata: {{name: p}}\nspec:\n  objects: {{rgds: [links.{GROUP}]}}\n  clusters: {{matchLabels: {{regoin: eu}}}}\n"
    folder = written(
        tmp_path, eu=eu, us=us, p=place, d=definition("Link", [config_map("a")]), x=instance("Link", "x"), q=plain("q")
    )
    out = linted(capsys, folder, code=1).splitlines()
    assert [line.partition("; ")[0] for line in out[:-1] if not line.startswith("d.yaml")] == [
        "p.yaml:6: warning: spec.clusters: placement p: no cluster has the label regoin=eu",
        "q.yaml:1: warning: no placement selects ConfigMap/default/q, so it goes to no cluster",
        "us.yaml:5: spec.token: credentials are rejected in Git, because many people can read the whole history",
    ]
    assert out[-1].startswith("6 files: 1 error, ")


def test_a_placement_without_a_fleet_has_no_effect(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And a placement whose clusters may be declared elsewhere fails no strict run."""
    place = (
        "apiVersion: levelgate.dev/v1alpha1\nkind: Placement\nmetadata: {name: p}\nspec: {objects: {}, clusters: {}}\n"
    )
    folder = written(tmp_path, p=place)
    out = linted(capsys, folder, "--strict", code=0)
    assert out.startswith(
        "p.yaml:4: warning: spec.clusters: placement p: no cluster is declared; no cluster gets the objects; correct the selector, or declare the cluster\n"
    )
    config = tmp_path.parent / f"{tmp_path.name}.yaml"
    source = f"{{name: platform, url: {folder}}}"
    config.write_text(f"apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources: [{source}]\n")
    out = linted(capsys, folder, "--strict", "--config", str(config), code=1)
    assert (
        "p.yaml:2: warning: kind: this Placement has no effect: levelgate.yaml has no `fleet`; "
        "set `fleet`, or remove the Placement from Git" in out
    )
