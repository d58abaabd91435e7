"""A snapshot stands for its cluster: the same plan without credentials, and no value of a Secret in it (I10)."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from applier.errors import Denied
from applier.state.observed import annotation
from applier.state.structural_diff import FieldDiff
from gitops.plan import planner
from gitops.plan.masking import SNAPSHOT_LABEL
from gitops.plan.report import PlannedAction, Report, WarningKind
from gitops.plan.snapshot import ClusterSnapshot, SnapshotError, read_snapshot, serialize, take_snapshot
from gitops.windows.window import LOCAL
from renderer import well_known
from renderer.builtin_kinds import load_builtin_schemas
from renderer.identity import ObjectKey
from tests.support.clock import StillClock
from tests.support.git.commits import told
from tests.support.link_platform import GROUP, LinkPlatform

CANARY = "canary-4711-of-the-snapshot"
LINKS = f"/apis/{GROUP}/v1/namespaces/default/links"
SECRET: dict[str, Any] = {
    "id": "secret",
    "template": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}"},
        "stringData": {"password": CANARY},
    },
}
COPY: dict[str, Any] = {
    "id": "copy",
    "template": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-copy"},
        "data": {"url": f"postgres://app:{CANARY}@db", "image": "IMAGE"},
    },
}


def fleet() -> LinkPlatform:
    return LinkPlatform(names=("i0", "i1"), more=[SECRET, COPY])


def against_cluster(of: LinkPlatform) -> Report:
    return of.call(planner.plan_against_cluster(of.cluster, of.state, clock=of.clock, cluster_name=LOCAL))


def taken(of: LinkPlatform) -> ClusterSnapshot:
    return of.call(take_snapshot(of.cluster, of.clock.now(), load_builtin_schemas().version))


def against(of: LinkPlatform, snapshot: ClusterSnapshot) -> Report:
    return of.call(planner.plan_against_snapshot(snapshot, of.state, clock=of.clock, cluster_name=LOCAL))


def against_file(of: LinkPlatform, file: Path) -> Report:
    file.write_bytes(serialize(taken(of)))
    return against(of, read_snapshot(file))


def test_the_plan_is_the_same_as_against_the_cluster(tmp_path: Path) -> None:
    with fleet() as one:
        one.start()
        one.push("two")
        real, recorded = against_cluster(one), against_file(one, tmp_path / "cluster.json")
        assert told(real) == told(recorded)
        assert len(told(real)) == 6
        assert (real.summary, real.hash) == (recorded.summary, recorded.hash)


def test_no_value_of_a_secret_is_in_it(tmp_path: Path) -> None:
    with fleet() as one:
        one.start()
        against_file(one, tmp_path / "cluster.json")
        said = (tmp_path / "cluster.json").read_text()
    encoded = base64.b64encode(CANARY.encode()).decode()
    assert CANARY not in said
    assert encoded not in said
    assert "(secret of the cluster #1)" in said


def test_no_hash_of_what_copies_a_value_is_in_it(tmp_path: Path) -> None:
    """Whoever has all the rest of the object could try values until the hash fits."""
    with fleet() as one:
        one.start()
        against_file(one, tmp_path / "cluster.json")
        live = one.request("GET", "/api/v1/namespaces/default/configmaps/i0-copy")
    found = {
        f"{obj['kind']}/{obj['metadata']['name']}": obj for obj in read_snapshot(tmp_path / "cluster.json").objects
    }
    assert annotation(live, well_known.HASH)
    assert annotation(found["ConfigMap/i0-copy"], well_known.HASH) == ""
    assert annotation(found["Deployment/i0-app"], well_known.HASH)


def test_that_values_are_not_compared_is_said(tmp_path: Path) -> None:
    new = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}, "stringData": {"a": "b"}}
    with fleet() as one:
        one.start()
        one.plain = {"new.json": new}
        one.push("one")
        report = against_file(one, tmp_path / "cluster.json")
    assert (told(report), report.moves) == (["create 0 Secret/default/new"], ())
    assert [str(warning.message) for warning in report.warnings] == [
        "the plan does not compare the values of 2 Secrets, because a snapshot does not hold them; to compare them, "
        "plan against the cluster"
    ]


@pytest.mark.parametrize(
    "said", [{"password": CANARY, "more": "another value"}, {"more": "another value"}, {}], ids=sorted
)
def test_which_values_there_are_is_compared(tmp_path: Path, said: dict[str, str]) -> None:
    """Their names are in the file. What is not said any more keeps its number where it was copied to."""
    with fleet() as one:
        one.start()
        one.more = [{**SECRET, "template": {**SECRET["template"], "stringData": said}}, COPY]
        one.push("one")
        real, recorded = against_cluster(one), against_file(one, tmp_path / "cluster.json")
    names = [
        {
            change.ref: [(it.path, it.old is None) for it in change.diff]
            for change in found.changes
            if "Secret" in change.ref
        }
        for found in (real, recorded)
    ]
    assert names[0] == names[1] != {}
    if "password" in said:
        assert told(real) == told(recorded)


def test_what_would_be_refused_with_a_mask_in_it_is_no_change(tmp_path: Path) -> None:
    """No server takes the number of a value for that of a label."""
    template = COPY["template"]
    labelled = {**template, "metadata": {**template["metadata"], "labels": {"of": CANARY}}}
    with LinkPlatform(names=("i0",), more=[SECRET, {"id": "copy", "template": labelled}]) as one:
        one.start()
        assert told(against_file(one, tmp_path / "cluster.json")) == []


def test_what_is_handed_over_is_told_where_it_holds_a_value(tmp_path: Path) -> None:
    """Though nothing else of it is known to change: an instance gives it up, and the source has it."""
    with fleet() as one:
        one.start()
        one.more, metadata = [SECRET], {"name": "i0-copy", "namespace": "default"}
        data = {name: text.replace("IMAGE", "one") for name, text in COPY["template"]["data"].items()}
        one.plain = {"copy.json": {**COPY["template"], "metadata": metadata, "data": data}}
        one.push("one")
        reports = against_cluster(one), against_file(one, tmp_path / "cluster.json")
    for report in reports:
        (change,) = (change for change in report.changes if change.ref == "ConfigMap/default/i0-copy")
        assert (change.action, change.message) == (PlannedAction.UPDATE, "handed over by Link/default/i0")


def test_of_a_value_that_git_says_twice_the_text_counts() -> None:
    """As the server has it: `stringData` is written over `data`. What Git does not say stays a number."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "default"}}
    live = {**secret, "data": {name: f"({SNAPSHOT_LABEL} #{name})" for name in "123"}}
    wanted = {**secret, "data": {"1": "b25l", "2": "b25l"}, "stringData": {"2": "two"}}
    record = ClusterSnapshot("prod", StillClock().now(), "", (live,), ()).as_cluster([wanted])
    assert record.objects[ObjectKey.from_manifest(live)]["data"] == {
        "1": "b25l",
        "2": "dHdv",
        "3": f"({SNAPSHOT_LABEL} #3)",
    }


def test_a_file_that_was_changed_is_told(tmp_path: Path) -> None:
    """Whether a value, a whole object or only its form is another: a plan reads it as if a server had said it."""
    with fleet() as one:
        one.start()
        against_file(one, tmp_path / "cluster.json")
    whole = json.loads((tmp_path / "cluster.json").read_text())
    first, *others = whole["objects"]
    for changed in ({"objects": others}, {"objects": [{**first, "metadata": []}, *others]}, {"cluster": "another"}):
        (tmp_path / "x.json").write_text(json.dumps({**whole, **changed}))
        with pytest.raises(SnapshotError, match="was changed after"):
            read_snapshot(tmp_path / "x.json")
    (tmp_path / "x.json").write_text(json.dumps({name: it for name, it in whole.items() if name != "digest"}))
    with pytest.raises(SnapshotError, match="was changed after"):
        read_snapshot(tmp_path / "x.json")
    (tmp_path / "x.json").write_text(json.dumps(whole, indent=1))
    assert read_snapshot(tmp_path / "x.json") == read_snapshot(tmp_path / "cluster.json")


def test_a_file_that_was_cut_is_told(tmp_path: Path) -> None:
    with fleet() as one:
        one.start()
        against_file(one, tmp_path / "cluster.json")
    data = (tmp_path / "cluster.json").read_bytes()
    for size in (1, len(data) // 2, len(data) - 3):
        (tmp_path / "x.json").write_bytes(data[:size])
        with pytest.raises(SnapshotError, match="not a snapshot that this version of Levelgate can read"):
            read_snapshot(tmp_path / "x.json")


@pytest.mark.parametrize("content", ["", "{}", "[1]", json.dumps({"format": 2}), "[" * 100_000])
def test_a_file_that_is_none_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(SnapshotError, match="not a snapshot that this version of Levelgate can read"):
        read_snapshot(tmp_path / "x.json")
    with pytest.raises(SnapshotError, match="No such file"):
        read_snapshot(tmp_path / "nothing.json")


def test_it_knows_what_others_have_made_of_kinds_and_what_was_recorded(tmp_path: Path) -> None:
    """Kinds of others judge new objects; revisions, their numbers and how far a rollout is are those of the cluster."""
    names = {"plural": "queues", "singular": "queue", "kind": "Queue", "listKind": "QueueList"}
    size = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 10}}}
    described = {"type": "object", "properties": {"spec": size}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": described}}
    spec = {"group": "q.test", "scope": "Namespaced", "names": names, "versions": [version]}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "queues.q.test"},
    }
    with fleet() as one:
        one.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {**crd, "spec": spec})
        one.push("one", pace={"shape": {"linear": {"n": 5}}})
        one.start()
        one.plain = {
            f"{kind}.json": {"apiVersion": "q.test/v1", "kind": kind, "metadata": {"name": "q"}, "spec": {"size": 11}}
            for kind in ("Queue", "Stack")
        }
        one.push("two", pace={"shape": {"linear": {"n": 7}}})
        real, recorded = against_cluster(one), against_file(one, tmp_path / "cluster.json")
        told = {change.kind: change.message for change in recorded.changes if change.action is PlannedAction.FAILED}
        assert "spec.size: 11 is above the maximum 10" in told["Queue.q.test"]
        assert "the cluster does not serve this kind" in told["Stack.q.test"]
        assert (recorded.moves, recorded.steps) == (real.moves, real.steps)
        assert [(move.old, move.new) for move in recorded.moves] == [(1, 2)]
        said = [one.message for one in recorded.warnings if one.hazard is WarningKind.RULES]
        assert said == ["PropagationPolicy pace changes: spec.shape.linear.n 5 -> 7"]


def test_a_record_takes_no_write_and_knows_an_instance_that_somebody_made(tmp_path: Path) -> None:
    """Of a kind that is defined by what Levelgate manages all that is live is in the file."""
    with fleet() as one:
        one.start()
        made = json.loads(json.dumps(one.request("GET", f"{LINKS}/i0")))
        metadata = {"name": "theirs", "namespace": "default"}
        one.request(
            "POST", LINKS, {**{name: made[name] for name in ("apiVersion", "kind", "spec")}, "metadata": metadata}
        )
        one.names = (*one.names, "theirs")
        one.push("one")
        real, recorded = against_cluster(one), against_file(one, tmp_path / "cluster.json")
        assert "failed 1 Link.g.test/default/theirs" in told(real)
        assert told(real) == told(recorded)
        record = taken(one).as_cluster()
        with pytest.raises(Denied, match="is a snapshot"):
            one.call(record.apply(made, manager="somebody"))


def test_a_file_that_is_too_large_is_neither_written_nor_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fleet() as one:
        one.start()
        against_file(one, tmp_path / "cluster.json")
        found = taken(one)
    monkeypatch.setattr("gitops.plan.snapshot.MAX_SNAPSHOT_BYTES", 1_000)
    with pytest.raises(SnapshotError, match="more than 1000; plan against the cluster itself"):
        serialize(found)
    with pytest.raises(SnapshotError, match="not a snapshot that this version of Levelgate can read"):
        read_snapshot(tmp_path / "cluster.json")


def test_of_another_kubernetes_it_says_so_and_makes_up_nothing() -> None:
    """What the cluster fills in and this program does not know stays; what it does not serve cannot be created, whatever is served elsewhere."""
    with LinkPlatform(names=("i0",)) as one:
        one.start()
        one.plain = {"job.json": {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}}
        one.push("two")
        found = taken(one)
        patched = f"{load_builtin_schemas().version.rpartition('.')[0]}.99-gke.7"
        same = against(one, replace(found, kubernetes=patched))
        newer = tuple(
            {**obj, "spec": {**obj["spec"], "newer": {"by": "default"}}} if obj["kind"] == "Deployment" else obj
            for obj in found.objects
        )
        served = tuple(kind for kind in found.resources if kind.kind != "CronJob")
        other = against(one, replace(found, objects=newer, resources=served, kubernetes="v1.99.1-gke.7"))
    changes = {change.kind: change for change in other.changes}
    image = FieldDiff("spec.template.spec.containers[app].image", "one", "two")
    assert changes["Deployment.apps"].diff == (image,)
    assert changes["CronJob.batch"].action is PlannedAction.FAILED
    assert "the cluster does not serve this kind" in changes["CronJob.batch"].message
    (said,) = other.warnings
    assert said.message.startswith(
        "cluster sandbox runs Kubernetes v1.99.1-gke.7, but the plan validates built-in kinds against the schemas of"
    )
    assert (same.warnings, same.summary["update"]) == ((), other.summary["update"])
