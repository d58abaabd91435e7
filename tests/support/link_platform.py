"""The harness with one definition and its instances, each a Deployment: which instance moves when, and why not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from applier.causes import Reason
from applier.cluster import Object
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import Store
from gitops.reconcile.context import ReconcileResult
from gitops.records.rollout_records import decode_rollout
from gitops.rollouts.state import RolloutState
from tests.support.platform import MERGE, OWN, Platform, copy_of

GROUP = "g.test"


TEN = tuple(f"i{number}" for number in range(10))


ROLLOUT = f"{OWN}/rollout-links.{GROUP}"


_deployed: dict[str, Store] = {}
"""What fleets came to, by all that they are made of."""


@dataclass
class LinkPlatform(Platform):
    """The definition `links.g.test`, its instances *names*, and the rules that govern their rollout.

    `gates`, `schema`, `about` (annotations) and `more` resources belong to the definition, `node_gates` to its Deployment.
    `image` is the content of a commit; IMAGE in `more` stands for it. `rules` are files of windows and policies, `plain`
    plain objects by their files, `written` the metadata and spec fields of instances.
    """

    names: tuple[str, ...] = TEN
    gates: list[str] | None = None
    node_gates: list[str] | None = None
    more: list[Object] = field(default_factory=list)
    schema: dict[str, Any] = field(default_factory=lambda: {"text": "string | default=one"})
    rules: dict[str, str] = field(default_factory=dict)
    plain: dict[str, Object] = field(default_factory=dict)
    written: dict[str, dict[str, Any]] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    image: str = "one"

    def _copied_fields(self) -> dict[str, Any]:
        names = ("more", "schema", "rules", "plain", "written", "about")
        return {**super()._copied_fields(), **{name: deepcopy(getattr(self, name)) for name in names}}

    def push(self, image: str = "", /, **rules: Mapping[str, Any] | None) -> None:
        """Commit everything with this image. *rules* are specs of windows and policies by name; None removes a rule."""
        self.image = image or self.image
        for name, spec in rules.items():
            self.rules.pop(f"{name}.json", None)
            if spec is not None:
                kind = "PropagationWindow" if "timeZone" in spec else "PropagationPolicy"
                manifest = {"apiVersion": "levelgate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}}
                self.rules[f"{name}.json"] = json.dumps({**manifest, "spec": spec})
        self.commit(self._files())

    def _files(self) -> dict[str, str]:
        files = {"link.json": self._definition(), **self.rules}
        files |= {f"{name}.json": json.dumps(self._instance(name)) for name in self.names}
        return files | {f"{name}.json": json.dumps(manifest) for name, manifest in self.plain.items()}

    def _definition(self) -> str:
        app = {
            "id": "app",
            "readyWhen": ["${app.status.availableReplicas == 1}"],
            "template": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "${schema.metadata.name}-app", "annotations": {"text": "${schema.spec.text}"}},
                "spec": {
                    "selector": {"matchLabels": {"app": "${schema.metadata.name}"}},
                    "template": {
                        "metadata": {"labels": {"app": "${schema.metadata.name}"}},
                        "spec": {"containers": [{"name": "app", "image": self.image}]},
                    },
                },
            },
        }
        if self.node_gates is not None:
            app["propagateWhen"] = self.node_gates
        after = {
            "id": "after",
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "${app.metadata.name}"},
                "data": {"image": self.image},
            },
        }
        schema = {"group": GROUP, "apiVersion": "v1", "kind": "Link", "spec": self.schema}
        more = json.loads(json.dumps(self.more).replace("IMAGE", self.image))
        spec: Object = {"schema": schema, "resources": [app, after, *more]}
        if self.gates is not None:
            spec["propagateWhen"] = self.gates
        metadata = {"name": f"links.{GROUP}", "annotations": self.about}
        return json.dumps(
            {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": metadata, "spec": spec}
        )

    def _instance(self, name: str) -> Object:
        said = dict(self.written.get(name, {}))
        metadata = {"name": name, "namespace": "default", **said.pop("metadata", {})}
        return {"apiVersion": f"{GROUP}/v1", "kind": "Link", "metadata": metadata, "spec": said}

    def start(self, **rules: Mapping[str, Any] | None) -> None:
        """Deploy, then commit the rules.

        Only the first of equal platforms deploys. Later ones start a process beside a copy of its cluster.
        """
        made_of = self.made_of
        if self.recall(made_of):
            self.push()
            self.step()
        else:
            self.deploy()
            self.remember(made_of)
        if rules:
            self.push(**rules)
            self.step()

    @property
    def made_of(self) -> str:
        """Return a key of all that decides the deployed cluster; "" if this cluster is not new, or has faults."""
        is_new = not self.faulty.faults and self.sandbox.state.store.version == Sandbox().state.store.version
        return repr((type(self), self.source, self.clock.moment, self.commits, self._files())) if is_new else ""

    def recall(self, made_of: str) -> bool:
        """Take over the deployed cluster of an equal platform. Return False if there is none."""
        if known := _deployed.get(made_of):
            self.sandbox = self.new_sandbox(copy_of(known))
        return known is not None

    def remember(self, made_of: str) -> None:
        """Keep the deployed cluster for equal platforms."""
        if made_of:
            _deployed[made_of] = copy_of(self.sandbox.state.store)

    def deploy(self) -> None:
        """Make the first commit, and reconcile until every instance is healthy."""
        self.push()
        for _ in range(6):
            self.step()
            self.ready(*self.at("one"))
        assert self.waits() == dict.fromkeys(self.names, "Settled")

    def step(self, after: timedelta = timedelta()) -> ReconcileResult:
        """One pass of the same process, so much later."""
        found = super().step(after)
        assert self.words() <= set(Reason), "a reason that is not in the vocabulary"
        return found

    def words(self) -> set[str]:
        """Return every reason that instances report, without the conditions of kro."""
        links = self.find(f"/apis/{GROUP}/v1/links") or {"items": ()}
        statuses = [one.get("status") or {} for one in links["items"]]
        conditions = [one for status in statuses for one in status.get("conditions", ()) if one["type"] == "Propagated"]
        rows = [row for status in statuses for row in status.get("levelgate", {}).get("blocked", ())]
        because = [one for row in rows for one in row.get("blockedBy", ())]
        return {one["reason"] for one in (*conditions, *rows, *because)}

    def move(self, image: str, *, rounds: int = 12, except_for: Iterable[str] = ()) -> list[list[str]]:
        """Reconcile, and make the moved instances ready each time, but for some. Return the instances that moved, round by round."""
        found: list[list[str]] = []
        for _ in range(rounds):
            before = self.at(image)
            self.step()
            if moved := [name for name in self.at(image) if name not in before]:
                found.append(moved)
            self.ready(*(name for name in self.at(image) if name not in except_for))
        return found

    # ---- what others do and see

    def ready(self, *names: str, ready: bool = True) -> None:
        """Write the status of these instances' Deployments, of the newest generation, as the Deployment controller does."""
        for name in names:
            self.available(f"{name}-app", ready=ready)

    def available(self, deployment: str, *, ready: bool = True) -> None:
        path = f"/apis/apps/v1/namespaces/default/deployments/{deployment}"
        count = 1 if ready else 0
        status = {
            "observedGeneration": self.request("GET", path)["metadata"]["generation"],
            **dict.fromkeys(("replicas", "updatedReplicas"), 1),
            **dict.fromkeys(("readyReplicas", "availableReplicas"), count),
            "conditions": [
                {"type": "Available", "status": str(ready)},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            ],
        }
        self.request("PATCH", f"{path}/status", {"status": status}, MERGE)

    def annotate(self, name: str, **annotations: str | None) -> None:
        """Annotate an instance, as `kubectl annotate` does. Underscores stand for dashes."""
        self.put(f"/apis/{GROUP}/v1/namespaces/default/links/{name}", **annotations)

    def order(self, **annotations: str | None) -> None:
        """Annotate the record of the rollout."""
        self.put(ROLLOUT, **annotations)

    def at(self, image: str) -> list[str]:
        """Return the instances whose Deployment has this image, sorted."""
        have = self.deployed(image)
        return [name for name in self.names if f"{name}-app" in have]

    def deployed(self, image: str) -> set[str]:
        """Return the names of all Deployments with this image."""
        return {obj["metadata"]["name"] for obj in self._deployments() if _image(obj) == image}

    def deployed_names(self) -> list[str]:
        """Return the names of all Deployments."""
        return [obj["metadata"]["name"] for obj in self._deployments()]

    def _deployments(self) -> list[Any]:
        return list(self.request("GET", "/apis/apps/v1/namespaces/default/deployments")["items"])

    def status(self, name: str) -> dict[str, Any]:
        """Return the status of an instance, empty if it has none."""
        link = self.find(f"/apis/{GROUP}/v1/namespaces/default/links/{name}") or {}
        return link.get("status") or {}

    def propagated(self, name: str) -> tuple[str, str]:
        """Return reason and message of the condition `Propagated`."""
        found = next(one for one in self.status(name)["conditions"] if one["type"] == "Propagated")
        return found["reason"], found["message"]

    def waits(self) -> dict[str, str]:
        """Return the reason of the condition `Propagated` of every instance."""
        return {name: self.propagated(name)[0] for name in self.names if self.status(name)}

    def rollout(self) -> RolloutState:
        """Return the stored state of the rollout."""
        return decode_rollout(self.request("GET", ROLLOUT)["data"], now=self.clock.now())


def _image(deployment: Object) -> str:
    image: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def workers(*gates: str) -> dict[str, Any]:
    """Return a collection of four Deployments, for `more`."""
    pods = {
        "selector": {"matchLabels": {"worker": "${n}"}},
        "template": {
            "metadata": {"labels": {"worker": "${n}"}},
            "spec": {"containers": [{"name": "worker", "image": "IMAGE"}]},
        },
    }
    return {
        "id": "workers",
        "forEach": [{"n": "${['w0', 'w1', 'w2', 'w3']}"}],
        **({"propagateWhen": list(gates)} if gates else {}),
        "template": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "${schema.metadata.name}-${n}"},
            "spec": pods,
        },
    }
