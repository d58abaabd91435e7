"""`levelgate uninstall`: afterwards there is no trace of us, and what was deployed is as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link
from tests.support.objects import deployment

NO_TRACE = ("Event", "Lease")
Json = dict[str, Any]


def dump(kubectl: Kubectl) -> dict[tuple[str, str, str], Json]:
    """Every object of the server, without what the server counts: uid, resourceVersion, generation, times and the times of managed fields."""
    kinds = [
        line for line in kubectl("api-resources", "--verbs=list,patch", "-o", "name").split() if "event" not in line
    ]
    listed = json.loads(kubectl("get", ",".join(kinds), "-A", "-o", "json", "--show-managed-fields"))
    found = {}
    for item in listed["items"]:
        metadata = item["metadata"]
        key = (f"{item['apiVersion']}/{item['kind']}", metadata.get("namespace", ""), metadata["name"])
        for name in ("uid", "resourceVersion", "generation", "creationTimestamp"):
            metadata.pop(name, None)
        for entry in metadata.get("managedFields", ()):
            entry.pop("time", None)
        if item["kind"] not in NO_TRACE:
            found[key] = item
    return found


def traces(found: dict[tuple[str, str, str], Json]) -> list[tuple[str, str, str]]:
    """Objects that name us anywhere; the schema and the columns of a definition's CRD are what it deployed."""
    told = {
        key: {**obj, "spec": {}} if key[0].endswith("/CustomResourceDefinition") else obj for key, obj in found.items()
    }
    words = {key: json.dumps(obj).replace("levelgate-sandbox", "") for key, obj in told.items()}
    return [key for key, text in words.items() if "levelgate" in text or "applyset" in text]


def files(platform: CommandPlatform) -> dict[str, str]:
    web = deployment(
        {"name": "web", "namespace": platform.namespace, "annotations": {"levelgate.dev/health": "ignore"}}
    )
    return {
        "chain.json": chain(platform.group, "ab"),
        "one.json": link(platform.group, platform.namespace),
        "plain.json": config_map(platform.namespace, "plain", a="b"),
        "web.json": json.dumps(web),
        "space.json": json.dumps(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{platform.namespace}-more"}}
        ),
    }


@pytest.fixture
def applied(alone: CommandPlatform) -> CommandPlatform:
    """A definition, an instance, plain objects; one of them was there before and was adopted."""
    assert eventually(lambda: not is_leaving(alone)), "what the test before left"
    alone.kubectl("apply", "--server-side", "-f", "-", stdin=config_map(alone.namespace, "plain", a="b"))
    alone.repository.commit(files(alone))
    alone.run_once("--adopt", "IfEqual", check=None)
    return alone


def is_away(platform: CommandPlatform) -> bool:
    return "NotFound" in platform.kubectl("get", "namespace", "levelgate-system", check=False)


def is_leaving(platform: CommandPlatform) -> bool:
    return "Terminating" in platform.kubectl("get", "namespace", "levelgate-system", check=False)


def test_nothing_of_ours_is_left_and_workloads_are_untouched(alone: CommandPlatform) -> None:
    """I2, I10: compared is everything that the server holds, before the first run, with Levelgate, and after it left."""
    alone.kubectl("apply", "--server-side", "-f", "-", stdin=config_map(alone.namespace, "plain", a="b"))
    before = dump(alone.kubectl)
    alone.repository.commit(files(alone))
    alone.run_once("--adopt", "IfEqual", check=None)
    installed = dump(alone.kubectl)
    assert traces(installed)
    refused = alone.levelgate("uninstall", check=1)
    assert "confirm with --yes" in refused.stderr
    assert dump(alone.kubectl) == installed, "a plan changes nothing"
    assert "release   ConfigMap" in refused.stdout
    done = alone.levelgate("uninstall", "--yes", check=0)
    assert "Levelgate is removed from the cluster." in done.stdout
    assert eventually(lambda: is_away(alone))
    after = dump(alone.kubectl)
    assert traces(after) == []
    for key, obj in before.items():
        assert after[key] == obj or key[2] == "plain"
    for key in installed.keys() - before.keys():
        if key[1] != "levelgate-system" and key[2] != "levelgate-system":
            assert {name: value for name, value in after[key].items() if name not in {"metadata", "status"}} == {
                name: value for name, value in installed[key].items() if name not in {"metadata", "status"}
            }
    plain = after["v1/ConfigMap", alone.namespace, "plain"]
    assert (plain["data"], plain["metadata"].get("managedFields")) == ({"a": "b"}, None), "its fields belong to nobody"
    again = alone.levelgate("uninstall", check=0)
    assert "Levelgate has added nothing to this cluster." in again.stdout


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_what_was_released_serves_others_and_is_deleted_without_us(applied: CommandPlatform) -> None:
    """An instance goes at once and its children stay; the next tool meets no field of ours."""
    applied.levelgate("uninstall", "--yes", check=0)
    here = ("-n", applied.namespace)
    applied.kubectl("apply", "-f", "-", stdin=config_map(applied.namespace, "plain", a="theirs"))
    told = applied.kubectl(
        "apply", "--server-side", "-f", "-", stdin=config_map(applied.namespace, "one-a", text="theirs"), check=False
    )
    assert 'conflict with "before-first-apply"' in told
    applied.kubectl("delete", f"chains.{applied.group}", "one", *here, "--timeout=2m")
    assert "configmap/one-b" in applied.kubectl("get", "configmaps", *here, "-o", "name")


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_a_second_installation_takes_up_what_was_released(applied: CommandPlatform) -> None:
    """Left and come back: what exists is adopted by word only, and then everything is as it was."""
    applied.levelgate("uninstall", "--yes", check=0)
    assert eventually(lambda: is_away(applied))
    assert "exists and is not managed by Levelgate" in applied.run_once(check=1).stdout
    applied.run_once("--adopt", "IfUnowned", check=None)
    instance = json.loads(
        applied.kubectl("get", f"chains.{applied.group}", "one", "-n", applied.namespace, "-o", "json")
    )
    assert instance["status"]["state"] == "ACTIVE"


def test_workloads_go_in_reverse_where_they_are_to_go(applied: CommandPlatform) -> None:
    """S0-11, S0-15: with --with-workloads members go before what they use; Namespaces and CRDs stay, without a trace."""
    applied.levelgate("uninstall", "--with-workloads", "--yes", check=0)
    here = ("-n", applied.namespace)
    left = applied.kubectl("get", f"configmaps,deployments,chains.{applied.group}", *here, "-o", "name")
    assert left in {"", "configmap/kube-root-ca.crt\n"}
    assert "customresourcedefinition" in applied.kubectl("get", "crd", f"chains.{applied.group}", "-o", "name")
    assert eventually(lambda: is_away(applied))
    assert traces(dump(applied.kubectl)) == []
    if applied.audit_log:
        deleted = [
            event.name
            for event in applied.audit.events(since=0, user="levelgate", verbs={"delete"}, namespace=applied.namespace)
        ]
        assert deleted.index("one-b") < deleted.index("one-a")


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_a_set_that_kubectl_took_over_stays_kubectls(applied: CommandPlatform) -> None:
    """KEP-3659: the tooling annotation says whose set it is; its keys are not ours to remove, our finalizer is."""
    one = (f"chains.{applied.group}", "one", "-n", applied.namespace)
    applied.kubectl("annotate", *one, "--overwrite", "applyset.kubernetes.io/tooling=kubectl/v1.36.0")
    applied.levelgate("uninstall", "--yes", check=0)
    metadata = json.loads(applied.kubectl("get", *one, "-o", "json"))["metadata"]
    assert "finalizers" not in metadata
    selector = f"applyset.kubernetes.io/part-of={metadata['labels']['applyset.kubernetes.io/id']}"
    members = applied.kubectl("get", "configmaps", "-n", applied.namespace, "-l", selector, "-o", "name").split()
    assert members == ["configmap/one-a", "configmap/one-b"]


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_our_namespace_stays_where_others_use_it(applied: CommandPlatform) -> None:
    applied.kubectl("apply", "--server-side", "-f", "-", stdin=config_map("levelgate-system", "theirs", a="b"))
    applied.levelgate("uninstall", "--yes", check=0)
    own = ("-n", "levelgate-system")
    assert "configmap/theirs" in applied.kubectl("get", "configmaps", *own, "-o", "name")
    assert applied.kubectl("get", "controllerrevisions,leases", *own, "-o", "name") == ""
    applied.kubectl("delete", "namespace", "levelgate-system")


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_it_does_nothing_while_somebody_works(applied: CommandPlatform) -> None:
    """A daemon would take everything up again."""
    with applied.start() as daemon:
        lease = ("get", "lease", "levelgate", "-n", "levelgate-system", "-o", "jsonpath={.spec.holderIdentity}")
        eventually(lambda: f"_{daemon.pid}-" in applied.kubectl(*lease))
        refused = applied.levelgate("uninstall", "--yes", check=1)
        assert "stop that process, or let it continue" in refused.stderr
        assert applied.kubectl("get", "configmap", "one-a", "-n", applied.namespace, "-o", "name")
