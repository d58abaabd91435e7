"""What the server refuses, by class, in one commit: every refusal is reported, costs its own node only, and ends when its cause ends."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from itertools import count
from typing import Any

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link, manifest, shop, web
from tests.support.platform import MERGE


def denying(platform: CommandPlatform) -> None:
    """A policy that denies ConfigMaps named `denied` in the test's namespace; in force on return."""
    api = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": platform.namespace}},
            "resourceRules": [rule],
        },
        "failurePolicy": "Fail",
        "validations": [{"expression": 'object.metadata.name != "denied"', "message": "not on my watch"}],
    }
    binding = {"policyName": platform.namespace, "validationActions": ["Deny"]}
    for kind, content in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)):
        platform.kubectl("create", "-f", "-", stdin=manifest(api, kind, platform.namespace, "", spec=content))
    probe = config_map(platform.namespace, "denied", a="b")
    eventually(
        lambda: "not on my watch" in platform.kubectl("create", "--dry-run=server", "-f", "-", stdin=probe, check=False)
    )


@pytest.fixture
def refused(platform: CommandPlatform) -> dict[str, str]:
    """Files, by what is told of each."""
    here = platform.namespace
    return {
        ".zz: field not declared in schema": manifest("v1", "ConfigMap", "unknown-field", here, zz=1),
        ".data: expected map": manifest("v1", "ConfigMap", "wrong-type", here, data="text"),
        "metadata.name: Invalid value": manifest("v1", "ConfigMap", "Upper", here),
        "Too long: may not be more than 262144 bytes": json.dumps(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "long", "namespace": here, "annotations": {"a": "x" * 262145}},
            }
        ),
        "spec.ports: Required value": manifest("v1", "Service", "no-ports", here, spec={"type": "ClusterIP"}),
        'namespaces "nowhere-at-all" not found': config_map("nowhere-at-all", "lost", a="b"),
        "not on my watch": config_map(here, "denied", a="b"),
        "answers requests for TokenReview": manifest(
            "authentication.k8s.io/v1", "TokenReview", "asked", "", spec={"token": "x"}
        ),
        "does not serve this kind": manifest("no.example.org/v1", "Nothing", "x", here),
    }


def test_all_refusals_of_a_commit_are_told_and_the_rest_goes_on(
    platform: CommandPlatform, refused: dict[str, str]
) -> None:
    """S0-20, rule 8: an author's mistake, a policy, an absent namespace and an unknown kind, side by side with what is fine. A write that is refused
    is sent once.
    """
    denying(platform)
    files = {f"{number}.json": text for number, text in enumerate(refused.values())}
    platform.repository.commit({**files, "fine.json": config_map(platform.namespace, "fine", a="b")})
    since = platform.audit.mark()
    failed = platform.run_once(check=1)
    sent = Counter(event.name for event in platform.writes(since) if event.code in {403, 422})
    assert set(sent) >= {"denied", "long", "no-ports"}
    assert set(sent.values()) == {1}, sent
    for told in refused:
        assert told in failed.stdout, (told, failed.stdout)
    assert "Traceback" not in failed.stdout + failed.stderr
    assert platform.kubectl("get", "configmap", "fine", "-n", platform.namespace, "-o", "jsonpath={.data.a}") == "b"
    platform.repository.commit(dict.fromkeys(files))
    platform.run_once()


def test_a_quota_is_a_refusal_that_ends_when_there_is_room(platform: CommandPlatform) -> None:
    """403 is not only missing rights: the message says which quota; the next run goes on."""
    quota = manifest("v1", "ResourceQuota", "few", platform.namespace, spec={"hard": {"count/secrets": "0"}})
    platform.kubectl("create", "-f", "-", stdin=quota)
    # The controller that counts does not run here: this is what it would write.
    status = {"status": {"hard": {"count/secrets": "0"}, "used": {"count/secrets": "0"}}}
    few = ("resourcequota", "few", "-n", platform.namespace)
    platform.kubectl("patch", *few, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    secret = manifest("v1", "Secret", "one", platform.namespace, data={"a": "eA=="})
    platform.repository.commit({"secret.json": secret})

    def told() -> bool:
        return "exceeded quota: few" in platform.run_once(check=None).stdout

    eventually(told)
    platform.kubectl("delete", *few)
    eventually(lambda: platform.run_once(check=None).returncode == 0)


def test_a_namespace_that_goes_away_is_waited_for_and_no_failure(platform: CommandPlatform) -> None:
    """403 with the cause NamespaceTerminating: time will bring it, nobody has to act."""
    space = f"{platform.namespace}-going"
    platform.kubectl("create", "namespace", space)
    held = json.loads(config_map(space, "held", a="b"))
    held["metadata"]["finalizers"] = ["example.org/hold"]
    platform.kubectl("create", "-f", "-", stdin=json.dumps(held))
    platform.kubectl("delete", "namespace", space, "--wait=false")
    platform.repository.commit({"late.json": config_map(space, "late", a="b")})
    waiting = platform.run_once(check=3)
    assert "Progressing" in waiting.stdout
    assert "failed 0" in waiting.stdout
    platform.kubectl(
        "patch", "configmap", "held", "-n", space, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
    )


def test_an_object_that_others_write_all_the_time_is_deleted_all_the_same(
    platform: CommandPlatform, control_plane: ControlPlane
) -> None:
    """A delete carries the resourceVersion that was seen; where it has moved on, it is looked at again and tried again, after three times by uid."""
    platform.repository.commit(
        {
            "busy.json": config_map(platform.namespace, "busy", a="b"),
            "other.json": config_map(platform.namespace, "other", a="b"),
        }
    )
    platform.run_once()
    stop = threading.Event()

    def write() -> None:
        path = f"/api/v1/namespaces/{platform.namespace}/configmaps/busy?fieldManager=counter"
        for number in count():
            body = {"metadata": {"annotations": {"example.org/count": str(number)}}}
            answer = control_plane.request("PATCH", path, body, content_type=MERGE)
            if stop.is_set() or answer.code == HTTPStatus.NOT_FOUND:
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        platform.repository.commit({"busy.json": None})
        since = platform.audit.mark()
        platform.run_once(wait="2m")
    finally:
        stop.set()
        writer.join()
    assert platform.kubectl("get", "configmap", "busy", "-n", platform.namespace, "--ignore-not-found") == ""
    deletes = [event for event in platform.writes(since) if event.verb == "delete"]
    exact = [set(event.request["preconditions"]) == {"uid", "resourceVersion"} for event in deletes]
    assert all("uid" in event.request["preconditions"] for event in deletes)
    assert all(exact[:3])
    assert len(deletes) <= 4
    assert [event.code for event in deletes].count(200) == 1


def without_secrets(platform: CommandPlatform, control_plane: ControlPlane) -> None:
    """The user `tenant` may do everything in the test's group, and to what instances are made of, but nothing to Secrets."""
    everything = {"verbs": ["*"], "resources": ["*"]}
    core = {"apiGroups": [""], "verbs": ["*"], "resources": ["configmaps", "namespaces", "events"]}
    groups = ["apps", "apiextensions.k8s.io", "coordination.k8s.io", platform.group]
    role = {"rules": [core, {**everything, "apiGroups": groups}]}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": platform.namespace}
    api = "rbac.authorization.k8s.io/v1"
    for kind, content in (("ClusterRole", role), ("ClusterRoleBinding", {"roleRef": reference, "subjects": [subject]})):
        platform.kubectl("create", "-f", "-", stdin=manifest(api, kind, platform.namespace, "", **content))
    eventually(lambda: control_plane.request("GET", "/api/v1/configmaps", user="tenant").code == 200)


def reading_secrets(group: str, kind: str, **metadata: Any) -> str:
    """A definition whose only resource reads Secrets."""
    reference = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    reader = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{kind.lower()}-reader"}}
    spec = {
        "schema": {"group": group, "apiVersion": "v1", "kind": kind, "spec": {}},
        "resources": [
            {"id": "given", "externalRef": reference},
            {"id": "reader", "template": {**reader, "data": {"count": "${string(size(given))}"}}},
        ],
    }
    return manifest("kro.run/v1alpha1", "ResourceGraphDefinition", f"{kind.lower()}s.{group}", "", spec=spec)


@pytest.mark.parametrize(
    ("metadata", "verb"), [({"selector": {"matchLabels": {"a": "b"}}}, "list"), ({"name": "given"}, "get")]
)
def test_what_may_not_be_read_is_an_error_of_who_refers_to_it(
    platform: CommandPlatform, control_plane: ControlPlane, metadata: dict[str, Any], verb: str
) -> None:
    """Rule 8, rgd 1.4: a missing permission is named, on that instance alone; the other one becomes ACTIVE."""
    here, group = platform.namespace, platform.group
    without_secrets(platform, control_plane)
    thing = {
        "schema": {"group": group, "apiVersion": "v1", "kind": "Thing", "spec": {}},
        "resources": [{"id": "a", "template": json.loads(config_map(here, "a", a="b"))}],
    }
    things = manifest("kro.run/v1alpha1", "ResourceGraphDefinition", f"things.{group}", "", spec=thing)
    readers = reading_secrets(group, "Reader", namespace=here, **metadata)
    platform.repository.commit({"thing.json": things, "reader.json": readers})
    platform.run_once()  # by somebody who may look for members of the source everywhere, as its first pass does
    platform.repository.commit(
        {
            "x.json": manifest(f"{group}/v1", "Thing", "x", here),
            "y.json": manifest(f"{group}/v1", "Reader", "y", here),
        }
    )
    tenant = replace(platform, kubeconfig=control_plane.kubeconfig("tenant"))
    try:
        tenant.run_once(check=None)
        state = ("-n", here, "-o", "jsonpath={.status.state}")
        assert platform.kubectl("get", f"things.{group}", "x", *state) == "ACTIVE"
        assert platform.kubectl("get", f"readers.{group}", "y", *state) == "ERROR"
        found = json.loads(platform.kubectl("get", f"readers.{group}", "y", "-n", here, "-o", "json"))
        row, behind = found["status"]["levelgate"]["blocked"]
        assert (behind["node"], behind["reason"]) == ("reader", "WaitingForData")
        assert row["node"] == "given"
        assert "not allowed" in row["message"]
        assert f'User "tenant" cannot {verb} resource "secrets" in API group ""' in row["message"]
        assert "bind a role that allows the request to tenant" in row["message"]
    finally:
        for kind in ("clusterrolebinding", "clusterrole"):
            platform.kubectl("delete", kind, here)


@pytest.mark.both_servers
def test_what_cannot_be_rendered_says_by_file_and_line_where_the_mistake_stands(platform: CommandPlatform) -> None:
    """Rule 10: the expression in the definition and the object that it fails for; or the field that does not fit, of one that exists and of one that
    does not.
    """

    def explained(name: str) -> str:
        return platform.levelgate("explain", f"chain.{platform.group}/{name}", "-n", platform.namespace).stdout

    definition = json.loads(chain(platform.group, "ab"))
    definition["spec"]["resources"][1]["template"]["data"]["reads"] = "${string(int(schema.spec.text))}"
    files = {
        f"{name}.json": json.dumps(json.loads(link(platform.group, platform.namespace, name, text="1")), indent=1)
        for name in ("one", "two")
    }
    platform.repository.commit({"chain.json": json.dumps(definition, indent=1), **files})
    platform.run_once()
    three = files["one.json"].replace('"one"', '"three"').replace('"1"', "5")
    platform.repository.commit(
        {
            "one.json": files["one.json"].replace('"1"', '"x"'),
            "two.json": files["two.json"].replace('"1"', "5"),
            "three.json": three,
        }
    )
    platform.run_once(check=1)
    line = json.dumps(definition, indent=1).partition('"id": "b"')[0].count("\n")
    assert f"chain.json:{line}: data.reads: " in explained("one")
    assert "in Git: one.json:1" in explained("one")
    for name in ("two", "three"):
        assert f"{name}.json:9: spec.text: 5 is not text" in explained(name)


def test_why_pods_do_not_run_is_told_by_explain(platform: CommandPlatform) -> None:
    """Rule 10: an image that cannot be pulled, a container that ends, a Pod that no node takes; by name, and not once for each Pod."""
    here, labels = platform.namespace, {"app": "shop"}
    platform.repository.commit({"web.yaml": web(platform.group), "shop.json": shop(platform.group, here)})
    platform.run_once(check=3)

    def pod(name: str, **status: Any) -> None:
        spec = {"containers": [{"name": "web", "image": "nosuch"}]}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": here, "labels": labels},
            "spec": spec,
        }
        platform.kubectl("create", "-f", "-", stdin=json.dumps(body))
        told = json.dumps({"status": status})
        platform.kubectl("patch", "pod", name, "-n", here, "--subresource=status", "--type=merge", "-p", told)

    def container(state: dict[str, Any], last: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        base = {"name": "web", "image": "nosuch", "imageID": "", "ready": False, "restartCount": 0}
        return [{**base, "state": {"waiting": state}, **({"lastState": {"terminated": last}} if last else {})}]

    for name in ("a", "b"):
        pod(name, containerStatuses=container({"reason": "ImagePullBackOff", "message": "Back-off pulling image"}))
    pod("c", containerStatuses=container({"reason": "CrashLoopBackOff"}, {"exitCode": 3, "reason": "Error"}))
    pod(
        "d", conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]
    )
    pod("e", containerStatuses=container({"reason": "ContainerCreating"}))
    ref = (f"shop.{platform.group}/shop", "-n", here)
    shown = [line.strip() for line in platform.levelgate("explain", *ref, check=0).stdout.splitlines()]
    assert [line for line in shown if line.startswith("Pod ")] == [
        "Pod a, container web: ImagePullBackOff: Back-off pulling image",
        "Pod c, container web: CrashLoopBackOff, exit code 3",
        "Pod d, not scheduled: Unschedulable: 0/3 nodes",
    ]
    told = json.loads(platform.levelgate("explain", *ref, "-o", "json", check=0).stdout)
    assert len(told["pods"]) == 3
