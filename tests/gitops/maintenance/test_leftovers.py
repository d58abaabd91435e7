"""What `levelgate check` says of what nobody looks after any more."""

from __future__ import annotations

from dataclasses import replace

from applier.sandbox.endpoints.transport import cluster_of
from gitops.cli.check import _text
from gitops.daemon.source_records import SourceRecords
from gitops.errors import SourceError
from gitops.maintenance.cluster_check import CheckLevel, check_cluster
from gitops.maintenance.cluster_facts import examine
from renderer.identity import ObjectKey
from tests.support.fault_injector import InjectedFault, RefusedRequest
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import MERGE


def test_instances_are_counted_where_the_records_of_sources_may_be_read_but_not_found() -> None:
    """ConfigMaps may be read in our own namespace, and listed nowhere else: as `deploy/kubernetes.yaml` has it."""
    with LinkPlatform(names=("a", "b"), gates=[]) as fleet:
        fleet.start()
        facts = fleet.call(examine(cluster_of(fleet.sandbox.answer), version="0", now=fleet.clock.now()))
    objects = {key: obj for key, obj in facts.survey.objects.items() if key.kind != "ConfigMap"}
    facts = replace(facts, survey=replace(facts.survey, objects=objects))
    (found,) = (one for one in check_cluster(facts) if one.area == "sets")
    assert found.message.startswith("1 source, 2 instances, ")


def test_roles_that_people_aggregate_are_no_traces_of_ours() -> None:
    """What is a trace loses our keys at an uninstall: without that label the next installation would lack what the role grants."""
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    labels = {"levelgate.dev/aggregate-to": "levelgate"}
    with LinkPlatform(names=("a",), gates=[]) as fleet:
        fleet.start()
        body = {**role, "metadata": {"name": "levelgate-platform", "labels": labels}, "rules": []}
        fleet.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", body)
        facts = fleet.call(examine(cluster_of(fleet.sandbox.answer), version="0", now=fleet.clock.now()))
    assert "ClusterRole" not in {key.kind for key in facts.survey.objects}


def test_kinds_that_may_not_be_listed_are_one_warning_and_a_source_that_cannot_be_read_is_none() -> None:
    """Surface 1.1: with the least rights most kinds are not looked through, which is one thing to know."""
    with LinkPlatform(names=("a",), gates=[]) as fleet:
        fleet.start()
        fleet.call(
            SourceRecords(fleet.cluster, fleet.clock).report_error("shop", SourceError("https://x/shop", "refused"))
        )
        whole = fleet.call(examine(cluster_of(fleet.sandbox.answer), version="0", now=fleet.clock.now()))
        assert [one for one in check_cluster(whole) if one.area == "leftovers" and one.objects] == []
        fleet.faulty.faults = [InjectedFault(RefusedRequest(403), verb="list")]
        facts = fleet.call(examine(cluster_of(fleet.answer), version="0", now=fleet.clock.now()))
    (found,) = (one for one in check_cluster(facts) if one.level is CheckLevel.WARNING and one.area == "cluster")
    assert found.message.startswith(f"Levelgate cannot search {len(facts.survey.list_errors)} kinds ")
    assert {(key.group, key.kind) for key in found.objects} == set(facts.survey.list_errors)
    (line, advice) = [*_text([found])][:2]
    assert (found.message in line, "levelgate check -o json" in advice) == (True, True)


def test_members_of_an_instance_that_went_with_its_records_are_named() -> None:
    """A person stripped the finalizer, deleted the CRD and the record of the source, and Git dropped the instance.

    Nothing tells then where its members are, and they stay.
    """
    with LinkPlatform(names=("a", "b"), gates=[]) as fleet:
        fleet.start()
        for name in fleet.names:
            path = f"/apis/{GROUP}/v1/namespaces/default/links/{name}"
            fleet.request("PATCH", path, {"metadata": {"finalizers": []}}, MERGE)
        fleet.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/links.{GROUP}")
        fleet.request("DELETE", fleet.record_path())
        fleet.sandbox.tick_until_stable()
        fleet.names = ("b",)
        fleet.push()
        for _ in range(3):
            fleet.step()
        facts = fleet.call(examine(cluster_of(fleet.sandbox.answer), version="0", now=fleet.clock.now()))
        (found,) = (one for one in check_cluster(facts) if one.area == "leftovers")
        left = ObjectKey("", "ConfigMap", "default", "a-app"), ObjectKey("apps", "Deployment", "default", "a-app")
        assert (found.level, found.message, found.objects) == (
            CheckLevel.WARNING,
            "members of sets whose parent does not exist",
            left,
        )
        assert "uninstall" in found.advice
