"""Does a live object still hold our intent? Asked of a real API server for many kinds.

This is the proof that a steady state sends no write, and that no change of what we applied goes unseen.
"""

import copy
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from applier.cluster import Object
from applier.errors import Invalid, KindNotServed
from applier.kube import connect
from applier.kube.cluster import KubeCluster
from applier.state.field_conflicts import ConflictPolicy
from applier.state.managed_fields import LostField, Ownership, compare_ownership, is_fully_owned, owned_metadata
from renderer.identity import ObjectKey, group_kind
from tests.support import objects
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.kubectl import Kubectl

MANAGER = "levelgate"
HELD = Ownership()
KINDS = sorted(objects.builtins("x"))


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[KubeCluster]:
    cluster = await connect(kubeconfig=str(kubeconfig))
    yield cluster
    await cluster.close()


def holds(live: Object, intent: Object, manager: str) -> bool:
    """Whether `manager`'s last apply is known and nothing of `intent` is lost; the quick yes never says more."""
    found = compare_ownership(live, intent, manager)
    held = found is not None and not found.lost
    assert held or not is_fully_owned(live, intent, manager)
    return held


async def read(cluster: KubeCluster, manifest: Object) -> Object:
    live = await cluster.get(ObjectKey.from_manifest(manifest))
    assert live is not None
    return live


async def other(cluster: KubeCluster, manifest: Object, *, manager: str = "editor", **content: Any) -> None:
    """Another manager's forced apply of `content` to the same object."""
    identity = {name: manifest["metadata"][name] for name in ("name", "namespace") if name in manifest["metadata"]}
    metadata = identity | content.pop("metadata", {})
    base = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata}
    await cluster.apply(base | content, manager=manager, force=True)


async def things(cluster: KubeCluster, namespace: str) -> Object:
    """A custom resource of a definition of its own, applied."""
    group = f"{namespace}.example.org"
    await cluster.apply(objects.definition(group), manager=MANAGER)
    manifest = objects.thing(group, {"name": "t", "namespace": namespace})
    for _ in range(1000):
        try:
            await cluster.apply(manifest, manager=MANAGER)
            return manifest
        except KindNotServed:
            continue
    raise AssertionError("the definition was never served")


@pytest.mark.parametrize("kind", KINDS)
async def test_what_nobody_changed_holds(cluster: KubeCluster, namespace: str, kind: str) -> None:
    manifest = objects.builtins(namespace)[kind]
    await cluster.apply(manifest, manager=MANAGER)
    assert compare_ownership(await read(cluster, manifest), manifest, MANAGER) == HELD
    # The server itself is not as quiet: Jobs and claims are written once more by a second, equal apply.
    second = await cluster.apply(manifest, manager=MANAGER)
    third = await cluster.apply(manifest, manager=MANAGER)
    assert third["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert compare_ownership(third, manifest, MANAGER) == HELD


async def test_custom_resources_and_their_definition_hold(cluster: KubeCluster, namespace: str) -> None:
    manifest = await things(cluster, namespace)
    assert compare_ownership(await read(cluster, manifest), manifest, MANAGER) == HELD
    definition = objects.definition(f"{namespace}.example.org")
    assert compare_ownership(await read(cluster, definition), definition, MANAGER) == HELD


@pytest.mark.parametrize("kind", ["ConfigMap", "Role", "Service", "metadata"])
async def test_what_others_add_or_repeat_is_no_loss(cluster: KubeCluster, namespace: str, kind: str) -> None:
    manifest = objects.builtins(namespace)[kind]
    await cluster.apply(manifest, manager=MANAGER)
    added = {
        "labels": {"theirs": "1"},
        "annotations": {"example.org/theirs": "1"},
        "finalizers": ["example.org/theirs"],
    }
    await other(cluster, manifest, metadata=added)
    copied = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata")}
    await other(cluster, manifest, manager="copycat", **copied)
    assert compare_ownership(await read(cluster, manifest), manifest, MANAGER) == HELD


async def test_a_repetition_takes_only_what_the_server_writes_differently(cluster: KubeCluster, namespace: str) -> None:
    """Of values that are stored in another form, or not at all, an equal forced apply counts as a change."""
    manifest = objects.builtins(namespace)["Deployment"]
    await cluster.apply(manifest, manager=MANAGER)
    await other(cluster, manifest, manager="copycat", spec=manifest["spec"])
    found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
    assert found is not None
    assert {each.owner for each in found.lost} == {"copycat (apply)"}
    assert [each.path for each in found.lost] == [
        ".spec.template.metadata.annotations",
        f'{ENV}[name="EMPTY"].value',
        '.spec.template.spec.containers[name="app"].resources.limits.cpu',
        '.spec.template.spec.containers[name="app"].resources.limits.memory',
        '.spec.template.spec.containers[name="app"].resources.requests.cpu',
    ]


async def test_status_written_by_a_controller_is_no_loss(cluster: KubeCluster, namespace: str) -> None:
    manifest = objects.builtins(namespace)["Deployment"]
    await cluster.apply(manifest, manager=MANAGER)
    status = {name: manifest[name] for name in ("apiVersion", "kind")} | {"status": {"replicas": 2}}
    status["metadata"] = {"name": "d", "namespace": namespace}
    await cluster.apply(status, manager=MANAGER, subresource="status")  # even by a manager of the same name
    assert compare_ownership(await read(cluster, manifest), manifest, MANAGER) == HELD


IMAGE = '.spec.template.spec.containers[name="app"].image'
PORTS = '.spec.template.spec.containers[name="app"].ports'
ENV = '.spec.template.spec.containers[name="app"].env'

EDITS: list[tuple[str, str, list[Any], list[LostField]]] = [
    (
        "another image",
        "deployment/d",
        [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:2"}],
        [LostField(IMAGE, "editor")],
    ),
    (
        "a variable removed",
        "deployment/d",
        [{"op": "remove", "path": "/spec/template/spec/containers/0/env/0"}],
        [LostField(f'{ENV}[name="A"]')],
    ),
    (
        "a quantity",
        "deployment/d",
        [{"op": "replace", "path": "/spec/template/spec/containers/0/resources/limits/cpu", "value": "3"}],
        [LostField('.spec.template.spec.containers[name="app"].resources.limits.cpu', "editor")],
    ),
    (
        "one of two ports that differ by a default",
        "deployment/d",
        [{"op": "remove", "path": "/spec/template/spec/containers/0/ports/0"}],
        [LostField(f"{PORTS}[containerPort=53]")],
    ),
    (
        "a list owned as a whole",
        "deployment/d",
        [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "x"}],
        [LostField('.spec.template.spec.containers[name="app"].args', "editor")],
    ),
    (
        "a container removed",
        "deployment/d",
        [{"op": "remove", "path": "/spec/template/spec/containers/1"}],
        [LostField('.spec.template.spec.containers[name="sidecar"]')],
    ),
    (
        "data",
        "configmap/c",
        [{"op": "replace", "path": "/data/a", "value": "2"}, {"op": "remove", "path": "/binaryData"}],
        [LostField(".data.a", "editor"), LostField(".binaryData")],
    ),
    (
        "a label removed",
        "configmap/m",
        [{"op": "remove", "path": "/metadata/labels"}],
        [LostField(".metadata.labels")],
    ),
    (
        "a finalizer and an owner removed",
        "configmap/m",
        [{"op": "remove", "path": "/metadata/finalizers/0"}, {"op": "remove", "path": "/metadata/ownerReferences"}],
        [LostField('.metadata.finalizers[="example.org/one"]'), LostField(".metadata.ownerReferences")],
    ),
    (
        "a port",
        "service/svc",
        [{"op": "replace", "path": "/spec/ports/2/targetPort", "value": 81}, {"op": "remove", "path": "/spec/ports/3"}],
        [
            LostField('.spec.ports[port=80,protocol="TCP"].targetPort', "editor"),
            LostField(".spec.ports[port=443]"),
        ],
    ),
    (
        "a path",
        "ingress/i",
        [{"op": "replace", "path": "/spec/rules/0/host", "value": "b.example.org"}],
        [LostField(".spec.rules", "editor")],
    ),
]


@pytest.mark.parametrize(("target", "patch", "lost"), [row[1:] for row in EDITS], ids=[row[0] for row in EDITS])
async def test_an_edit_is_seen_and_repaired(
    cluster: KubeCluster, namespace: str, kubectl: Kubectl, target: str, patch: list[Any], lost: list[LostField]
) -> None:
    manifest = _by_target(namespace, target)
    await cluster.apply(manifest, manager=MANAGER)
    edit = ("--type=json", f"--patch={json.dumps(patch)}", "--field-manager=editor")
    kubectl("patch", "--namespace", namespace, target, *edit)
    found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
    assert found is not None
    assert sorted(found.lost, key=str) == sorted(lost, key=str)
    assert not holds(await read(cluster, manifest), manifest, MANAGER)
    await cluster.apply(manifest, manager=MANAGER, force=True)
    assert compare_ownership(await read(cluster, manifest), manifest, MANAGER) == HELD


def _by_target(namespace: str, target: str) -> Object:
    kind, name = target.split("/")
    known = objects.builtins(namespace).values()
    return next(m for m in known if m["kind"].lower() == kind and m["metadata"]["name"] == name)


async def test_an_entry_whose_last_field_was_taken_is_gone(
    cluster: KubeCluster, namespace: str, kubectl: Kubectl
) -> None:
    manifest = objects.builtins(namespace)["Role"]
    await cluster.apply(manifest, manager=MANAGER)
    kubectl("patch", "-n", namespace, "role/r", "--type=json", '--patch=[{"op": "remove", "path": "/rules"}]')
    assert compare_ownership(await read(cluster, manifest), manifest, MANAGER) is None
    assert not holds(await read(cluster, manifest), manifest, MANAGER)


async def test_an_item_whose_key_was_changed_is_another_item(
    cluster: KubeCluster, namespace: str, kubectl: Kubectl
) -> None:
    manifest = objects.builtins(namespace)["Service"]
    await cluster.apply(manifest, manager=MANAGER)
    patch = '[{"op": "replace", "path": "/spec/ports/3/protocol", "value": "SCTP"}]'
    kubectl("patch", "-n", namespace, "service/svc", "--type=json", f"--patch={patch}")
    found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
    assert found == Ownership(lost=(LostField(".spec.ports[port=443]"),))
    with pytest.raises(Invalid, match="Duplicate value"):  # the other item has the name: apply cannot repair this
        await cluster.apply(manifest, manager=MANAGER, force=True)


async def test_kubectl_scale(cluster: KubeCluster, namespace: str, kubectl: Kubectl) -> None:
    manifest = objects.builtins(namespace)["Deployment"]
    await cluster.apply(manifest, manager=MANAGER)
    kubectl("scale", "--namespace", namespace, "deployment/d", "--replicas=2")
    assert holds(await read(cluster, manifest), manifest, MANAGER)  # the same number is no change
    kubectl("scale", "--namespace", namespace, "deployment/d", "--replicas=5")
    found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
    assert found == Ownership(lost=(LostField(".spec.replicas", "kubectl (scale)"),))
    assert [found.lost[0].is_healed_under(policy) for policy in ConflictPolicy] == [False, False, True]


async def test_kubectl_label(cluster: KubeCluster, namespace: str, kubectl: Kubectl) -> None:
    manifest = objects.builtins(namespace)["metadata"]
    await cluster.apply(manifest, manager=MANAGER)
    kubectl("label", "--namespace", namespace, "configmap/m", "--overwrite", "app.kubernetes.io/name=y", "more=z")
    found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
    assert found == Ownership(lost=(LostField(".metadata.labels.app.kubernetes.io/name", "kubectl-label"),))
    kubectl("label", "--namespace", namespace, "configmap/m", "app.kubernetes.io/name-")
    found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
    assert found == Ownership(lost=(LostField(".metadata.labels.app.kubernetes.io/name"),))


async def test_a_change_and_its_reversal_by_others_is_still_a_loss(
    cluster: KubeCluster, namespace: str, kubectl: Kubectl
) -> None:
    manifest = objects.builtins(namespace)["ConfigMap"]
    await cluster.apply(manifest, manager=MANAGER)
    for value in ("2", "1"):
        kubectl("patch", "-n", namespace, "configmap/c", "--type=merge", f'--patch={{"data":{{"a":"{value}"}}}}')
    # One write too many, never one too few: the field is theirs, and to remove it from Git would not remove it.
    assert compare_ownership(await read(cluster, manifest), manifest, MANAGER) == Ownership(
        (LostField(".data.a", "kubectl-patch"),)
    )
    again = await cluster.apply(manifest, manager=MANAGER)
    assert compare_ownership(again, manifest, MANAGER) == HELD


async def test_custom_lists_and_maps(cluster: KubeCluster, namespace: str, kubectl: Kubectl) -> None:
    manifest = await things(cluster, namespace)
    live = await read(cluster, manifest)
    spec = live["spec"]
    spec["keyed"][1]["value"] = "changed"
    del spec["keyed"][0]
    spec["set"] = ["y", "z"]
    spec["numbers"] = [2.5]
    spec["atomic"] = ["p"]
    spec["map"].pop("dotted.key/x")
    spec["whole"]["more"] = "x"
    spec["free"]["deep"]["list"][0]["a"] = 2
    spec["either"] = 3
    kubectl("replace", "-f", "-", "--field-manager=editor", stdin=json.dumps(live))
    found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
    assert found is not None
    assert {each.path: each.owner for each in found.lost} == {
        '.spec.keyed[name="a"]': "",
        '.spec.keyed[name="a",port=443].value': "editor",
        '.spec.set[="x"]': "",
        ".spec.numbers[=1]": "",
        ".spec.atomic": "editor",
        ".spec.map.dotted.key/x": "",
        ".spec.whole": "editor",
        ".spec.free.deep.list": "editor",
        ".spec.either": "editor",
    }
    assert found.surplus == ()


def pointers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """JSON pointers (RFC 6901) of all parts of a value, with the parts."""
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        here = f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}"
        yield here, part
        if isinstance(part, dict | list):
            yield from pointers(part, here)


def changed(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case _:
            return None


def without_bookkeeping(obj: Object) -> Object:
    metadata = {
        name: obj["metadata"][name] for name in obj["metadata"] if name in ("labels", "annotations", "finalizers")
    }
    return {name: value for name, value in obj.items() if name != "status"} | {"metadata": metadata}


@pytest.mark.parametrize("kind", ["Deployment", "Service", "Ingress", "Thing"])
async def test_every_single_edit_is_judged_as_the_server_would(
    cluster: KubeCluster, control_plane: ControlPlane, namespace: str, kind: str
) -> None:
    """Each part of the live object is changed and removed in turn. Held means: an apply would change nothing."""
    manifest = await things(cluster, namespace) if kind == "Thing" else objects.builtins(namespace)[kind]
    if kind == "Thing":  # nulls are not looked for
        del manifest["spec"]["maybe"], manifest["spec"]["free"]["deep"]["n"]
        await cluster.apply(manifest, manager=MANAGER)
    if kind == "Deployment":  # fewer parts, for speed
        pod = manifest["spec"]["template"]["spec"]
        manifest["spec"]["template"]["spec"] = {"containers": pod["containers"][:1], "volumes": pod["volumes"]}
    resource = (await cluster.discover()).resources[group_kind(manifest)]
    prefix = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    name = manifest["metadata"]["name"]
    url = f"{prefix}/namespaces/{namespace}/{resource.plural}/{name}?fieldManager=editor"
    original = await cluster.apply(manifest, manager=MANAGER)
    judged = {True: 0, False: 0}
    for pointer, part in list(pointers(original["spec"], "/spec")):
        for operation in ("replace", "remove"):
            edit = {"op": operation, "path": pointer, "value": changed(part)}
            patched = control_plane.request("PATCH", url, [edit], content_type="application/json-patch+json")
            if patched.code != 200:
                continue  # the server does not take this edit
            live = await read(cluster, manifest)
            try:
                repaired = await cluster.apply(manifest, manager=MANAGER, force=True)
            except Invalid:  # no apply can repair it; what counts is that it is seen
                assert not holds(live, manifest, MANAGER), edit
            else:
                same = without_bookkeeping(repaired) == without_bookkeeping(live)
                assert holds(live, manifest, MANAGER) == same, edit
                judged[same] += 1
            restored = {"spec": original["spec"]}
            control_plane.request("PATCH", url, restored, content_type="application/merge-patch+json")
            await cluster.apply(manifest, manager=MANAGER, force=True)
    assert judged[False] > 3


async def test_a_new_version_of_the_api_is_taken_over(cluster: KubeCluster, namespace: str) -> None:
    manifest = objects.builtins(namespace)["HorizontalPodAutoscaler v1"]
    manifest["spec"].pop("targetCPUUtilizationPercentage")
    await cluster.apply(manifest, manager=MANAGER)
    moved = manifest | {"apiVersion": "autoscaling/v2"}
    await cluster.apply(moved, manager=MANAGER)
    live = await read(cluster, manifest)
    assert [entry["apiVersion"] for entry in live["metadata"]["managedFields"]] == ["autoscaling/v2"]
    assert compare_ownership(live, moved, MANAGER) == HELD


async def test_data_written_as_string_data_cannot_be_watched(cluster: KubeCluster, namespace: str) -> None:
    """Why Secrets are to be applied with `data`: the server records `stringData`, which it does not keep."""
    manifest = objects.manifest("v1", "Secret", {"name": "s", "namespace": namespace}, stringData={"a": "x"})
    await cluster.apply(manifest, manager=MANAGER)
    await other(cluster, manifest, data={"a": "eQ=="})
    live = await read(cluster, manifest)
    assert live["data"] == {"a": "eQ=="}
    assert holds(live, manifest, MANAGER)  # and yet its value is another one
    assert not holds(live, manifest | {"data": {"a": "eA=="}}, MANAGER)


async def test_surplus_is_what_an_earlier_intent_had(cluster: KubeCluster, namespace: str) -> None:
    manifest = objects.builtins(namespace)["Deployment"]
    manifest["metadata"]["labels"] = {"old": "1"}
    await cluster.apply(manifest, manager=MANAGER)
    smaller = copy.deepcopy(manifest)
    del smaller["metadata"]["labels"]
    del smaller["spec"]["template"]["spec"]["containers"][1]
    del smaller["spec"]["template"]["spec"]["containers"][0]["ports"][1]
    del smaller["spec"]["replicas"]
    found = compare_ownership(await read(cluster, manifest), smaller, MANAGER)
    assert found == Ownership(
        surplus=(
            f'{PORTS}[containerPort=53,protocol="UDP"]',
            '.spec.template.spec.containers[name="sidecar"]',
            ".spec.replicas",
            ".metadata",
        )
    )
    assert holds(await read(cluster, manifest), smaller, MANAGER)


async def test_empty_lists_of_a_built_in_kind_are_no_loss(
    cluster: KubeCluster, namespace: str, kubectl: Kubectl
) -> None:
    """Built-in kinds store no empty list, and of one whose items have keys nobody is recorded: what others put into it is theirs."""
    manifest = objects.builtins(namespace)["Deployment"]
    pod = manifest["spec"]["template"]["spec"]
    pod |= {"volumes": [], "initContainers": [], "imagePullSecrets": [], "tolerations": []}
    pod["containers"] = [{"name": "app", "image": "nginx", "env": [], "args": [], "ports": [], "volumeMounts": []}]
    await cluster.apply(manifest, manager=MANAGER)
    assert holds(await read(cluster, manifest), manifest, MANAGER)
    edited = await read(cluster, manifest)
    container = edited["spec"]["template"]["spec"]["containers"][0]
    container |= {"env": [{"name": "THEIRS", "value": "1"}], "args": ["theirs"]}
    kubectl("replace", "-f", "-", "--field-manager=editor", stdin=json.dumps(edited))
    found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
    assert found is not None
    assert [str(each) for each in found.lost] == [
        '.spec.template.spec.containers[name="app"].args is changed by editor'
    ]


async def test_empty_lists_of_a_custom_resource_hold_until_somebody_fills_one(
    cluster: KubeCluster, namespace: str, kubectl: Kubectl
) -> None:
    """One whose items had keys is not even stored once they are gone."""
    manifest = await things(cluster, namespace)
    manifest["spec"] |= {"keyed": [], "atomic": []}
    await cluster.apply(manifest, manager=MANAGER, force=True)
    assert holds(await read(cluster, manifest), manifest, MANAGER)
    patch = json.dumps({"spec": {"keyed": [{"name": "theirs"}], "atomic": ["theirs"]}})
    kubectl("patch", "-n", namespace, f"things.{namespace}.example.org/t", "--type=merge", f"--patch={patch}")
    found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
    assert found is not None
    assert [each.path for each in found.lost] == [".spec.atomic"]


def live(fields: Object, *, manager: str = MANAGER, **entry: Any) -> Object:
    ours = {"manager": manager, "operation": "Apply", "fieldsV1": fields} | entry
    return {"metadata": {"managedFields": [ours]}}


@pytest.mark.parametrize(
    "stranger",
    [
        {"metadata": {}},
        {"metadata": {"managedFields": None}},
        live({"f:data": {}}, manager="other"),
        live({"f:data": {}}, operation="Update"),
        live({"f:data": {}}, subresource="status"),
    ],
)
def test_without_our_entry_nothing_is_known(stranger: Object) -> None:
    assert compare_ownership(stranger, {"data": {"a": "1"}}, MANAGER) is None
    assert not holds(stranger, {"data": {"a": "1"}}, MANAGER)


def test_an_empty_entry_owns_nothing() -> None:
    assert compare_ownership(live({}), {"data": {"a": "1"}}, MANAGER) == Ownership((LostField(".data"),))
    assert (
        compare_ownership(live({}), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, MANAGER)
        == HELD
    )


@pytest.mark.parametrize(
    ("intent", "fields", "expected"),
    [
        ([1, 2], {"v:1": {}, "v:2.0": {}}, HELD),
        ([True], {"v:1": {}}, Ownership((LostField(".x[=true]"),), (".x[=1]",))),
        (["a", "a"], {"v:\"a\"": {}}, Ownership((LostField('.x[="a"]'),))),
        (["a", "b"], {"i:0": {}, "i:2": {}}, Ownership((LostField(".x[1]"),), (".x[2]",))),
        ([{"id": 1.0}], {'k:{"id":1}': {".": {}, "f:id": {}}}, HELD),
        ([{"b": 1}], {'k:{"a":"default"}': {".": {}, "f:b": {}}}, HELD),
        (["text"], {'k:{"a":1}': {}}, Ownership((LostField('.x[="text"]'),), (".x[a=1]",))),
        ({}, {".": {}, "f:a": {}}, Ownership(surplus=(".x.a",))),
        ({"a": None}, {"f:a": {}}, HELD),
        ({"a": None}, {".": {}}, HELD),
        ("scalar", {"f:a": {}}, HELD),
        (["a"], {"?:unknown": {}}, Ownership((LostField('.x[="a"]'),), (".unknown",))),
    ],
)  # fmt: skip
def test_shapes_that_are_rare(intent: Any, fields: Object, expected: Ownership) -> None:
    found = compare_ownership(live({"f:x": fields}), {"x": intent}, MANAGER)
    assert found is not None
    assert [each.path for each in found.lost] == [each.path for each in expected.lost]
    assert len(found.surplus) == len(expected.surplus)
    assert not (found.lost and is_fully_owned(live({"f:x": fields}), {"x": intent}, MANAGER))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"f:data": {".": {}, "f:a": {}, "f:b": {}}}, True),
        ({"f:data": {"f:a": {}, "f:b": {}, "f:more": {}}, "f:metadata": {"f:labels": {}}}, True),
        ({"f:data": {"f:a": {}}}, False),
        ({"f:data": {}}, False),
        ({}, False),
    ],
)
def test_the_quick_yes_to_maps_of_scalars(fields: Object, expected: bool) -> None:
    """What we own beyond the intent does not matter; a map without parts takes a closer look."""
    intent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1", "b": "2"}}
    assert is_fully_owned(live(fields), intent, MANAGER) is expected
    assert not is_fully_owned(live(fields, manager="other"), intent, MANAGER)


@pytest.mark.parametrize(("version", "held"), [("g/v1", False), ("g/v2", True)])
def test_what_is_shown_in_another_version_is_not_looked_up(version: str, held: bool) -> None:
    """A field that has another name there is not gone."""
    shown = {**live({"f:spec": {"f:old": {}}}, apiVersion="g/v1"), "apiVersion": version, "spec": {"new": {"a": 1}}}
    assert holds(shown, {"spec": {"old": {"a": 1}}}, MANAGER) is held


async def test_a_free_map_that_lost_all_its_parts(cluster: KubeCluster, namespace: str, kubectl: Kubectl) -> None:
    """Without a schema our entry keeps the bare map, which looks like one that is ours as a whole."""
    manifest = await things(cluster, namespace)
    resource = f"things.{namespace}.example.org/t"
    for free in ("null", "{}", '{"theirs": {"a": 1}}'):
        patch = f'[{{"op": "replace", "path": "/spec/free/deep", "value": {free}}}]'
        kubectl("patch", "-n", namespace, resource, "--type=json", f"--patch={patch}")
        found = compare_ownership(await read(cluster, manifest), manifest, MANAGER)
        assert found is not None
        assert {each.path.removeprefix(".spec.free.deep") for each in found.lost} <= {"", ".list", ".n", ".empty"}
        assert found.lost
        await cluster.apply(manifest, manager=MANAGER, force=True)
        assert compare_ownership(await read(cluster, manifest), manifest, MANAGER) == HELD


def test_several_owners_are_all_named() -> None:
    obj = live({"f:data": {"f:b": {}}})
    obj["metadata"]["managedFields"] += [
        {"manager": "whole", "operation": "Update", "fieldsV1": {"f:data": {}}},
        {"manager": "below", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {"f:c": {}}}}},
        {"manager": "beside", "operation": "Apply", "fieldsV1": {"f:data": {"f:z": {}}}},
        {"manager": "below", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}},
    ]
    found = compare_ownership(obj, {"data": {"a": "1", "b": "2"}}, MANAGER)
    assert found == Ownership((LostField(".data.a", "whole, below (apply), below"),))
    below = compare_ownership(obj, {"data": {"a": {"c": "1", "d": "2"}, "b": "2"}}, MANAGER)
    assert below == Ownership(
        (LostField(".data.a.c", "whole, below (apply), below"), LostField(".data.a.d", "whole, below"))
    )


@pytest.mark.parametrize(
    ("fields", "owned"),
    [
        ({"f:labels": {".": {}, "f:app": {}, "f:a/b": {}}}, ("app", "a/b")),
        ({"f:labels": {}}, ()),
        ({"f:annotations": {"f:app": {}}}, ()),
        ({}, ()),
    ],
    ids=["names", "the whole section", "another section", "nothing"],
)
def test_names_that_an_entry_owns(fields: Object, owned: tuple[str, ...]) -> None:
    assert owned_metadata({"fieldsV1": {"f:metadata": fields}}, "labels") == owned


def test_items_of_a_set_are_names_too() -> None:
    """An entry lists finalizers by value; an entry without fields, and no entry, own nothing."""
    entry: Object = {"fieldsV1": {"f:metadata": {"f:finalizers": {".": {}, 'v:"x.test/y"': {}}}}}
    assert owned_metadata(entry, "finalizers") == ("x.test/y",)
    assert owned_metadata({"manager": "m"}, "finalizers") == owned_metadata(None, "finalizers") == ()
