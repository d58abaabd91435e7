"""What a commit changes of another, each class of changes once, on the sample repository and on files made for it."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from pathlib import Path

import pytest

from applier.cluster import Object
from applier.errors import Denied, Invalid, Unavailable
from applier.state.structural_diff import FieldDiff
from gitops.plan.dry_run import DryRunCluster
from gitops.plan.field_diff import diff_objects, intended_diff
from gitops.plan.masking import SecretMasks
from gitops.plan.report import PlannedAction, PlannedChange, WarningKind
from gitops.plan.warnings import _foreign_objects
from renderer.identity import ObjectKey
from renderer.well_known import LAST_APPLIED
from tests.support.git.commits import changed, planned, planned_beside, sample, told
from tests.support.plan_cases import CASES, commits
from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.plans import done, run
from tests.support.properties.repositories import config_map, definition, instance, plain

DOCS = "apps/staging/docs.yaml"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {a: %s}\n"


def test_the_same_commit_changes_nothing() -> None:
    report = planned(sample(), sample())
    assert report.changes == ()
    assert not report.has_changes
    assert report.unchanged > 30


def test_a_changed_instance_shows_what_its_nodes_become() -> None:
    report = planned(sample(), changed(sample(), DOCS, "docs:", "docs-next:"))
    assert told(report) == [
        "update 1 WebApp.platform.example.com/staging/docs",
        "update 1 Deployment.apps/staging/docs",
    ]
    image = FieldDiff("spec.image", "registry.example.com/docs:1.5.0", "registry.example.com/docs-next:1.5.0")
    assert report.changes[0].diff == (image,)
    assert report.changes[1].diff[0].path == "spec.template.spec.containers[web].image"


def test_a_removed_instance_goes_in_reverse_order_its_own_object_last() -> None:
    """S0-11: what uses an object goes before it, and is named."""
    head = {file: text for file, text in sample().items() if file != DOCS}
    report = planned(sample(), head)
    assert [line.split("/", 1)[0] for line in told(report)] == [
        "delete 2 Service",
        "delete 1 Deployment.apps",
        "delete 0 ConfigMap",
        "delete 1 WebApp.platform.example.com",
    ]
    assert report.changes[1].users == ("Service/staging/docs",)


def test_what_waits_for_a_cluster_is_there_and_goes_with_its_instance() -> None:
    """The base is taken as brought about: what waited for a value has got it long ago. Of an instance of which not even its parts are known, they
    are named.
    """
    head = {
        file: text for file, text in sample().items() if file not in {"apps/prod/reports.yaml", "apps/prod/shop.yaml"}
    }
    report = planned(sample(), head)
    gone = {change.ref: change for change in report.changes if change.action is PlannedAction.DELETE}
    connection = gone["ConfigMap/prod/reports-connection"]
    assert connection.ref in gone["Service/prod/reports"].users
    web = gone["WebApp.platform.example.com/prod/shop"]
    assert web.message == "with its settings, deployment, service, budget, ingress, as far as they exist"
    assert len(gone) == len(report.changes) == 12


def test_what_an_instance_that_waits_wants_is_not_another_s_to_have() -> None:
    """`prod/shop` has a WebApp of its own name, which waits for its database."""
    own = sample()["apps/prod/docs.yaml"].replace("name: docs", "name: shop")
    failed = [
        one
        for one in planned(sample(), {**sample(), "apps/prod/own.yaml": own}).changes
        if one.action is PlannedAction.FAILED
    ]
    told = "WebApp.platform.example.com/prod/shop is declared at apps/prod/own.yaml:2, and Product.platform.example.com/prod/shop makes it"
    assert failed
    assert all(told in one.message for one in failed)


def test_what_has_a_definition_that_does_not_build_is_told_once() -> None:
    head = changed(sample(), "definitions/database.yaml", "${server.status.currentRevision}", "${nothing.status}")
    failed = [change.ref for change in planned({}, head).changes if change.action is PlannedAction.FAILED]
    assert "Database.platform.example.com/prod/reports" in failed
    assert len(failed) == len(set(failed))


def test_a_file_that_moves_changes_nothing() -> None:
    files = sample()
    head = {("moved/docs.yaml" if file == DOCS else file): text for file, text in files.items()}
    assert planned(files, head).changes == ()


def test_what_only_a_cluster_knows_is_said_to_be_unknown() -> None:
    report = planned(sample(), changed(sample(), "apps/prod/shop.yaml", "shop:", "shop-next:"))
    unknown = [change for change in report.changes if change.action == "unknown"]
    below = "settings, deployment, service, budget, ingress"
    said = f"waits for database.status.host; the outcome for its {below} is known only then"
    assert [(change.node, change.message) for change in unknown] == [("web", said)]
    assert unknown[0].diff


def test_a_template_of_which_only_a_cluster_knows_the_values_changes() -> None:
    """It is what the commit changes, whatever comes of it: no plan, comment or state says that nothing does."""
    report = planned(sample(), changed(sample(), "definitions/database.yaml", 'port: "5432"', 'port: "5433"'))
    assert (report.summary["unknown"], {change.action for change in report.changes}) == (3, {PlannedAction.UNKNOWN})
    assert report.has_changes


@pytest.mark.parametrize("allowed", [False, True])
def test_what_cannot_be_changed_in_place_is_replaced_if_it_may_be(allowed: bool) -> None:
    note = "  annotations: {levelgate.dev/replace: allowed}\n" if allowed else ""
    text = f"apiVersion: v1\nkind: ConfigMap\nimmutable: true\nmetadata:\n  name: fixed\n{note}data: {{a: one}}\n"
    report = planned({"a.yaml": text}, {"a.yaml": text.replace("one", "two")})
    assert told(report) == [f"{'replace' if allowed else 'failed'} 0 ConfigMap/default/fixed"]
    assert report.changes[0].immutable == ("data",)


def test_the_hash_is_that_of_the_content_and_of_nothing_else() -> None:
    base, head = {"a.yaml": MAP % ("a", "one")}, {"a.yaml": MAP % ("a", "two")}
    report = planned(base, head)
    assert report.hash == planned(base, {"a.yaml": f"# a comment\n{head['a.yaml']}"}).hash
    assert report.hash != planned(base, {"a.yaml": MAP % ("a", "three")}).hash


def test_importing_loads_no_embedded_server() -> None:
    """It judges what no server knows; a plan against a server starts without it."""
    code = (
        "import sys, gitops.plan.planner; print({'applier.sandbox.server', 'applier.kube.cluster'} & set(sys.modules))"
    )
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "set()"


def test_a_window_that_the_head_breaks_stays_in_force() -> None:
    """As in a cluster, which remembers what was accepted (rulings, broken input)."""
    window = (
        "apiVersion: levelgate.dev/v1alpha1\nkind: PropagationWindow\nmetadata: {name: mondays}\n"
        'spec: {kind: Allow, timeZone: UTC, schedule: {cron: "0 9 * * 1"}, duration: 2h, selector: {namespaces: [prod]}}\n'
    )
    base = {**sample(), "rules/window.yaml": window}
    head = changed(changed(base, "apps/prod/docs.yaml", "replicas: 2", "replicas: 4"), "rules/window.yaml", "2h", "two")
    report = planned(base, head)
    assert {(gate.reason, gate.name) for one in report.changes for gate in one.obstacles} == {
        ("WindowClosed", "mondays")
    }
    assert [one.path for one in report.problems] == ["spec.duration"]


def test_a_new_instance_of_a_definition_that_is_rolled_out_waits_for_nobody() -> None:
    """The base is taken as brought about, its rollouts as complete."""
    blog = sample()["apps/prod/docs.yaml"]
    report = planned(sample(), {**sample(), "apps/prod/blog.yaml": blog.replace("name: docs", "name: blog")})
    assert {one.action for one in report.changes} == {PlannedAction.CREATE}
    assert not [gate for one in report.changes for gate in one.obstacles]


def test_new_objects_are_tried_on_the_cluster_before_anything_runs() -> None:
    """A kind that nobody serves, a namespace that nobody makes, and what the server refuses whatever comes before it; a namespace that is new as well
    is no reason.
    """
    widget = "apiVersion: free.example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n"
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: new}\nspec: {type: Nothing, ports: [{port: 80}]}\n"
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: new}\n"
    inside, lost = (
        (MAP % (name, "x")).replace("default", place) for name, place in (("inside", "new"), ("lost", "nowhere"))
    )
    files = {
        "w.yaml": widget,
        "s.yaml": service.replace("new", "default"),
        "n.yaml": namespace,
        "i.yaml": inside,
        "l.yaml": lost,
    }
    report = planned_beside({"a.yaml": MAP % ("a", "one")}, {"a.yaml": MAP % ("a", "one"), **files}, {})
    assert told(report) == [
        "failed 0 ConfigMap/nowhere/lost",
        "create 0 Namespace/new",
        "failed 0 Service/default/s",
        "failed 0 Widget.free.example.com/default/w",
        "create 1 ConfigMap/new/inside",
    ]
    nowhere, refused, unserved = (change.message for change in report.changes if change.action is PlannedAction.FAILED)
    assert 'namespaces "nowhere" not found; add Namespace nowhere to Git' in nowhere
    assert 'spec.type: Unsupported value: "Nothing"' in refused
    assert "the cluster does not serve this kind" in unserved


@pytest.mark.parametrize("status", [0, 503], ids=["not reached", "one kind is not served now"])
def test_a_plan_is_given_up_at_once_where_nobody_answers_any_more(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a thousand objects would else be tried for half a minute."""
    ended: list[str] = []

    async def apply(manifest: Object, **_: object) -> Object:
        if manifest["metadata"]["name"] == "first":
            raise Unavailable("apply: cannot connect", status=status, is_transient=True)
        try:
            await asyncio.sleep(0 if status else math.inf)
        finally:
            ended.append(manifest["metadata"]["name"])
        return manifest

    with CheckedPlatform() as platform:
        platform.commit({"a.yaml": MAP % ("first", "one"), "b.yaml": MAP % ("second", "one")})
        monkeypatch.setattr(platform.cluster, "apply", apply)
        if status:
            assert told(platform.plan()) == ["create 0 ConfigMap/default/first", "create 0 ConfigMap/default/second"]
        else:
            with pytest.raises(Unavailable, match="cannot connect"):
                platform.plan()
    assert ended == ["second"]


def test_what_may_not_be_tried_on_the_cluster_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may read everything and write nothing gets a plan, and is told what is not known of it."""

    async def denied(_: DryRunCluster, manifest: object, **__: object) -> object:
        raise Denied("apply: forbidden")

    monkeypatch.setattr(DryRunCluster, "apply", denied)
    report = planned({"a.yaml": MAP % ("a", "one")}, {"a.yaml": MAP % ("a", "two"), "b.yaml": MAP % ("b", "one")})
    assert told(report) == ["update 0 ConfigMap/default/a", "create 0 ConfigMap/default/b"]
    (warning,) = report.warnings
    assert (warning.hazard, warning.message) == (
        WarningKind.NOT_COMPARED,
        "2 objects could not be tried by dry run, so refusals and defaults of the cluster are not known: apply: forbidden",
    )


@pytest.mark.parametrize("live", [{}, {"a.yaml": MAP % ("a", "one")}], ids=["new", "changed"])
def test_a_value_of_another_type_is_refused_before_anything_runs(live: dict[str, str]) -> None:
    """The server says 400 or 500 to what does not fit its types, not 422: YAML reads `yes` as true."""
    report = planned_beside(live, {"a.yaml": MAP % ("a", "yes")}, {})
    assert told(report) == ["failed 0 ConfigMap/default/a"]
    assert ".data.a: expected string" in report.changes[0].message


@pytest.mark.parametrize(
    ("said", "counts_of"),
    [("does not support dry run", set()), ("denied the request: no", {"changed"}), ("", {"new", "changed"})],
    ids=["asked in vain", "denied", "refused"],
)
def test_what_a_webhook_says_counts_where_it_would_say_it_again(
    said: str, counts_of: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes no dry runs has said nothing; one that denies a new object may take it once others exist."""

    async def refusing(_: DryRunCluster, manifest: object, **__: object) -> object:
        raise Invalid(f'apply: admission webhook "a.test" {said}' if said else "apply: no such field", status=400)

    monkeypatch.setattr(DryRunCluster, "apply", refusing)
    base = {"a.yaml": MAP % ("changed", "one")}
    report = planned(base, {"a.yaml": MAP % ("changed", "two"), "b.yaml": MAP % ("new", "one")})
    failed = {change.key.name for change in report.changes if change.key and change.action is PlannedAction.FAILED}
    assert failed == counts_of


def test_a_kind_that_no_commit_describes_may_be_there_all_the_same() -> None:
    """Between two commits nobody knows what else a cluster serves."""
    widget = "apiVersion: free.example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n"
    assert told(planned({}, {"w.yaml": widget})) == ["create 0 Widget.free.example.com/default/w"]


def test_items_without_what_named_them_are_told_by_their_places() -> None:
    old, new = ({"of": [{**named, "a": a}, {"name": "x", "a": 1}]} for named, a in (({"name": "y"}, 1), ({}, 2)))
    assert diff_objects(old, new) == (FieldDiff("of[0].a", 1, 2), FieldDiff("of[0].name", "y"))


def test_a_value_of_another_type_is_another_value() -> None:
    """Where no schema says of which type a field is; to Python 1 and true are equal."""
    widget = "apiVersion: free.example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\nspec: {is: %s, of: [{a: %s}], b: 1}\n"
    base, head = ({"w.yaml": widget % (said, said)} for said in ("1", "true"))
    (change,) = planned(base, head).changes
    assert change.diff == (FieldDiff("spec.is", 1, True), FieldDiff("spec.of[0].a", 1, True))
    assert [type(one.old) for one in change.diff] == [int, int]


@pytest.mark.parametrize("live", [True, False])
def test_what_somebody_has_disabled_is_held_and_says_by_what(live: bool) -> None:
    """`reconcile: disabled` of `levelgate.dev/`, in Git or by `kubectl annotate`."""
    note = "metadata: {annotations: {levelgate.dev/reconcile: disabled}, "
    base = {"a.yaml": MAP % ("a", "one")}
    head = (
        {"a.yaml": MAP % ("a", "two")}
        if live
        else changed({"a.yaml": MAP % ("a", "two")}, "a.yaml", "metadata: {", note)
    )
    beside = {"a.yaml": (MAP % ("a", "one")).replace("metadata: {", note)} if live else {}
    (change,) = planned_beside(base, head, beside).changes
    assert [(gate.reason, gate.message) for gate in change.obstacles] == [
        ("Suspended", "levelgate.dev/reconcile: disabled on ConfigMap/default/a")
    ]


def test_what_goes_with_its_old_owner_is_shown_beside_what_changes() -> None:
    """Also where the name of the one is the beginning of the other's."""
    note = f'metadata: {{annotations: {{{LAST_APPLIED}: \'{{"data": {{"te": "", "text": "", "texts": ""}}}}\'}}, '
    live = (MAP % ("a", "x, te: go, text: one, texts: go")).replace("metadata: {", note)
    (change,) = planned_beside({}, {"a.yaml": MAP % ("a", "x, text: two")}, {"live.yaml": live}).changes
    assert change.diff == (
        FieldDiff("data.text", "one", "two"),
        FieldDiff("data.te", "go"),
        FieldDiff("data.texts", "go"),
    )


def test_where_no_server_was_asked_nothing_is_told_to_go_that_git_does_not_say() -> None:
    """What a server fills in is in no manifest."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    live = {**service, "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": [{"port": 80}]}}
    manifest = {**service, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    assert intended_diff(live, manifest, SecretMasks()) == (FieldDiff("spec.type", "ClusterIP", "NodePort"),)


def test_what_somebody_is_deleting_is_no_object_that_stays_as_it_is() -> None:
    """It goes, whatever Git says, and is made again."""
    key, gone = ObjectKey("", "ConfigMap", "default", "a"), {"deletionTimestamp": "2026-11-20T12:00:00Z"}
    with CheckedPlatform() as platform:
        platform.commit({"a.yaml": MAP % ("a", "one")})
        run(platform)
        platform.cluster.edit(key, lambda obj: obj["metadata"].update(gone, finalizers=["slow.test/cleanup"]))
        report = platform.plan()
    assert (told(report), report.unchanged) == (["replace 0 ConfigMap/default/a"], 0)


@pytest.mark.parametrize(
    ("action", "why", "is_told"),
    [
        (PlannedAction.FAILED, "OwnedElsewhere: belongs to source other", True),
        (PlannedAction.FAILED, "Conflict: spec.replicas is of hpa", True),
        (PlannedAction.FAILED, "Invalid: no", False),
        (PlannedAction.ADOPT, "", True),
        (PlannedAction.UPDATE, "", False),
    ],
)
def test_of_what_belongs_to_others_a_reviewer_is_warned(action: PlannedAction, why: str, is_told: bool) -> None:
    change = PlannedChange(action, ObjectKey("", "ConfigMap", "prod", "a"), "ConfigMap", message=why)
    assert [one.hazard for one in _foreign_objects([change])] == [WarningKind.FOREIGN_OBJECT] * is_told


QUEUES = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.q.test}
spec:
  group: q.test
  scope: Namespaced
  names: {kind: Queue, plural: queues, singular: queue, listKind: QueueList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer, maximum: 10}, mode: {type: string}}}}
---
apiVersion: q.test/v1
kind: Queue
metadata: {name: small, namespace: default}
spec: {size: 8}
"""


def test_what_changes_with_its_kind_is_judged_by_the_kind_as_it_will_be() -> None:
    """No server can say it: it has the old definition still."""
    base = {"q.yaml": QUEUES}
    narrow = changed(base, "q.yaml", "maximum: 10", "maximum: 5")
    report = planned_beside(base, changed(narrow, "q.yaml", "{size: 8}", "{size: 8, mode: fast}"), {})
    assert told(report) == [
        "update 0 CustomResourceDefinition.apiextensions.k8s.io/queues.q.test",
        "failed 1 Queue.q.test/default/small",
    ]
    assert "spec.size: 8 is above the maximum 5" in report.changes[1].message
    report = planned_beside(base, changed(narrow, "q.yaml", "{size: 8}", "{size: 5}"), {})
    assert report.summary["failed"] == 0


def test_what_waits_for_its_turn_says_its_place() -> None:
    """Which of how many, and how many may be under way."""
    base, head = commits(CASES / "one-holds-back-others")
    (gate, *_) = next(one for one in planned(base, head).changes if one.ref == "ConfigMap/default/shop").obstacles
    assert (gate.reason, gate.name) == ("PaceReached", "default/api")
    assert gate.message.startswith("2nd of 2")


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_what_refers_to_an_object_of_the_same_commit_is_planned_with_it(names: tuple[str, str]) -> None:
    """Between commits, against a cluster, and in the run: `x` reads `b`, which is an object of `y`, which reads the plain object `a`."""
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.of}", "namespace": "default"},
    }
    reader = config_map("read", "other")
    reader["template"]["data"]["text"] = "${other.data.text}"
    link = definition("Link", [{"id": "other", "externalRef": reference}, reader], spec={"of": "string"})
    first, second = names
    instances = {f"{first}.json": instance("Link", "y", of="a"), f"{second}.json": instance("Link", "x", of="y-read")}
    base, head = ({"link.json": link, "p.json": plain("a", text=text), **instances} for text in ("one", "two"))
    assert told(planned(base, base)) == []
    assert planned(base, base).unchanged == 6
    wanted = ["update 0 ConfigMap/default/a", "update 1 ConfigMap/default/x-read", "update 1 ConfigMap/default/y-read"]
    assert sorted(told(planned(base, head))) == wanted
    assert {one.action for one in planned({}, head).changes} == {PlannedAction.CREATE}
    with CheckedPlatform() as platform:
        platform.commit(base)
        run(platform)
        platform.commit(head)
        assert sorted(told(platform.plan())) == wanted
        assert sorted(key.name for key in done(run(platform))) == ["a", "x-read", "y-read"]
