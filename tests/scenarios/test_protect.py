"""Broken input never opens and never removes; what goes wrong in one place costs only that place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link
from tests.support.git.repository import Repository

BROKEN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [unclosed\n"


def names(platform: CommandPlatform) -> set[str]:
    """ConfigMaps of the test's namespace that are members of a set."""
    found = platform.kubectl(
        "get", "configmaps", "-n", platform.namespace, "-l", "applyset.kubernetes.io/part-of", "-o", "name"
    )
    return {line.removeprefix("configmap/") for line in found.split()}


def state(platform: CommandPlatform, name: str) -> str:
    return platform.kubectl(
        "get", f"chains.{platform.group}", name, "-n", platform.namespace, "-o", "jsonpath={.status.state}"
    )


def text(platform: CommandPlatform, name: str) -> str:
    return platform.kubectl("get", "configmap", name, "-n", platform.namespace, "-o", "jsonpath={.data.text}")


def test_one_broken_instance_file_among_five_leaves_four_at_work_and_removes_nothing(platform: CommandPlatform) -> None:
    """S1-23, rule 8: the broken file's instance stays as it is, the others move on at once, also after a restart."""
    instances = {
        f"{name}.json": link(platform.group, platform.namespace, name)
        for name in ("one", "two", "three", "four", "five")
    }
    platform.repository.commit({"chain.json": chain(platform.group, "ab"), **instances})
    platform.run_once()
    changed = {file: content.replace('"spec": {}', '"spec": {"text": "new"}') for file, content in instances.items()}
    platform.repository.commit({**changed, "three.json": BROKEN})
    since = platform.audit.mark()
    broken = platform.run_once(check=1)
    assert "three.json:" in broken.stdout
    again = platform.run_once(check=1)
    assert "three.json:" in again.stdout
    assert [event for event in platform.writes(since) if event.verb == "delete"] == []
    assert {name: text(platform, f"{name}-b") for name in ("one", "two", "three", "four", "five")} == {
        "one": "new",
        "two": "new",
        "three": "one",
        "four": "new",
        "five": "new",
    }


@pytest.mark.both_servers
def test_an_instance_file_that_was_renamed_while_broken_is_not_removed_from_git(platform: CommandPlatform) -> None:
    """A member whose file is gone is no orphan while some file of the commit cannot be read: it may have moved there."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "old.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    platform.repository.commit({"old.json": None, "new.json": BROKEN})
    platform.run_once(check=1)
    assert names(platform) == {"one-a", "one-b"}
    platform.repository.commit({"new.json": link(platform.group, platform.namespace, text="moved")})
    platform.run_once()
    assert text(platform, "one-b") == "moved"
    platform.repository.commit({"new.json": None})
    platform.run_once()
    assert names(platform) == set()


@pytest.mark.both_servers
def test_a_broken_definition_strands_and_loses_no_instance(platform: CommandPlatform) -> None:
    """S0-3, S1-23: its last revision serves on, also for an instance that changes or goes; the commit's mistake is reported."""
    other = chain(platform.group, "xy", kind="Other")
    files = {
        "chain.json": chain(platform.group, "ab"),
        "one.json": link(platform.group, platform.namespace),
        "gone.json": link(platform.group, platform.namespace, "gone"),
        "other.json": other,
        "two.json": link(platform.group, platform.namespace, "two", kind="Other"),
    }
    platform.repository.commit(files)
    platform.run_once()
    circle = chain(platform.group, "ab").replace('"reads": "nothing"', '"reads": "${b.metadata.name}"')
    changed = link(platform.group, platform.namespace, "two", kind="Other", text="new")
    one = link(platform.group, platform.namespace, text="newer")
    platform.repository.commit({"chain.json": circle, "gone.json": None, "two.json": changed, "one.json": one})
    broken = platform.run_once(check=1)
    assert "a -> b -> a" in broken.stdout
    assert names(platform) == {"one-a", "one-b", "two-x", "two-y"}
    assert (text(platform, "one-b"), text(platform, "two-y")) == ("newer", "new")
    columns = platform.kubectl("get", f"chains.{platform.group}", "-n", platform.namespace, "--no-headers").split()
    assert columns[:6] == ["one", "ACTIVE", "True", "True", "1", "Settled"]


def test_a_missing_definition_strands_and_loses_no_instance(platform: CommandPlatform) -> None:
    """The instance is never applied as a plain object, its children stay, and deleting it still prunes them."""
    plain = config_map(platform.namespace, "plain", key="value")
    files = {
        "chain.json": chain(platform.group, "ab"),
        "one.json": link(platform.group, platform.namespace),
        "plain.json": plain,
    }
    platform.repository.commit(files)
    platform.run_once()
    platform.repository.commit({"chain.json": None, "one.json": link(platform.group, platform.namespace, text="new")})
    since = platform.audit.mark()
    missing = platform.run_once(check=1)
    assert "is not in Git" in missing.stdout
    assert [event for event in platform.writes(since) if event.verb == "delete"] == []
    assert text(platform, "one-b") == "one"
    platform.kubectl("delete", "configmap", "one-b", "-n", platform.namespace)
    platform.run_once(check=1)
    assert text(platform, "one-b") == "one", "healed from the revision and the spec that were applied last"
    platform.repository.commit({"one.json": None})
    platform.run_once()
    assert names(platform) == {"plain"}
    assert platform.kubectl("get", f"chains.{platform.group}", "-n", platform.namespace, "-o", "name") == ""
    assert platform.kubectl("get", "crd", f"chains.{platform.group}", "-o", "name"), "a CRD is released, not deleted"


@pytest.mark.both_servers
def test_an_instance_deleted_by_hand_comes_back_with_its_children_untouched(platform: CommandPlatform) -> None:
    """Its owner still wants it: the children are not pruned and not rewritten, the new object adopts them by the same id."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    before = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "jsonpath={.items[*].metadata.uid}")
    first = platform.kubectl(
        "get", f"chains.{platform.group}", "one", "-n", platform.namespace, "-o", "jsonpath={.metadata.uid}"
    )
    platform.kubectl("delete", f"chains.{platform.group}", "one", "-n", platform.namespace, "--wait=false")
    platform.run_once(wait="2m")
    second = platform.kubectl(
        "get", f"chains.{platform.group}", "one", "-n", platform.namespace, "-o", "jsonpath={.metadata.uid}"
    )
    assert first != second
    after = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "jsonpath={.items[*].metadata.uid}")
    assert before == after
    platform.repository.commit({"one.json": None})
    platform.run_once()
    assert names(platform) == set()


@pytest.mark.both_servers
def test_a_vanished_path_deletes_nothing(platform: CommandPlatform) -> None:
    """Rule 12: an empty or vanished path is held."""
    platform.repository.commit({"apps/plain.json": config_map(platform.namespace, "plain", key="value")})
    platform.run_once("--path", "apps")
    platform.repository.commit({"apps/plain.json": None})
    held = platform.run_once("--path", "apps")
    assert "does not exist in commit" in held.stdout
    platform.repository.commit({"apps/plain.yaml": "# moved to another repository"})
    held = platform.run_once("--path", "apps", "--fail-on-held", check=3)
    assert "holds no object at all" in held.stdout
    assert names(platform) == {"plain"}


def test_objects_of_others_are_never_taken(platform: CommandPlatform) -> None:
    """I2: an object that exists and is not ours is a conflict that names it; it survives unchanged, the rest goes on."""
    platform.kubectl("create", "configmap", "theirs", "-n", platform.namespace, "--from-literal=text=theirs")
    files = {
        name: config_map(platform.namespace, name.removesuffix(".json"), text="ours")
        for name in ("theirs.json", "ours.json")
    }
    platform.repository.commit(files)
    conflict = platform.run_once(check=1)
    assert "Conflict" in conflict.stdout
    assert "not managed by Levelgate" in conflict.stdout
    assert names(platform) == {"ours"}
    assert text(platform, "theirs") == "theirs"
    platform.repository.commit({"theirs.json": None})
    platform.run_once()
    assert text(platform, "theirs") == "theirs"


def test_a_forged_label_does_not_make_an_object_ours(platform: CommandPlatform) -> None:
    """Anybody may add our label to an object; only what we applied ourselves is ever deleted."""
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", key="value")})
    platform.run_once()
    label = platform.kubectl("get", "configmap", "plain", "-n", platform.namespace, "-o", "json")
    mark = json.loads(label)["metadata"]["labels"]["applyset.kubernetes.io/part-of"]
    platform.kubectl("create", "configmap", "bystander", "-n", platform.namespace)
    platform.kubectl(
        "label", "configmap", "bystander", "-n", platform.namespace, f"applyset.kubernetes.io/part-of={mark}"
    )
    found = platform.run_once(check=None)
    assert "bystander" in found.stdout
    assert names(platform) == {"plain", "bystander"}


def test_a_breaking_change_of_a_definition_is_refused_unless_it_is_allowed(platform: CommandPlatform) -> None:
    """kro's compatibility guard: the CRD and the instances stay; the annotation on the definition allows it."""
    definition = chain(platform.group, "ab")
    platform.repository.commit({"chain.json": definition, "one.json": link(platform.group, platform.namespace)})
    platform.run_once()
    breaking = definition.replace('"text": "string | default=one"', '"text": "string | default=one maxLength=5"')
    platform.repository.commit({"chain.json": breaking})
    since = platform.audit.mark()
    refused = platform.run_once(check=1)
    assert "kro.run/allow-breaking-changes" in refused.stdout
    assert [event.resource for event in platform.writes(since) if event.resource == "customresourcedefinitions"] == []
    annotated = '"metadata": {"annotations": {"kro.run/allow-breaking-changes": "true"}, "name": "chains'
    allowed = breaking.replace('"metadata": {"name": "chains', annotated, 1)
    platform.repository.commit({"chain.json": allowed})
    platform.run_once()
    schema = platform.kubectl(
        "get", "crd", f"chains.{platform.group}", "-o", "jsonpath={..properties.spec.properties.text.maxLength}"
    )
    assert schema == "5"


@pytest.mark.both_servers
def test_a_definition_that_breaks_while_it_has_no_instances_keeps_its_crd(platform: CommandPlatform) -> None:
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "plain.json": config_map(platform.namespace, "plain", a="b")}
    )
    platform.run_once()
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab").replace("string | default", "strin | default")}
    )
    broken = platform.run_once(check=1)
    assert "strin" in broken.stdout
    labels = platform.kubectl("get", "crd", f"chains.{platform.group}", "-o", "jsonpath={.metadata.labels}")
    assert "applyset.kubernetes.io/part-of" in labels


@pytest.mark.both_servers
def test_annotations_on_the_live_object_stop_a_deletion_and_a_write(platform: CommandPlatform) -> None:
    """docs/reference.md: `prune: disabled` and `reconcile: disabled` are read from the live object, so kubectl can set them."""
    files = {f"{name}.json": config_map(platform.namespace, name, text="one") for name in ("kept", "frozen", "other")}
    platform.repository.commit(files)
    platform.run_once()
    platform.kubectl("annotate", "configmap", "kept", "-n", platform.namespace, "levelgate.dev/prune=disabled")
    platform.kubectl("annotate", "configmap", "frozen", "-n", platform.namespace, "levelgate.dev/reconcile=disabled")
    platform.repository.commit({"kept.json": None, "frozen.json": config_map(platform.namespace, "frozen", text="two")})
    held = platform.run_once(check=None)
    assert "levelgate.dev/prune: disabled" in held.stdout
    assert names(platform) == {"kept", "frozen", "other"}
    assert text(platform, "frozen") == "one"
    platform.kubectl("annotate", "configmap", "kept", "-n", platform.namespace, "levelgate.dev/prune-")
    platform.kubectl("annotate", "configmap", "frozen", "-n", platform.namespace, "levelgate.dev/reconcile-")
    platform.run_once()
    assert names(platform) == {"frozen", "other"}
    assert text(platform, "frozen") == "two"


def test_a_namespace_is_deleted_only_where_that_is_allowed_and_nothing_foreign_is_in_it(
    platform: CommandPlatform,
) -> None:
    """`levelgate.dev/prune: allowed` on the live object, and a list of everything under it first."""
    space = f"{platform.namespace}-z"
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": space, "annotations": {"levelgate.dev/prune": "allowed"}},
    }
    plain = config_map(platform.namespace, "plain", a="b")
    platform.repository.commit(
        {"space.json": json.dumps(namespace), "inside.json": config_map(space, "inside", a="b"), "plain.json": plain}
    )
    platform.run_once()
    platform.kubectl("create", "configmap", "foreign", "-n", space)
    platform.repository.commit({"space.json": None, "inside.json": None})
    since = platform.audit.mark()
    held = platform.run_once(check=1)
    assert "still contains ConfigMap/" in held.stdout
    assert "foreign" in platform.kubectl("get", "configmaps", "-n", space, "-o", "name")
    platform.kubectl("delete", "configmap", "foreign", "-n", space)
    platform.run_once(wait="2m")
    deleted = [(event.resource, event.name) for event in platform.writes(since) if event.verb == "delete"]
    assert deleted == [("configmaps", "inside"), ("namespaces", space)]
    assert platform.kubectl("get", "namespace", space, "--ignore-not-found", "-o", "name") == ""


@pytest.mark.both_servers
def test_a_set_that_another_tool_took_over_is_left_alone_until_it_is_handed_back(platform: CommandPlatform) -> None:
    """KEP-3659: the tooling annotation names who may write a set; kubectl's takeover is a person's word."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    instance = (f"chains.{platform.group}", "one", "-n", platform.namespace)
    platform.kubectl("annotate", *instance, "--overwrite", "applyset.kubernetes.io/tooling=kubectl/v1.36.0")
    platform.repository.commit({"one.json": link(platform.group, platform.namespace, text="two")})
    foreign = platform.run_once(check=1)
    assert "managed by tooling 'kubectl'" in foreign.stdout
    assert text(platform, "one-b") == "one"
    platform.kubectl("annotate", *instance, "--overwrite", "applyset.kubernetes.io/tooling=levelgate/v0")
    platform.run_once()
    assert text(platform, "one-b") == "two"


@pytest.mark.both_servers
def test_kubectl_finds_every_member_by_the_id_of_its_parent(platform: CommandPlatform) -> None:
    """KEP-3659: `id` on the parent, `part-of` on the members, and group-kinds as kubectl reads them."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    found = platform.kubectl("get", f"chains.{platform.group}", "one", "-n", platform.namespace, "-o", "json")
    metadata = json.loads(found)["metadata"]
    mark = metadata["labels"]["applyset.kubernetes.io/id"]
    members = platform.kubectl(
        "get", "configmaps", "-n", platform.namespace, "-l", f"applyset.kubernetes.io/part-of={mark}", "-o", "name"
    )
    assert set(members.split()) == {"configmap/one-a", "configmap/one-b"}
    assert metadata["annotations"]["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap"


@pytest.mark.both_servers
def test_many_deletions_at_once_wait_for_a_person(platform: CommandPlatform) -> None:
    """Sources: more than 5 and more than 20 % is held; the approval names the commit, so it lapses with the next one."""
    files = {f"{number}.json": config_map(platform.namespace, f"cm-{number}", a="b") for number in range(8)}
    platform.repository.commit(files)
    platform.run_once()
    commit = platform.repository.commit(dict.fromkeys(list(files)[:7]))
    held = platform.run_once()
    assert "7 of 8 objects would be deleted" in held.stdout
    assert "held 1" in held.stdout
    assert len(names(platform)) == 8
    source = ("configmap", f"source-{platform.name}", "-n", "levelgate-system")
    platform.kubectl("annotate", *source, f"levelgate.dev/approved-commit={commit}")
    platform.run_once()
    assert names(platform) == {"cm-7"}


def test_what_stays_because_another_object_cannot_be_written_says_so(platform: CommandPlatform) -> None:
    """S0-10, rule 10: one object that is refused keeps what Git no longer wants of its kind; every command names it, and who keeps it."""
    platform.repository.commit({"old.json": config_map(platform.namespace, "old", a="b")})
    platform.run_once()
    platform.repository.commit({"old.json": None, "new.json": config_map(platform.namespace, "new", **{"no key": "b"})})
    told = f"no longer in Git; the object stays until Levelgate writes ConfigMap/{platform.namespace}/new"
    before = platform.levelgate("plan", str(platform.repository.path), "--source", platform.name)
    assert "0 to delete" in before.stdout
    assert told in " ".join(before.stdout.split())
    assert told in platform.run_once(check=1).stdout
    for command in (
        ("status", "-o", "wide"),
        ("explain", "configmap/old", "-n", platform.namespace),
        ("tree", f"source/{platform.name}"),
    ):
        shown = platform.levelgate(*command).stdout
        assert told in " ".join(shown.split()), shown
    platform.repository.commit({"new.json": config_map(platform.namespace, "new", a="b")})
    platform.run_once()
    assert names(platform) == {"new"}


@pytest.mark.both_servers
def test_an_approval_counts_for_the_path_that_it_was_given_for(platform: CommandPlatform) -> None:
    """Rule 12: below another path the same commit deletes other objects, which nobody has agreed to; also in the passes after that."""
    apps = {f"apps/{number}.json": config_map(platform.namespace, f"app-{number}", a="b") for number in range(14)}
    platform.repository.commit({**apps, "other/plain.json": config_map(platform.namespace, "plain", a="b")})
    platform.run_once("--path", "apps")
    commit = platform.repository.commit(dict.fromkeys(list(apps)[:7]))
    platform.run_once("--path", "apps")
    platform.levelgate("approve", f"source/{platform.name}", "--commit", commit, check=0)
    platform.run_once("--path", "apps")
    assert names(platform) == {f"app-{number}" for number in range(7, 14)}
    for _ in range(2):
        held = platform.run_once("--path", "other")
        assert "7 of 8 objects would be deleted" in held.stdout
    platform.levelgate("approve", f"source/{platform.name}", "--commit", commit, check=0)
    platform.run_once("--path", "other")
    assert names(platform) == {"plain"}


@pytest.mark.both_servers
def test_another_repository_under_the_same_name_deletes_nothing_unasked(
    platform: CommandPlatform, tmp_path: Path
) -> None:
    """The name is a source's identity; a second repository called the same must not sweep away the first one's platform."""
    platform.repository.commit(
        {f"{number}.json": config_map(platform.namespace, f"cm-{number}", a="b") for number in range(8)}
    )
    platform.run_once()
    other = Repository.create(tmp_path / "other")
    other.commit({"plain.json": config_map(platform.namespace, "plain", a="b")})
    held = platform.levelgate("run", "--source", f"{platform.name}={other.path}", "--once", "--wait", "0s", check=0)
    assert "8 of 9 objects would be deleted" in held.stdout
    assert len(names(platform)) == 9


@pytest.mark.both_servers
def test_an_object_that_two_sets_want_stays_with_the_one_that_has_it(platform: CommandPlatform) -> None:
    """No theft between instances, in whatever order they come; both are told."""
    definition = chain(platform.group, "ab").replace("${schema.metadata.name}-", "shared-")
    platform.repository.commit(
        {"chain.json": definition, "z.json": link(platform.group, platform.namespace, "z", text="first")}
    )
    platform.run_once()
    platform.repository.commit({"a.json": link(platform.group, platform.namespace, "a", text="second")})
    refused = platform.run_once(check=1)
    assert "OwnedElsewhere" in refused.stdout
    assert text(platform, "shared-b") == "first"
    assert state(platform, "z") == "ACTIVE"
    assert state(platform, "a") == "ERROR"


@pytest.mark.both_servers
def test_a_window_that_cannot_be_read_closes_its_source(platform: CommandPlatform) -> None:
    """Rule 6: a gate is fail-closed."""
    window = {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "PropagationWindow",
        "metadata": {"name": "freeze"},
        "spec": {"kind": "Deny"},
    }
    platform.repository.commit(
        {"plain.json": config_map(platform.namespace, "plain", a="b"), "window.json": json.dumps(window)}
    )
    closed = platform.run_once(check=1)
    assert "freeze (window.json:1) cannot be read" in closed.stdout
    assert "spec.timeZone" in closed.stdout + closed.stderr
    assert names(platform) == set()


def test_where_a_crd_is_deleted_by_hand_the_children_of_its_instances_stay(platform: CommandPlatform) -> None:
    """Its instances go with it, once their scope is on record. It is said to come back, and who asks for an instance is led to its source."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    before = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "jsonpath={.items[*].metadata.uid}")
    platform.kubectl("delete", "crd", f"chains.{platform.group}", "--wait=false")
    assert "Levelgate creates it again after the deletion" in platform.run_once(check=3).stdout
    asked = platform.levelgate("explain", f"chain.{platform.group}/one", "-n", platform.namespace, check=1).stderr
    assert f"levelgate explain source/{platform.name}" in asked
    after = platform.kubectl("get", "configmaps", "-n", platform.namespace, "-o", "jsonpath={.items[*].metadata.uid}")
    assert before == after


@pytest.mark.both_servers
def test_a_source_whose_record_was_deleted_finds_its_members_again(platform: CommandPlatform) -> None:
    """Sets: a parent that is gone is rebuilt from a list of everything, so that what left Git meanwhile is still found."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "old", "namespace": platform.namespace},
        "stringData": {"a": "b"},
    }
    files = {"plain.json": config_map(platform.namespace, "plain", a="b"), "secret.json": json.dumps(secret)}
    platform.repository.commit(files)
    platform.run_once()
    platform.kubectl("delete", "configmap", f"source-{platform.name}", "-n", "levelgate-system")
    platform.repository.commit({"secret.json": None})
    platform.run_once()
    assert platform.kubectl("get", "secret", "old", "-n", platform.namespace, "--ignore-not-found", "-o", "name") == ""
    assert names(platform) == {"plain"}


def test_an_instance_that_is_not_in_git_is_told_so_once_and_left_alone(platform: CommandPlatform) -> None:
    """One catalog: a custom resource that no source and no parent wants is not reconciled."""
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    platform.run_once()
    platform.kubectl("create", "-f", "-", stdin=link(platform.group, platform.namespace, "stray"))
    platform.run_once()
    status = json.loads(
        platform.kubectl("get", f"chains.{platform.group}", "stray", "-n", platform.namespace, "-o", "json")
    )["status"]
    assert [(condition["type"], condition["status"], condition["reason"]) for condition in status["conditions"]] == [
        ("InstanceManaged", "False", "NotInGit")
    ]
    quiet = platform.audit.mark()
    platform.run_once()
    assert platform.writes(quiet) == []
    assert names(platform) == {"one-a", "one-b"}


@pytest.mark.both_servers
def test_children_of_an_instance_stay_where_its_deletion_policy_says_so(platform: CommandPlatform) -> None:
    """`deletion-policy: orphan`: the instance goes, its children lose our marks and nothing else; in Git again, they are taken up again."""
    orphaned = json.loads(link(platform.group, platform.namespace))
    orphaned["metadata"]["annotations"] = {"levelgate.dev/deletion-policy": "orphan"}
    platform.repository.commit({"chain.json": chain(platform.group, "ab"), "one.json": json.dumps(orphaned)})
    platform.run_once()
    assert names(platform) == {"one-a", "one-b"}
    platform.repository.commit({"one.json": None})
    platform.run_once(wait="2m")
    gone = platform.kubectl("get", f"chains.{platform.group}", "one", "-n", platform.namespace, check=False)
    assert "NotFound" in gone
    child = json.loads(platform.kubectl("get", "configmap", "one-a", "-n", platform.namespace, "-o", "json"))
    assert child["data"]["text"] == "one"
    assert "levelgate" not in json.dumps(child["metadata"].get("annotations", {}))
    assert names(platform) == set()
    platform.repository.commit({"one.json": json.dumps(orphaned)})
    platform.run_once()
    assert names(platform) == {"one-a", "one-b"}
