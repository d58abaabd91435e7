"""Platforms that somebody wrote, on the real API server: every definition builds, every instance becomes ACTIVE (rgd 6, 7.2).

Always `sample-repo`; and every folder below the one that the environment variable LEVELGATE_EXAMPLES names: a checkout of kro's `examples`, say.
CRDs in folders called `crds` are put into the cluster first. Of kinds that nobody describes the test makes CRDs that let everything in.

There are no nodes and no controllers that work: the test writes the status of everything that stands in STATUS.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from renderer.builtin_kinds import load_builtin_schemas
from renderer.catalog.catalog import Catalog, load
from renderer.identity import GroupKind
from renderer.kinds import is_built_in
from renderer.render.render import render
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.kubectl import Kubectl
from tests.support.command_platform import CommandPlatform
from tests.support.git.repository import Repository

EXAMPLES = os.environ.get("LEVELGATE_EXAMPLES", "")
SAMPLE = Path(__file__).parents[2] / "sample-repo"

WHEN = "2026-01-31T08:00:00Z"
RUNNING = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
AVAILABLE = {"conditions": [{"type": "Available", "status": "True"}]}
ACK = {
    "ackResourceMetadata": {"arn": "arn:aws:x", "ownerAccountID": "1", "region": "eu-west-1"},
    "conditions": [{"type": "ACK.ResourceSynced", "status": "True"}],
}
FINISHED = [{"type": name, "status": "True", "lastTransitionTime": WHEN} for name in ("SuccessCriteriaMet", "Complete")]
STATUS: Mapping[str, dict[str, Any]] = {
    "Deployment": {**RUNNING, **AVAILABLE},
    "StatefulSet": {**RUNNING, "currentReplicas": 1, "currentRevision": "r1", "updateRevision": "r1"},
    "Job": {"startTime": WHEN, "completionTime": WHEN, "succeeded": 1, "conditions": FINISHED},
    "Ingress": {"loadBalancer": {"ingress": [{"hostname": "example.com"}]}},
    "VPC": {**ACK, "vpcID": "vpc-1"},
    "Subnet": {**ACK, "subnetID": "subnet-1"},
    "SecurityGroup": {**ACK, "id": "sg-1"},
    "Bucket": ACK,
    "Policy": ACK,
}
MAX_RUNS = 12


def folders() -> list[Path]:
    """Every folder that holds a definition."""
    found = {path.parent for path in Path(EXAMPLES).rglob("*.yaml")} if EXAMPLES else set()
    return [folder for folder in sorted(found) if load(files(folder)).definitions]


def files(folder: Path) -> dict[str, bytes]:
    """What is meant to be applied; not what an end-to-end test expects, or expects to be refused."""
    others = ("assert", "invalid", "chainsaw", "cluster-role", "propagate", "owned")
    paths = folder.rglob("*.yaml") if folder == SAMPLE else folder.glob("*.yaml")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if not any(word in path.name for word in others)
    }


def crds() -> Iterator[dict[str, Any]]:
    for path in Path(EXAMPLES).rglob("crds/**/*.yaml") if EXAMPLES else ():
        yield from filter(None, yaml.safe_load_all(path.read_text()))


def open_crd(kind: GroupKind, version: str) -> dict[str, Any]:
    """A CRD that lets everything in."""
    plural = f"{kind.kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def needed(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """CRDs of the kinds that the definitions use and that the commit does not bring."""
    given = {crd["spec"]["names"]["kind"]: crd for crd in crds()}
    for definition in catalog.definitions.values():
        for node in definition.nodes:
            kind = node.group_kind
            known = (
                load_builtin_schemas().schema(kind.group, node.version, kind.kind) or kind in catalog.types.described
            )
            if not (known or is_built_in(kind)):
                yield given.get(kind.kind) or open_crd(kind, node.version)


def script(platform: CommandPlatform, done: set[tuple[str, int]]) -> None:
    """Play the controllers: write the status of everything that has one, once for each of its generations."""
    for kind, status in STATUS.items():
        found = platform.kubectl("get", kind, "-A", "-o", "json", check=False)
        for item in json.loads(found)["items"] if found.startswith("{") else ():
            metadata = item["metadata"]
            if (generation := (metadata["uid"], metadata["generation"])) in done:
                continue
            done.add(generation)
            count = (item.get("spec") or {}).get("replicas", 1)
            wanted = {name: count if name in RUNNING else value for name, value in status.items()}
            if "replicas" in wanted:
                wanted["observedGeneration"] = metadata["generation"]
            body = json.dumps({"status": wanted})
            where = ("-n", metadata["namespace"], "--subresource=status", "--type=merge", "-p", body)
            platform.kubectl("patch", kind, metadata["name"], *where)


def states(platform: CommandPlatform, catalog: Catalog) -> dict[str, str]:
    """The state of every instance that stands in the commit."""
    found = {}
    for declared in catalog.objects:
        if declared.group_kind in catalog.definitions:
            metadata = declared.manifest["metadata"]
            where = ("-n", metadata.get("namespace", "default"), "-o", "jsonpath={.status.state}")
            found[metadata["name"]] = platform.kubectl("get", str(declared.group_kind), metadata["name"], *where)
    return found


@pytest.fixture
def alone(repository: Repository, tmp_path: Path) -> Iterator[CommandPlatform]:
    """A platform on an API server of its own: examples call their kinds alike."""
    with ControlPlane.start(tmp_path / "server", controllers=()) as server:
        yield CommandPlatform(
            name="examples",
            namespace="default",
            group="kro.run",
            repository=repository,
            kubectl=Kubectl(server.kubeconfig("person"), tmp_path / "kubectl"),
            audit_log=None,
            kubeconfig=server.kubeconfig("levelgate"),
            cache=tmp_path / "cache",
        )


@pytest.mark.cluster
@pytest.mark.parametrize("folder", [SAMPLE, *folders()], ids=lambda folder: folder.name)
def test_instances_become_active(alone: CommandPlatform, folder: Path) -> None:
    """Rgd 6, 7.2, S0-1: definitions as people write them, from files to ACTIVE, without an error on the way."""
    content = files(folder)
    catalog = load(content)
    assert catalog.problems == ()
    for rendered in render([catalog]).instances.values():
        assert [node.error for node in rendered.nodes if node.error] == []
    for crd in needed(catalog):
        alone.kubectl("apply", "-f", "-", stdin=json.dumps(crd))
    alone.repository.commit({name: text.decode() for name, text in content.items()})
    done: set[tuple[str, int]] = set()
    for _ in range(MAX_RUNS):
        alone.run_once(check=None)
        found = states(alone, catalog)
        if set(found.values()) == {"ACTIVE"}:
            break
        script(alone, done)
    assert found
    assert set(found.values()) == {"ACTIVE"}, f"{found}\n{alone.levelgate('status').stdout}"
