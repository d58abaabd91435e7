"""A hub and its clusters for scenarios: a real repository, the real command, real clusters watched through their audit logs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from renderer import well_known
from tests.support.cluster.audit import AuditEvent, AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.scenario_server import new_namespace, of_real
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link
from tests.support.git.repository import Repository
from tests.support.platform import OWN

REGIONS = {"c0": "eu", "c1": "us", "c2": "us"}


def document(kind: str, name: str, spec: Mapping[str, Any], **labels: str) -> str:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return json.dumps({"apiVersion": "levelgate.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})


def cluster(name: str, access: Mapping[str, Any] | None = None, **spec: Any) -> str:
    region = REGIONS.get(name, "eu")
    return document("Cluster", name, {"access": access or {"file": name}, **spec}, region=region)


EVERYWHERE = {"matchExpressions": [{"key": "region", "operator": "Exists"}]}


@dataclass(frozen=True)
class FleetPlatform(CommandPlatform):
    """A hub and its clusters, all with a namespace of the same name. The hub is the cluster of the base class."""

    clusters: Mapping[str, ControlPlane]
    config: Path

    @property
    def configuration(self) -> tuple[str, ...]:
        """Return the arguments of `run` that name what it reconciles: the fleet of a configuration."""
        return "--config", str(self.config)

    def text_in(self, name: str, config_map_name: str) -> str:
        """Return the key `text` of a ConfigMap of a cluster, "" if there is none."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{config_map_name}"
        answer = self.clusters[name].request("GET", path)
        return str(answer.body["data"]["text"]) if answer.code == 200 else ""

    def texts(self, config_map_name: str) -> dict[str, str]:
        return {name: self.text_in(name, config_map_name) for name in self.clusters}

    def label(self, name: str, config_map_name: str) -> str:
        """Return the id of the set of a ConfigMap, "" if it has none or does not exist."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{config_map_name}"
        answer = self.clusters[name].request("GET", path)
        labels = answer.body["metadata"].get("labels") or {} if answer.code == 200 else {}
        return str(labels.get(well_known.PART_OF, ""))

    def is_marked(self, name: str) -> bool:
        """Return whether a hub has claimed the cluster."""
        answer = self.clusters[name].request("GET", f"{OWN}/levelgate")
        return bool(answer.code == 200 and (answer.body.get("data") or {}).get("hub"))

    def is_settled(self, name: str) -> bool:
        """Return whether the record of the source in a cluster is `Settled`."""
        path = f"{OWN}/source-{self.name}"
        answer = self.clusters[name].request("GET", path)
        return bool(answer.code == 200 and (answer.body.get("data") or {}).get("state") == "Settled")

    def recorded_state(self, hub: ControlPlane, name: str) -> str:
        """Return the states of a cluster and of its source, by the record of the hub."""
        answer = hub.request("GET", f"{OWN}/cluster-{name}")
        data = answer.body.get("data") or {} if answer.code == 200 else {}
        summary = json.loads(data.get("sources") or "{}").get(self.name, {})
        return f"{data.get('state')} {summary.get('state')}"

    def mark(self, name: str) -> int:
        return AuditLog(self.clusters[name].audit_log).mark()

    def writes_to(self, name: str, since: int) -> list[AuditEvent]:
        """Return Levelgate's writes to the namespace of the test in a cluster since a mark. Its own records follow a little later."""
        events = AuditLog(self.clusters[name].audit_log).events(since=since, user="levelgate")
        return [event for event in events if event.is_write and event.namespace == self.namespace]

    def has_kind(self, server: ControlPlane) -> bool:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/chains.{self.group}"
        return server.request("GET", path).code == 200


@pytest.fixture
def fleet(
    control_plane: ControlPlane,
    kubectl: Kubectl,
    audit: AuditLog,
    clusters: Mapping[str, ControlPlane],
    repository: Repository,
    tmp_path: Path,
) -> Iterator[FleetPlatform]:
    namespace = new_namespace(of_real(control_plane))
    directory = tmp_path / "clusters"
    directory.mkdir()
    for name, peer in clusters.items():
        assert peer.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
        shutil.copy(peer.kubeconfig("levelgate"), directory / name)
    config = tmp_path / "levelgate.yaml"
    source = f"src-{namespace}"
    settings = {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "Config",
        "fleet": {"source": source, "directory": "clusters"},
        "sources": [{"name": source, "url": str(repository.path), "interval": "1h"}],
    }
    config.write_text(json.dumps(settings))
    yield FleetPlatform(
        name=source,
        namespace=namespace,
        group=f"{namespace}.test",
        repository=repository,
        kubectl=kubectl,
        audit_log=audit,
        kubeconfig=control_plane.kubeconfig("levelgate"),
        cache=tmp_path / "cache",
        clusters=clusters,
        config=config,
    )
    for server in (control_plane, *clusters.values()):
        server.request("DELETE", f"{OWN}/source-{source}")
        server.request("DELETE", f"{OWN}/levelgate")
    for name in (*clusters, "local"):
        control_plane.request("DELETE", f"{OWN}/cluster-{name}")
    control_plane.request("DELETE", f"{OWN}/fleet-{source}")


def everything(fleet: FleetPlatform, **placement: Any) -> dict[str, str | None]:
    """A definition, one instance and a plain object, on all clusters; the text is another one in the region us."""
    group = fleet.group
    override = {
        "clusters": {"matchLabels": {"region": "us"}},
        "rgds": [f"chains.{group}"],
        "patch": {"spec": {"text": "us"}},
    }
    spec = {"objects": {}, "clusters": EVERYWHERE, "overrides": [override], **placement}
    return {
        **{f"{name}.json": cluster(name) for name in fleet.clusters},
        "placement.json": document("Placement", "all", spec),
        "chain.json": chain(group, "ab"),
        "one.json": link(group, fleet.namespace),
        "plain.json": config_map(fleet.namespace, "plain", text="here"),
    }
