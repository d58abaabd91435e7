"""What `simulate` says of a commit is how the run ends: closing windows, deletions of what is read, objects declared twice, holds in Git."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitops.cli import invoke
from tests.support.definitions import config_map
from tests.support.git.repository import Repository
from tests.support.readers import base, instance, reader
from tests.support.scenarios.gates import window

GROUP, NAMESPACE = "g.test", "default"
FREEZE: dict[str, Any] = {
    "kind": "Deny",
    "timeZone": "UTC",
    "schedule": {"cron": "0 11 * * 5"},
    "duration": "61h",
}


def simulated(repository: Repository, capsys: pytest.CaptureFixture[str], code: int = 0) -> list[str]:
    """Simulate the last commit, which arrives ten minutes before the freeze; a workload is ready after four minutes."""
    start = ("--start", "2026-11-20T10:50", "--utc", "--assume", "ready=4m")
    assert invoke(["simulate", str(repository.path), "--base", "HEAD~1", "--head", "HEAD", *start]) == code
    captured = capsys.readouterr()
    return (captured.out + captured.err).splitlines()


def steps(repository: Repository, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return time and text of the lines that have one of these words, without columns."""
    return [
        " ".join(line.split())
        for line in simulated(repository, capsys)
        if any(word in line for word in words) and line[:1].isdigit()
    ]


def definition(image: str) -> str:
    """Return a Deployment, and a ConfigMap that is written after it is available."""
    labels = {"app": "${schema.metadata.name}"}
    container = {"name": "app", "image": image}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "${schema.metadata.name}-app"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    note = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-note"},
        "data": {"image": image, "available": "${string(app.status.availableReplicas)}"},
    }
    ready = "${app.status.updatedReplicas == app.spec.replicas}"
    return json.dumps(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": f"sites.{GROUP}"},
            "spec": {
                "schema": {"group": GROUP, "apiVersion": "v1", "kind": "Site", "spec": {}},
                "resources": [
                    {"id": "app", "readyWhen": [ready], "template": deployment},
                    {"id": "note", "template": note},
                ],
            },
        }
    )


@pytest.mark.parametrize(
    ("drain", "finished"), [({}, True), ({"drain": "Unit"}, False)], ids=["by default", "drain Unit"]
)
def test_an_instance_that_has_begun_is_finished_when_a_window_closes(
    repository: Repository, capsys: pytest.CaptureFixture[str], drain: dict[str, str], *, finished: bool
) -> None:
    """The third instance begins at 10:58, two minutes before the freeze; its second level follows at 11:02. The fourth begins on Monday."""
    sites = {f"{name}.json": instance(GROUP, "Site", NAMESPACE, name) for name in ("a", "b", "c", "d")}
    pace = {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "one-by-one"},
        "spec": {"shape": {"linear": {"n": 1}}, "barrier": "Level"},
    }
    rules = {"freeze.json": window("freeze", {**FREEZE, **drain}), "pace.json": json.dumps(pace)}
    repository.commit({**sites, **rules, "site.json": definition("one")})
    repository.commit({"site.json": definition("two")})
    found = steps(repository, capsys, "app updated", "note updated")
    told = [line for line in found if "Site default/c" in line]
    assert told[0].startswith("10:58:00")
    assert told[-1].startswith("11:02:00" if finished else "00:00:00"), found
    (next_app, *_) = [line for line in found if "Site default/d" in line]
    assert next_app.startswith("00:00:00"), found


def test_what_is_read_is_deleted_after_its_reader(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    """Both instances leave Git in one commit."""
    definitions = {"base.json": base(GROUP), "reader.json": reader(GROUP)}
    repository.commit(
        {
            **definitions,
            "one.json": instance(GROUP, "Base", NAMESPACE, "base"),
            "two.json": instance(GROUP, "Reader", NAMESPACE, "a"),
        }
    )
    repository.commit({"one.json": None, "two.json": None})
    found = steps(repository, capsys, "deleted")
    text = "\n".join(found)
    assert text.index("Reader default/a level 1 child deleted") < text.index("Base default/base level 0"), text


def test_an_object_that_is_declared_twice_stays_as_it_is(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stray file is named with the first one, and neither is written."""
    repository.commit({"z.json": config_map(NAMESPACE, "one", text="good")})
    repository.commit({"a.json": config_map(NAMESPACE, "one", text="stray")})
    lines = simulated(repository, capsys, code=1)
    text = "\n".join(lines)
    assert "a.json:1 and z.json:1; it stays as it is until only one of them is left" in text
    assert "one updated" not in text


def test_a_plain_object_that_is_held_in_git_stays(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    """The commit changes two objects, and holds one of them."""

    def written(text: str, **annotations: str) -> str:
        obj = json.loads(config_map(NAMESPACE, "one", text=text))
        obj["metadata"]["annotations"] = annotations
        return json.dumps(obj)

    repository.commit({"one.json": written("old"), "two.json": config_map(NAMESPACE, "two", text="old")})
    held = written("new", **{"levelgate.dev/hold": "swap", "levelgate.dev/hold-until": "2026-11-20T12:00:00Z"})
    repository.commit({"one.json": held, "two.json": config_map(NAMESPACE, "two", text="new")})
    found = steps(repository, capsys, "updated")
    assert [line.split()[0] for line in found if "ConfigMap/two" in line] == ["10:50:00"], found
    assert [line.split()[0] for line in found if "ConfigMap/one" in line] == ["12:00:00"], found
