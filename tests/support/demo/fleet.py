"""Demo of several clusters on sandboxes; `python -m tests.support.demo.fleet` prints it.

A hub and three sandboxes get clusters, a placement and commits. One cluster hangs and comes back, one is removed. Each
step checks the clusters themselves. The demo ends with exit code 1 at the first difference.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support.demo.session import SAMPLE, SOURCE, Demo, DemoDaemon, own_environment, present
from tests.support.git.repository import Repository

CLUSTERS = {"c0": "eu", "c1": "us", "c2": "us"}
"""The region of each cluster. Their order is that of the sandbox's contexts after `hub`."""

_CONFIG = f"""\
apiVersion: levelgate.dev/v1alpha1
kind: Config
fleet: {{source: {SOURCE}, directory: clusters}}
sources:
- {{name: {SOURCE}, url: {SOURCE}, interval: 5s}}
"""
_PLACEMENT = """\
apiVersion: levelgate.dev/v1alpha1
kind: Placement
metadata: {name: webapps}
spec:
  objects: {}
  clusters: {matchExpressions: [{key: region, operator: Exists}]}
  overrides:
  - clusters: {matchLabels: {region: us}}
    rgds: [webapps.platform.example.com]
    patch: {spec: {replicas: 3}}
"""
_NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: prod}
"""
_APP = "apps/docs.yaml"
_DEPLOYMENT = "apis/apps/v1/namespaces/prod/deployments/docs"


def _cluster_manifest(name: str) -> str:
    return f"""\
apiVersion: levelgate.dev/v1alpha1
kind: Cluster
metadata: {{name: {name}, labels: {{region: {CLUSTERS[name]}}}}}
spec: {{access: {{file: {name}}}, onRemove: Delete}}
"""


def main() -> int:
    return present(show)


def show(directory: Path) -> None:
    """Go through all steps. Raises AssertionError where one is not as it should be."""
    path = directory / SOURCE
    (directory / "clusters").mkdir()
    (directory / "levelgate.yaml").write_text(_CONFIG)
    repository = Repository.create(path)
    definition = (SAMPLE / "definitions/web-app.yaml").read_text()
    repository.commit({"web-app.yaml": definition, "placement.yaml": _PLACEMENT}, "A definition, and where it goes")
    environment = own_environment(directory)
    run = ("run", "--sandbox", "--clusters", str(len(CLUSTERS)), "--config", "levelgate.yaml")
    with DemoDaemon.start(run, directory, environment) as daemon:
        demo = FleetDemo(repository, environment, daemon, directory)
        for step in (demo.declare, demo.deploy, demo.cut, demo.heal, demo.remove):
            step()


class FleetDemo(Demo):
    """One web application in three clusters."""

    def declare(self) -> None:
        self.explain("Each cluster is a kubeconfig in the directory that levelgate.yaml names, and a Cluster in Git.")
        self.until(self.kubeconfig.exists)
        for name in CLUSTERS:
            self.kubectl("--context", name, "config", "view", "--minify", "--raw", into=f"clusters/{name}")
        files = {f"clusters/{name}.yaml": _cluster_manifest(name) for name in CLUSTERS}
        print(files["clusters/c1.yaml"], end="", flush=True)
        self.commit(files, "Three clusters")
        self._until_settled(CLUSTERS)
        self.levelgate("cluster", "list", "--sandbox")

    def deploy(self) -> None:
        self.explain("One commit goes to all clusters. The placement gives those of region us three replicas.")
        print(_PLACEMENT, end="", flush=True)
        app = (SAMPLE / "apps/prod/docs.yaml").read_text()
        self.commit({"namespace.yaml": _NAMESPACE, _APP: app}, "The docs, everywhere")
        self._until_settled(CLUSTERS)
        status = self.levelgate("status", "--sandbox")
        assert "3/3" in status, "the status does not count the clusters"
        self.levelgate("explain", "placement/webapps", "--sandbox")
        assert "Placements: webapps." in self.levelgate("explain", "cluster/c1", "--sandbox")
        replicas = {name: self._deployment(name)["replicas"] for name in CLUSTERS}
        assert replicas == {"c0": 2, "c1": 3, "c2": 3}, f"the override went elsewhere: {replicas}"

    def cut(self) -> None:
        self.explain(
            "A cluster hangs: c1 takes connections and answers nothing. A commit reaches the others all the same."
        )
        self.levelgate("sandbox", "--cut", "c1")
        self.commit({_APP: self._with_image("1.5.0")}, "docs 1.5.0")
        self._until_settled({"c0", "c2"})
        assert self._image("c0") == self._image("c2") == "registry.example.com/docs:1.5.0"
        self.explain(
            "What a further commit would change, in each cluster. Of c1 nothing is known, so the exit code is 1."
        )
        self._write(self._with_image("1.6.0"))
        plan = self.levelgate("plan", SOURCE, "--config", "levelgate.yaml", "--cluster", "all", "--sandbox", code=1)
        assert "c1: unknown: cluster c1 did not answer" in plan, "the plan says something of a cluster that hangs"
        assert "c0, c2: the same" in plan, "the plan does not put equal clusters together"
        self._write(self._with_image("1.5.0"))
        self.explain(
            "The hub gives up a cluster that is silent. What lives there stays, and the status says since when."
        )
        self.until(lambda: self._record("c1").get("state") == "Unreachable")
        assert "Unreachable: cluster/c1" in self.levelgate("status", "--sandbox")
        assert "Cluster c1 is Unreachable since" in self.levelgate("explain", "cluster/c1", "--sandbox")

    def heal(self) -> None:
        self.explain("It answers again. It is tried by itself, and gets what it has missed.")
        self.levelgate("sandbox", "--heal", "c1")
        self._until_settled(CLUSTERS)
        assert self._image("c1") == "registry.example.com/docs:1.5.0"
        self.levelgate("status", "--sandbox")

    def remove(self) -> None:
        self.explain(
            "A cluster leaves: its Cluster is removed from Git, and says onRemove: Delete. It is emptied in reverse order."
        )
        since = self.commit({"clusters/c2.yaml": None}, "c2 goes")
        self.until(lambda: not self._record("c2"))
        gone = [self.daemon.position(since, "c2", f"{node} deleted") for node in ("ingress", "service", "deployment")]
        assert gone == sorted(gone), "it went in another order"
        assert not self._object_of("c2", "apis/apps/v1/deployments")["items"], "something was left over"
        self.until(
            lambda: "clusters/c2.yaml" not in str(self._own_record("fleet-platform"))
        )  # what is declared, a moment later
        listed = [line.split()[0] for line in self.levelgate("cluster", "list", "--sandbox").splitlines()]
        assert listed == ["CLUSTER", "c0", "c1", "local"], "the removed cluster is listed"
        assert self._image("c0") == self._image("c1") == "registry.example.com/docs:1.5.0", (
            "another cluster was touched"
        )

    def _write(self, text: str) -> None:
        """Change the application in the working tree, without a commit."""
        print(f"$ edit {SOURCE}/{_APP}", flush=True)
        (self.repository.path / _APP).write_text(text)

    def _with_image(self, version: str) -> str:
        return (SAMPLE / "apps/prod/docs.yaml").read_text().replace("docs:1.4.2", f"docs:{version}")

    def _until_settled(self, names: Iterable[str]) -> None:
        """Wait until the hub's records say that these clusters are at HEAD, and settled."""
        wanted = ("Engaged", self.head, "Settled")
        self.until(lambda: all(self._standing(name) == wanted for name in names))

    def _standing(self, name: str) -> tuple[str, str, str]:
        """State of a cluster; commit and state of the source there."""
        data = self._record(name)
        summary = json.loads(data.get("sources") or "{}").get(SOURCE, {})
        return data.get("state", ""), summary.get("commit", ""), summary.get("state", "")

    def _record(self, name: str) -> Mapping[str, str]:
        """The hub's record of a cluster; empty where there is none."""
        return self._own_record(f"cluster-{name}")

    def _own_record(self, name: str) -> Mapping[str, str]:
        records = self.object("api/v1/namespaces/levelgate-system/configmaps")["items"]
        found = (one for one in records if one["metadata"]["name"] == name)
        return next((one.get("data", {}) for one in found), {})

    def _deployment(self, name: str) -> dict[str, Any]:
        spec: dict[str, Any] = self._object_of(name, _DEPLOYMENT)["spec"]
        return spec

    def _image(self, name: str) -> str:
        return str(self._deployment(name)["template"]["spec"]["containers"][0]["image"])

    def _object_of(self, name: str, path: str) -> dict[str, Any]:
        return self.object(path, cluster=1 + list(CLUSTERS).index(name))


if __name__ == "__main__":
    sys.exit(main())
