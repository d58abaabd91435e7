"""The main job, on screen: `sample-repo` is deployed, changed and pruned on a real control plane. `python -m tests.demo`.

Invariants: every step says what it is for, prints the command that it runs, and checks what it did in the cluster itself; the first
thing that is not as it should be ends the demo with exit code 1. What the demo started is ended by its process id, whatever happens.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.audit import AuditLog
from tests.controlplane.binaries import NotBuiltError
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.server import ControlPlane
from tests.scenarios.platform import Repository

SAMPLE = Path(__file__).parent.parent / "sample-repo"
NAMESPACES = ("staging", "prod")
SOURCE = "platform"
LONGEST_COMMAND = 60.0
"""Seconds after which a command that does not end is killed."""

_RUN = ("run", "--source", f"{SOURCE}=.", "--once", "--wait", "0s")
_DONE, _CHANGES, _NOT_YET = 0, 2, 3
_INSTANCES = "platform"
"""The category that the sample's kinds share."""

_KINDS = tuple(f"{plural}.platform.example.com" for plural in ("databases", "products", "webapps"))

# What must be gone before what: the graph of prod/shop, from its leaves to its roots. `(resource, name)` as in the audit log.
_REVERSE = (
    (("ingresses", "shop"), ("services", "shop")),
    (("services", "shop"), ("deployments", "shop")),
    (("poddisruptionbudgets", "shop"), ("deployments", "shop")),
    (("deployments", "shop"), ("configmaps", "shop-settings")),
    (("configmaps", "shop-settings"), ("databases", "shop-db")),
    (("configmaps", "shop-db-connection"), ("statefulsets", "shop-db")),
    (("statefulsets", "shop-db"), ("services", "shop-db")),
    (("statefulsets", "shop-db"), ("configmaps", "shop-db-settings")),
)


def main() -> int:
    """Start a control plane, show everything, stop it. Answers the exit code."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="levelgate-demo-") as name:
        directory = Path(name)
        print(
            "Starting etcd, kube-apiserver and kube-controller-manager. There are no nodes: nothing runs in a container."
        )
        try:
            with ControlPlane.start(directory / "cluster") as server:
                show(server, directory)
        except (AssertionError, NotBuiltError, RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"\nThe demo failed: {error}", file=sys.stderr)
            return 1
    print(f"\nDone in {time.monotonic() - begin:.0f} seconds. The servers are stopped, the directory is removed.")
    return 0


def show(server: ControlPlane, directory: Path) -> Demo:
    """Go through all steps on a running control plane; `directory` takes the repository. Raises AssertionError where a step fails."""
    demo = Demo.prepare(server, directory)
    for step in (demo.look, demo.deploy, demo.change, demo.remove, demo.report):
        step()
    return demo


@dataclass
class Demo:
    """One repository, one source and one cluster."""

    server: ControlPlane
    repository: Repository
    kubectl: Kubectl
    environment: Mapping[str, str]
    step: int = 0

    @classmethod
    def prepare(cls, server: ControlPlane, directory: Path) -> Demo:
        path = directory / SOURCE
        shutil.copytree(SAMPLE, path)
        subprocess.run(("git", "init", "--quiet", "--initial-branch=main"), cwd=path, check=True)
        repository = Repository(path)
        repository.commit({}, "A platform: three definitions, five instances")
        kubeconfig = server.kubeconfig("levelgate")
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "XDG_CACHE_HOME": str(directory / "cache"),
            "NO_COLOR": "1",
        }
        kubectl = Kubectl(server.kubeconfig("person"), directory / "kubectl")
        return cls(server, repository, kubectl, environment)

    def look(self) -> None:
        self._explain("What a commit means, without any cluster. `?` marks what only a cluster can tell.")
        rendered = self.levelgate("render", ".")
        assert ", 0 problems." in rendered, "the sample repository has problems"

        self._explain("What it would do to this cluster: the same pipeline, cut short before the first write.")
        planned = self.levelgate("plan", ".", "--source", SOURCE, "--exit-code", expect=_CHANGES)
        assert " 0 to update, 0 to replace, 0 to delete, 0 unchanged" in planned, "the cluster is not empty"
        assert not self._exists(f"/api/v1/namespaces/{NAMESPACES[0]}"), "a plan wrote something"

    def deploy(self) -> None:
        self._explain(
            "Bring the cluster there. Levels open as far as they can, then the report says what each one waits for."
        )
        self.levelgate(*_RUN, expect=_NOT_YET)
        assert self._get("deployments", "-n", "prod") == {"deployment.apps/docs"}, (
            "the shop started without its database"
        )
        assert "service/docs" not in self._get("services", "-n", "prod"), "a level opened too early"
        assert "configmap/shop-db-connection" not in self._get("configmaps", "-n", "prod")

        self._explain("Why is it not as Git says? The cluster itself tells, also to those who did not see the run.")
        assert "WaitingForData" in self.levelgate("status")

        self.play()
        self._explain(
            "The databases are up: what reads their status can be written now, and the applications behind them start."
        )
        self.levelgate(*_RUN, expect=_NOT_YET)
        assert "configmap/shop-db-connection" in self._get("configmaps", "-n", "prod")
        assert "deployment.apps/shop" in self._get("deployments", "-n", "prod")
        assert "ingress.networking.k8s.io/docs" in self._get("ingresses", "-n", "prod")
        assert "service/shop" not in self._get("services", "-n", "prod")

        self.play()
        self._explain("The applications are up: their last levels open, and nothing waits any more.")
        self.levelgate(*_RUN)
        assert {"ingress.networking.k8s.io/docs", "ingress.networking.k8s.io/shop"} <= self._get(
            "ingresses", "-n", "prod"
        )
        self.instances()
        assert set(self._states().values()) == {"ACTIVE"}

        self._explain("A second run over an unchanged world writes nothing.")
        before = self._writes()
        self.levelgate(*_RUN)
        assert self._writes() == before, "an unchanged world was written to"

    def change(self) -> None:
        file = "apps/prod/docs.yaml"
        old = (self.repository.path / file).read_text()
        self._explain("A commit changes an image. The plan names the one object that it touches.")
        self.commit({file: old.replace("docs:1.4.2", "docs:1.5.0")}, "docs 1.5.0 in production")
        planned = self.levelgate("plan", ".", "--source", SOURCE, "--revision", "main", "--exit-code", expect=_CHANGES)
        assert "~ deployment" in planned

        self._explain("The Deployment is updated. It is `Healthy` again only when its new pods are.")
        self.levelgate(*_RUN, expect=_NOT_YET)
        image = "jsonpath={.spec.template.spec.containers[0].image}"
        assert self.kubectl("get", "deployment", "docs", "-n", "prod", "-o", image).endswith("docs:1.5.0")
        self.play()
        self.levelgate(*_RUN)

    def remove(self) -> None:
        self._explain(
            "A commit removes an instance with everything below it. The plan lists what goes, and in which order."
        )
        self.commit({"apps/prod/shop.yaml": None}, "The shop is closed")
        planned = self.levelgate("plan", ".", "--source", SOURCE, "--revision", "main", "--exit-code", expect=_CHANGES)
        assert "- Product/prod/shop" in planned
        assert "12 to delete" in planned

        self._explain("Pruned in the reverse order of dependency: each wave is gone before the next one goes.")
        audit = AuditLog(self.server.audit_log)
        since = audit.mark()
        self.levelgate(*_RUN[:-1], "20s")
        deleted = [
            (event.resource, event.name)
            for event in audit.events(since=since, user="levelgate", verbs={"delete"}, namespace="prod")
        ]
        for first, then in _REVERSE:
            assert {first, then} <= set(deleted), f"{first} or {then} was not deleted: {deleted}"
            assert deleted.index(first) < deleted.index(then), f"{then} was deleted before {first}: {deleted}"
        left = self._get(f"all,configmaps,ingresses,poddisruptionbudgets,{','.join(_KINDS)}", "-n", "prod")
        assert not {name for name in left if name.rpartition("/")[2].startswith("shop")}, f"left over: {left}"
        self.instances()

    def report(self) -> None:
        self._explain("What is, in one page.")
        told = self.levelgate("status")
        assert SOURCE in told

    def play(self) -> None:
        """Write the status that controllers and kubelets would write: all replicas are there and ready."""
        self._explain("Nothing runs here, so the demo plays the workload controllers: it reports all pods as ready.")
        count = 0
        for path, workload in self._workloads():
            print(f"$ PATCH {path}/status")
            answer = self.server.request(
                "PATCH",
                f"{path}/status",
                {"status": _all_ready(workload)},
                user="other",
                content_type="application/merge-patch+json",
            )
            assert answer.code == 200, answer.body
            count += 1
        assert count, "there is no workload that waits for its pods"

    def instances(self) -> None:
        print(f"$ kubectl get {_INSTANCES} -A")
        print(self.kubectl("get", _INSTANCES, "-A"), end="", flush=True)

    def commit(self, files: Mapping[str, str | None], message: str) -> None:
        print(f'$ git commit --all --message "{message}"')
        self.repository.commit(files, message)
        print(self.repository.git("show", "--format=%h %s", "--stat", "HEAD").strip(), flush=True)

    def levelgate(self, *arguments: str, expect: int = _DONE) -> str:
        """Run the command in the repository and show it; its exit code must be as expected."""
        print(f"$ levelgate {' '.join(arguments)}", flush=True)
        command = (sys.executable, "-c", "from gitops.cli import main; main()", *arguments)
        done = subprocess.run(
            command,
            cwd=self.repository.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LONGEST_COMMAND,
        )
        print(done.stdout, end="", flush=True)
        assert done.returncode == expect, f"levelgate {arguments[0]}: exit code {done.returncode}, expected {expect}"
        return done.stdout

    def clean_up(self) -> None:
        """Take everything out of the cluster again, for those who go on using it."""
        shutil.rmtree(self.repository.path / "apps")
        self.repository.commit({}, "Closed")
        self.levelgate(*_RUN[:-1], "20s")
        self.kubectl("delete", "clusterrole,clusterrolebinding", "platform-viewer")
        self.kubectl("delete", "crd", *_KINDS, "--wait=false")
        self.kubectl("delete", "namespace", *NAMESPACES, "--wait=false")
        self.kubectl("delete", "configmap", f"source-{SOURCE}", "-n", "levelgate-system")

    def _explain(self, text: str) -> None:
        self.step += 1
        print(f"\n--- {self.step}. {text}", flush=True)

    def _get(self, *arguments: str) -> set[str]:
        return set(self.kubectl("get", *arguments, "-o", "name").split())

    def _exists(self, path: str) -> bool:
        return self.server.request("GET", path).code == 200

    def _states(self) -> dict[str, str]:
        found = json.loads(self.kubectl("get", ",".join(_KINDS), "-A", "-o", "json"))["items"]
        return {
            f"{item['kind']} {item['metadata']['namespace']}/{item['metadata']['name']}": item["status"]["state"]
            for item in found
        }

    def _writes(self) -> int:
        events = AuditLog(self.server.audit_log).events(user="levelgate")
        return sum(event.is_write and self._is_mine(event.namespace) for event in events)

    def _is_mine(self, namespace: str) -> bool:
        """Whether a write in this namespace can be the demo's: the control plane may be shared with others."""
        return namespace in {*NAMESPACES, "levelgate-system", ""}

    def _workloads(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Deployments and StatefulSets whose status does not speak of their newest generation, with their paths."""
        for namespace in NAMESPACES:
            for resource in ("statefulsets", "deployments"):
                path = f"/apis/apps/v1/namespaces/{namespace}/{resource}"
                for workload in self.server.request("GET", path, user="other").body["items"]:
                    if workload["status"].get("observedGeneration") != workload["metadata"]["generation"]:
                        yield (
                            f"{path}/{workload['metadata']['name']}",
                            {**workload, "kind": resource},
                        )


def _all_ready(workload: dict[str, Any]) -> dict[str, Any]:
    replicas = workload["spec"]["replicas"]
    status: dict[str, Any] = {
        "observedGeneration": workload["metadata"]["generation"],
        **dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), replicas),
    }
    if workload["kind"] == "statefulsets":
        revision = f"{workload['metadata']['name']}-{workload['metadata']['generation']}"
        return {**status, "currentReplicas": replicas, "currentRevision": revision, "updateRevision": revision}
    conditions = [
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ]
    return {**status, "conditions": conditions}


if __name__ == "__main__":
    sys.exit(main())
