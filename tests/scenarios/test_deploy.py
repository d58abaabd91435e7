"""From a commit to a cluster, level by level, and back; judged by the API server's audit log and by kubectl."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tests.support.cluster.audit import AuditEvent
from tests.support.command_platform import CommandPlatform, make_available
from tests.support.definitions import chain, config_map, link, shop, web


def state(platform: CommandPlatform, resource: str, name: str) -> str:
    return platform.kubectl(
        "get", f"{resource}.{platform.group}", name, "-n", platform.namespace, "-o", "jsonpath={.status.state}"
    )


def order(events: list[AuditEvent], verb: str, resource: str) -> list[str]:
    return [
        event.name for event in events if event.verb == verb and event.resource == resource and not event.subresource
    ]


def test_a_definition_and_an_instance_become_a_running_application(platform: CommandPlatform) -> None:
    """S0-1, S0-8, S0-9: level after level, each only when the one before is ready; status and columns as kro's users know them."""
    platform.repository.commit(
        {"web.yaml": web(platform.group), "shop.yaml": shop(platform.group, platform.namespace, public=True)}
    )
    first = platform.run_once(check=3)
    assert "deployment created" in first.stdout
    assert "service" not in platform.kubectl("get", "service,ingress", "-n", platform.namespace, "-o", "name")
    assert state(platform, "shops", "shop") == "IN_PROGRESS"

    make_available(platform, "shop", 1)
    platform.run_once(check=0)
    assert (
        platform.kubectl(
            "get", "ingress", "shop", "-n", platform.namespace, "-o", "jsonpath={.spec.defaultBackend.service.name}"
        )
        == "shop"
    )
    header, row = platform.kubectl("get", f"shops.{platform.group}", "-n", platform.namespace).strip().splitlines()
    assert header.split() == ["NAME", "STATE", "READY", "HEALTHY", "REVISION", "PROPAGATED", "AGE"]
    assert row.split()[:4] == ["shop", "ACTIVE", "True", "True"]
    assert (
        platform.kubectl(
            "get", f"shops.{platform.group}", "shop", "-n", platform.namespace, "-o", "jsonpath={.status.available}"
        )
        == "1"
    )


def test_a_changed_commit_moves_an_application_in_order_of_its_levels(platform: CommandPlatform) -> None:
    """S0-9, I3: a node below waits until the node above is updated and ready *again*, not merely still ready."""
    files = {"web.yaml": web(platform.group), "shop.yaml": shop(platform.group, platform.namespace)}
    platform.repository.commit(files)
    platform.run_once(check=3)
    make_available(platform, "shop", 1)
    platform.run_once(check=0)

    changed = web(platform.group, image_suffix=":2").replace("- port: 80", "- port: 8080")
    platform.repository.commit({"web.yaml": changed, "shop.yaml": shop(platform.group, platform.namespace, replicas=2)})
    since = platform.audit.mark()
    platform.run_once(check=3)
    assert order(platform.writes(since), "patch", "deployments") == ["shop"]
    assert order(platform.writes(since), "patch", "services") == [], (
        "the old status says ready, but of the old generation"
    )

    make_available(platform, "shop", 2)
    platform.run_once(check=0)
    assert order(platform.writes(since), "patch", "services") == ["shop"]
    assert (
        platform.kubectl(
            "get",
            "deployment",
            "shop",
            "-n",
            platform.namespace,
            "-o",
            "jsonpath={.spec.template.spec.containers[0].image}",
        )
        == "nginx:2"
    )


def test_a_chain_removed_in_one_commit_goes_from_its_end(platform: CommandPlatform) -> None:
    """S0-11, I4: D, C, B, A, each seen to be absent before the next is deleted: requests sent together would come one after the other as well."""
    files = {"chain.json": chain(platform.group, "abcde"), "one.json": link(platform.group, platform.namespace)}
    platform.repository.commit(files)
    platform.run_once()
    platform.repository.commit({"chain.json": chain(platform.group, "e")})
    since = platform.audit.mark()
    platform.run_once()
    deletions = [event for event in platform.writes(since) if event.verb == "delete" and event.resource == "configmaps"]
    assert [event.name for event in deletions] == ["one-d", "one-c", "one-b", "one-a"]
    lists = [event for event in platform.requests(since) if (event.verb, event.resource) == ("list", "configmaps")]
    for before, after in pairwise(deletions):
        assert any(before.answered <= one.time and one.answered <= after.time for one in lists)
    assert platform.kubectl(
        "get", "configmaps", "-n", platform.namespace, "-l", "applyset.kubernetes.io/part-of", "-o", "name"
    ).split() == ["configmap/one-e"]


def test_a_finalizer_at_the_end_of_a_chain_holds_back_everything_before_it(platform: CommandPlatform) -> None:
    """S0-16, I4: absent, not merely marked; nothing is skipped, and the report names the finalizer."""
    platform.repository.commit(
        {"chain.json": chain(platform.group), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    finalizers = '{"metadata":{"finalizers":["example.com/slow"]}}'
    platform.kubectl("patch", "configmap", "one-d", "-n", platform.namespace, "--type=merge", "-p", finalizers)
    platform.repository.commit({"one.json": None})
    since = platform.audit.mark()
    held = platform.run_once(check=3)
    deleted = "jsonpath={.metadata.deletionTimestamp}"
    since_then = platform.kubectl("get", "configmap", "one-d", "-n", platform.namespace, "-o", deleted)
    told = f"is being deleted (requested at {since_then}) and waits for example.com/slow (set by kubectl-patch)"
    assert told in held.stdout
    shown = platform.levelgate("explain", "configmap/one-d", "-n", platform.namespace, check=0).stdout
    assert told in " ".join(shown.split()), "also of a member of an instance that no record names any more"
    platform.run_once(check=3)
    assert order(platform.writes(since), "delete", "configmaps") == ["one-d"]
    assert state(platform, "chains", "one") == "DELETING"

    platform.kubectl(
        "patch",
        "configmap",
        "one-d",
        "-n",
        platform.namespace,
        "--type=merge",
        "-p",
        '{"metadata":{"finalizers":null}}',
    )
    platform.run_once()
    assert order(platform.writes(since), "delete", "configmaps") == ["one-d", "one-c", "one-b", "one-a"]
    assert platform.kubectl("get", f"chains.{platform.group}", "-n", platform.namespace, "-o", "name") == ""


def test_an_instance_removed_from_git_goes_after_its_children(platform: CommandPlatform) -> None:
    """S0-15, S0-17: the same code with nothing desired; the instance leaves when its last child is gone."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    platform.repository.commit({"one.json": None})
    since = platform.audit.mark()
    platform.run_once()
    events = [
        event for event in platform.writes(since) if event.verb == "delete" or "finalizers" in json.dumps(event.request)
    ]
    assert [(event.verb, event.resource) for event in events] == [
        ("delete", "chains"),
        ("patch", "chains"),  # a new process leads, and says so before it touches the members
        ("delete", "configmaps"),
        ("delete", "configmaps"),
        ("patch", "chains"),
    ]
    assert platform.kubectl("get", f"chains.{platform.group}", "-n", platform.namespace, "-o", "name") == ""


def test_a_second_pass_over_an_unchanged_commit_writes_nothing(platform: CommandPlatform) -> None:
    """I7, rule 5: no write without a difference, and one list for each kind, not one read for each object."""
    instances = {f"{name}.json": link(platform.group, platform.namespace, name) for name in ("one", "two", "three")}
    plain = {"plain.json": config_map(platform.namespace, "plain", key="value")}
    platform.repository.commit({"chain.json": chain(platform.group), **instances, **plain})
    platform.run_once()
    since = platform.audit.mark()
    platform.run_once()
    assert platform.writes(since) == []
    reads = [event for event in platform.requests(since) if event.verb in {"get", "list"} and event.resource]
    assert sorted((event.verb, event.resource) for event in reads) == [
        ("get", "configmaps"),  # the source: whether it is pinned, and from which commit it goes on
        ("get", "configmaps"),  # the source
        ("get", "configmaps"),  # the installation
        ("get", "leases"),  # who leads
        ("list", "chains"),
        ("list", "configmaps"),  # members
        ("list", "configmaps"),  # our own records: rollouts, the calendar
        ("list", "configmaps"),  # metadata of members that lost their label, once in each process
        ("list", "controllerrevisions"),
        ("list", "customresourcedefinitions"),
        ("list", "customresourcedefinitions"),  # likewise
    ]


def test_drift_by_hand_is_healed(platform: CommandPlatform) -> None:
    """Rule 6: what somebody edits or deletes comes back, and only that is written."""
    platform.repository.commit(
        {"chain.json": chain(platform.group), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    platform.kubectl(
        "patch", "configmap", "one-b", "-n", platform.namespace, "--type=merge", "-p", '{"data":{"text":"by hand"}}'
    )
    platform.kubectl("delete", "configmap", "one-d", "-n", platform.namespace)
    since = platform.audit.mark()
    platform.run_once()
    records = {f"source-{platform.name}", f"rollout-chains.{platform.group}"}
    assert set(order(platform.writes(since), "patch", "configmaps")) - records == {"one-b", "one-d"}
    assert (
        platform.kubectl("get", "configmap", "one-b", "-n", platform.namespace, "-o", "jsonpath={.data.text}") == "one"
    )


def test_a_secret_follows_its_values_without_telling_them(platform: CommandPlatform) -> None:
    """I10: what is written about a Secret is no function of its values; a changed value is still found, and a quiet one left alone."""

    def secret(value: str) -> str:
        metadata = {"name": "token", "namespace": platform.namespace}
        return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": value}})

    def read(path: str) -> str:
        return platform.kubectl("get", "secret", "token", "-n", platform.namespace, "-o", f"jsonpath={{{path}}}")

    platform.repository.commit({"secret.json": secret("first-canary")})
    assert "canary" not in platform.run_once("--verbose").stdout
    before = read(r".metadata.annotations.internal\.levelgate\.dev/hash")
    quiet = platform.audit.mark()
    platform.run_once()
    assert platform.writes(quiet) == []
    platform.repository.commit({"secret.json": secret("second-canary")})
    platform.run_once()
    assert read(".data.token") == "c2Vjb25kLWNhbmFyeQ=="
    assert read(r".metadata.annotations.internal\.levelgate\.dev/hash") == before
    platform.kubectl(
        "patch", "secret", "token", "-n", platform.namespace, "--type=merge", "-p", '{"stringData":{"token":"by hand"}}'
    )
    platform.run_once()
    assert read(".data.token") == "c2Vjb25kLWNhbmFyeQ=="


@pytest.mark.both_servers
def test_what_a_server_quotes_of_a_secret_is_told_nowhere(platform: CommandPlatform) -> None:
    """I10: a label that was copied from a Secret is refused; the words of the refusal are told, the value is not."""
    canary = "c4nary of a password!"
    copied = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "copy", "labels": {"of": "${string(secret.data.password)}"}},
    }
    reference = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
    schema = {"apiVersion": "v1", "kind": "Quoting", "group": platform.group, "spec": {}}
    resources = [{"id": "secret", "externalRef": reference}, {"id": "copy", "template": copied}]
    metadata = {"name": f"quotings.{platform.group}"}
    definition = {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": metadata,
        "spec": {"schema": schema, "resources": resources},
    }
    instance = {
        "apiVersion": f"{platform.group}/v1",
        "kind": "Quoting",
        "metadata": {"name": "one", "namespace": platform.namespace},
        "spec": {},
    }
    secret = json.dumps(
        {**reference, "metadata": {"name": "db", "namespace": platform.namespace}, "stringData": {"password": canary}}
    )
    platform.kubectl("apply", "-f", "-", stdin=secret)
    platform.repository.commit({"quoting.json": json.dumps(definition), "one.json": json.dumps(instance)})
    done = platform.run_once("--verbose", check=1)
    shown = platform.levelgate("explain", f"quoting.{platform.group}/one", "-n", platform.namespace).stdout
    told = platform.kubectl("get", f"quotings.{platform.group},events,configmaps", "-A", "-o", "json")
    assert "(value of Secret" in done.stdout + done.stderr
    assert f"(value of Secret {platform.namespace}/db)" in told
    assert canary not in done.stdout + done.stderr + shown + told


@pytest.mark.both_servers
def test_the_tree_of_an_instance_shows_its_members_by_level(platform: CommandPlatform) -> None:
    """docs/reference.md: from the cluster alone; a kind is named as kubectl would, and what does not exist is said."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    shown = platform.levelgate("tree", f"chain.{platform.group}/one", "-n", platform.namespace, check=0).stdout
    rows = [line.split() for line in shown.splitlines()[2:]]
    place = platform.namespace
    assert [row[:4] for row in rows[1:]] == [
        ["1", "Chain", f"{place}/one", "Current"],
        ["0", "ConfigMap", f"{place}/one-a", "a"],
        ["1", "ConfigMap", f"{place}/one-b", "b"],
    ]
    source = json.loads(platform.levelgate("tree", "source", platform.name, "-o", "json", check=0).stdout)
    assert [member["kind"] for member in source["members"]] == ["CustomResourceDefinition", "Chain"]
    assert [member["name"] for member in source["members"][1]["members"]] == ["one-a", "one-b"]
    absent = platform.levelgate("tree", f"chain.{platform.group}/nosuch", "-n", platform.namespace, check=1)
    assert "does not exist" in absent.stderr
    unknown = platform.levelgate("tree", "nosuchkind/one", check=1)
    assert "serves no kind 'nosuchkind'" in unknown.stderr


@pytest.mark.both_servers
def test_the_pairs_of_a_first_deployment_are_stored_together(platform: CommandPlatform) -> None:
    """Not with a request for each instance; a change of one costs one more, and what changes nothing none."""
    count = 250
    files = {f"i{number:03}.json": link(platform.group, platform.namespace, f"i{number:03}") for number in range(count)}
    platform.repository.commit({"chain.json": chain(platform.group, "a"), **files})
    platform.run_once()
    packs = stored_pairs(platform)
    assert sorted(map(len, packs.values())) == [50, 100, 100]
    assert len(set().union(*packs.values())) == count
    platform.run_once()
    assert stored_pairs(platform) == packs
    platform.repository.commit({"i007.json": link(platform.group, platform.namespace, "i007", text="two")})
    platform.run_once()
    after = stored_pairs(platform)
    assert packs.items() <= after.items()
    [added] = [names for name, names in after.items() if name not in packs]
    assert [name.rpartition("/")[2] for name in added] == ["i007"]


def stored_pairs(platform: CommandPlatform) -> dict[str, list[str]]:
    """The instances of each record of applied pairs of this platform."""
    selector = ("-l", "internal.levelgate.dev/record=applied", "-o", "json")
    found = json.loads(platform.kubectl("get", "controllerrevisions", "-n", "levelgate-system", *selector))["items"]
    indexes = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in found}
    return {
        name: sorted(json.loads(annotations["internal.levelgate.dev/index"]))
        for name, annotations in indexes.items()
        if annotations["internal.levelgate.dev/source"] == platform.name
    }
