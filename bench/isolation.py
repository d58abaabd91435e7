"""Effect of one fault of each kind on all other instances, on a real API server.

Usage: `python -m bench.isolation [INSTANCES]`.

The daemon follows a fleet of instances, each with a chain of three ConfigMaps. The bench times commits that change
their definition without a pace, first without faults and then with faults. A time ends when the last of the other
instances equals Git, in seconds of wall clock, in seconds of CPU, and in requests. The bench makes refusals and delays
of single objects at the client's end of the wire. The server itself makes all other faults: webhooks, policies,
conflicts, finalizers, terminating namespaces and immutable objects. Progress goes to stderr.

If the other instances take more than 1.2 times the seconds without faults (I9), the bench ends with exit code 1. If no
further instance arrives for a minute, the bench also ends so, and names the missing instances.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from applier.kube.cluster import KubeCluster
from applier.kube.http_transport import HttpTransport
from applier.kube.kubeconfig import choose_source
from applier.kube.transport_port import BrokenError, HttpAnswer, StreamedAnswer
from applier.plan.model import NodePlan
from bench._wanted import end, missed
from gitops.clock import SystemClock
from gitops.daemon.event_router import EventRouter
from gitops.daemon.follower import Follower
from gitops.daemon.workers import WorkKind
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.source import Mirror, SourceTarget
from gitops.windows.window import LOCAL
from tests.support.cluster.control_plane import ControlPlane
from tests.support.faults.lane import Branch
from tests.support.faults.proxy import Upstream

INSTANCES: Final = 1_000
AT_MOST: Final = 1.2
STALLED, TOLD = 60.0, 10.0
"""Seconds without a further arrival after which the bench stops, and seconds between two reports of progress."""

GROUP: Final = "isolation.test"
PATH: Final = "/api/v1/namespaces/default/configmaps"

FAULTS: Final = {
    "unbuilt": "a definition that does not compile",
    "unreadable": "a file that cannot be read",
    "unfit": "a spec that does not fit the schema",
    "wrong": "an expression that fails",
    "greedy": "an expression beyond its budget",
    "unserved": "a kind that is not served",
    "never": "it never gets ready",
    "slow": "a write that takes 20 s",
    "busy": "429, try again in 3 s",
    "failing": "500",
    "broken": "no answer, not carried out",
    "forbidden": "403",
    "stale": "409, each time",
    "denied": "a policy denies it",
    "webhook": "its webhook cannot be reached",
    "taken": "a field that another manager owns",
    "fought": "a field that somebody changes back twice a second",
    "stuck": "deleted, with a finalizer that stays",
    "fixed": "an object that cannot be changed",
    "ending": "a namespace that is terminating",
}


SETTLED_ALL_THE_SAME: Final = {"unbuilt", "unreadable", "unfit", "slow", "fought"}
"""Instances that keep their last good state, and instances that equal Git for a while."""


class Stuck(AssertionError):
    """Error of a wait in which no further instance arrives."""


@dataclass
class Shaken:
    """Transport to the real server, with a fault for the first object of some instances.

    The class implements `applier.kube.transport_port.Transport`.
    """

    inner: HttpTransport
    befalls: dict[str, Callable[[], Awaitable[HttpAnswer | None]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def namespace(self) -> str:
        return self.inner.namespace

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> HttpAnswer:
        name = path.partition("?")[0].rpartition("/")[2]
        if method == "PATCH" and (fault := self.befalls.get(name)) and (answer := await fault()):
            return answer
        return await self.inner.send(method, path, headers=headers, body=body)

    def stream(
        self, path: str, *, headers: Mapping[str, str], silence: float
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        return self.inner.stream(path, headers=headers, silence=silence)

    async def renew(self) -> bool:
        return await self.inner.renew()

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class Fleet:
    """Instances and the daemon that follows them. The instances in `good` have no fault."""

    upstream: Upstream
    transport: Shaken
    good: frozenset[str]
    settled: set[str] = field(default_factory=set)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    spoilt: dict[str, dict[str, Any]] = field(default_factory=dict)
    branch: Branch = field(default_factory=lambda: Branch(SourceTarget("https://git.test/platform.git")))
    commits: int = 0
    content: str = ""

    async def run(self) -> list[str]:
        self.cluster = KubeCluster(self.transport, concurrency=16, sleep=asyncio.sleep, rng=random.random)
        reconciler = Reconciler(self.cluster, "0", SystemClock(), LOCAL)
        mirrors = {"platform": cast(Mirror, self.branch)}
        self.follower = Follower(mirrors, reconciler, SystemClock(), max_concurrent=4, on_pass=self._passed)
        print(
            f"{f'isolation, {len(self.good)} of {len(self.good) + len(FAULTS)} instances':<44} wall s   CPU s  requests"
        )
        await self._commit("one", {})
        async with EventRouter(reconciler, self.follower.enqueue, print) as self.follower.event_router:
            running = asyncio.ensure_future(self.follower.run_forever())
            await self._arrive("created")
            normal = [await self._change(f"without faults, {number}") for number in (1, 2)]
            await self._break()
            fight = asyncio.ensure_future(self._fight())
            faulted = [await self._change(f"with one of each fault, {number}") for number in (1, 2)]
            fight.cancel()
            idle = sorted((FAULTS.keys() - SETTLED_ALL_THE_SAME) & self.settled)
            self.follower.stop.set()
            self.follower.reconcile_all()
            await running
        least = [[min(of) for of in zip(*runs, strict=True)] for runs in (normal, faulted)]
        ratios = [after / before for before, after in zip(*least, strict=True)]
        print(f"{'the others, x without faults':<44} {ratios[0]:>6.2f}  {ratios[1]:>6.2f}  {ratios[2]:>8.2f}")
        await self.cluster.close()
        return [
            *missed("the others, x the seconds without faults", ratios[0], AT_MOST),
            *(f"{name}: nothing has befallen it" for name in idle),
        ]

    async def _change(self, what: str, **more: Any) -> tuple[float, float, int]:
        """Commit a change, and return its cost.

        Before, wait until no full pass is due, because a new webhook also wakes a full pass.
        """
        await asyncio.sleep(5)
        queue = self.follower.queue
        while any(key.work is WorkKind.EVERYTHING for key in (*queue.dirty, *queue.processing)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await self._commit(what, self.spoilt)
        return await self._arrive(what)

    async def _commit(self, text: str, spoilt: Mapping[str, Mapping[str, Any]]) -> None:
        self.commits += 1
        self.content = f"{self.commits} {text}"
        files = {
            "chain.json": json.dumps(_definition("Chain", self.content)),
            "other.json": json.dumps(_definition("Other", "${nobody.knows}" if spoilt else self.content)),
        }
        for name in (*self.good, *FAULTS):
            kind = "Other" if name == "unbuilt" else "Chain"
            body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}
            files[f"{name}.json"] = json.dumps({**body, "spec": spoilt.get(name, {})})
        if spoilt:
            files["unreadable.json"] = "{"
        self.branch.push(files, self.commits, rewrites=False)
        self.settled.clear()
        self.arrived.clear()

    async def _arrive(self, what: str) -> tuple[float, float, int]:
        begun = time.monotonic(), time.process_time(), sum(self.cluster.requests.values())
        self.follower.poll("platform")
        await self._watched(what)
        took = (
            time.monotonic() - begun[0],
            time.process_time() - begun[1],
            sum(self.cluster.requests.values()) - begun[2],
        )
        print(f"{what:<44} {took[0]:>6.2f}  {took[1]:>6.2f}  {took[2]:>8}", flush=True)
        return took

    async def _watched(self, what: str) -> None:
        """Wait until all instances have arrived. Raises: Stuck."""
        before, since, begun = 0, time.monotonic(), time.monotonic()
        while not self.arrived.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.arrived.wait(), TOLD)
            now, there = time.monotonic(), len(self.settled & self.good)
            print(f"{what}: {there} of {len(self.good)} after {now - begun:.0f} s", file=sys.stderr, flush=True)
            before, since = (there, now) if there > before else (before, since)
            if now - since > STALLED and not self.arrived.is_set():
                left = sorted(self.good - self.settled)
                raise Stuck(
                    f"{what}: {len(left)} have not got there, and none for {STALLED:g} s: {', '.join(left[:10])}"
                )

    def _passed(self, found: ReconcileResult) -> None:
        if [state.catalog.commit for state in found.sources] == [self.branch.resolve_head()]:
            self.settled |= {
                one.rendered.parent.name
                for one in found.plan.sets
                if one.nodes and not one.rendered.is_source and all(self._arrived(node) for node in one.nodes)
            }
            if self.settled >= self.good:
                self.arrived.set()

    def _arrived(self, node: NodePlan) -> bool:
        """Return whether the live object has the content of the newest commit.

        Until the new revision is stored, Levelgate renders the object from the commit before.
        """
        return node.is_applied_and_ready and node.live is not None and node.live["data"]["text"] == self.content

    async def _break(self) -> None:
        """Start all faults."""
        self.spoilt = {
            "unfit": {"count": 5},
            "wrong": {"count": "none"},
            "greedy": {"greedy": True},
            "unserved": {"ghost": True},
            "never": {"ready": False},
            "ending": {"place": "ending"},
        }
        await self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": "ending"}})
        await self._ask("DELETE", "/api/v1/namespaces/ending", None)  # nothing here would bring it to its end
        await self._ask("PATCH", f"{PATH}/fixed-a", {"immutable": True})
        taken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken-a"}, "data": {"text": "theirs"}}
        await self._ask(
            "PATCH", f"{PATH}/taken-a?fieldManager=other&force=true", taken, kind="application/apply-patch+yaml"
        )
        await self._ask("PATCH", f"{PATH}/stuck-a", {"metadata": {"finalizers": ["example.com/stuck"]}})
        await self._ask("DELETE", f"{PATH}/stuck-a", None)
        for path, body in _admission().items():
            await self._ask("POST", f"/apis/admissionregistration.k8s.io/v1/{path}", body)
        for name in ("denied-a", "webhook-a"):
            await self._refused(name)

        async def slow() -> None:
            await asyncio.sleep(20)

        async def lost() -> None:
            raise BrokenError("reset")

        async def busy() -> HttpAnswer:
            return _refusal(429, {"Retry-After": "3"})

        def refused(code: int) -> Callable[[], Awaitable[HttpAnswer]]:
            async def answer() -> HttpAnswer:
                return _refusal(code)

            return answer

        self.transport.befalls = {"slow-a": slow, "broken-a": lost, "busy-a": busy}
        self.transport.befalls |= {
            "failing-a": refused(500),
            "forbidden-a": refused(403),
            "stale-a": refused(409),
        }

    async def _fight(self) -> None:
        """Change a text again and again, as the script of a person would."""
        while True:
            await self._ask("PATCH", f"{PATH}/fought-a?fieldManager=kubectl-cron", {"data": {"text": "theirs"}})
            await asyncio.sleep(0.5)

    async def _refused(self, name: str) -> None:
        """Wait until the server rejects writes to an object."""
        body = {"metadata": {"annotations": {"tried": "yes"}}}
        for _ in range(100):
            if (await self._ask("PATCH", f"{PATH}/{name}?dryRun=All", body)) >= 400:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"{name} can still be written")

    async def _ask(self, method: str, path: str, body: object, *, kind: str = "application/merge-patch+json") -> int:
        kind = "application/json" if method == "POST" else kind
        return (await self.upstream.ask(method, path, body, user="admin", kind=kind)).status


def _definition(kind: str, text: str) -> object:
    def link(name: str, data: Mapping[str, str], **more: Any) -> object:
        metadata = {"name": f"${{schema.metadata.name}}-{name}", "namespace": "${schema.spec.place}"}
        return {
            "id": name,
            "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
            **more,
        }

    spec = {
        "ready": "boolean | default=true",
        "count": 'string | default="1"',
        "ghost": "boolean | default=false",
        "greedy": "boolean | default=false",
        "place": "string | default=default",
    }
    count = "${string(int(schema.spec.count) + (schema.spec.greedy ? size(lists.range(9000000000)) : 0))}"
    ghost = {"apiVersion": "ghost.test/v1", "kind": "Ghost", "metadata": {"name": "${schema.metadata.name}"}}
    resources = [
        link(
            "a",
            {"text": text, "count": count},
            readyWhen=["${schema.spec.ready}"],
        ),
        link("b", {"text": "${a.data.text}"}),
        link("c", {"text": "${b.data.text}"}),
        {"id": "ghost", "includeWhen": ["${schema.spec.ghost}"], "template": ghost},
    ]
    schema = {"group": GROUP, "apiVersion": "v1", "kind": kind, "spec": spec}
    metadata = {"name": f"{kind.lower()}s.{GROUP}"}
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": metadata,
        "spec": {"schema": schema, "propagateWhen": [], "resources": resources},
    }


def _admission() -> dict[str, object]:
    """Return a policy and a webhook, for one object each."""
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    ]
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "isolation.test"}}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "one", "expression": "object.metadata.name == 'denied-a'"}],
        "validations": [{"expression": "false", "reason": "Forbidden", "message": "not this one"}],
    }
    webhook = {
        "name": "down.isolation.test",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": rules,
        "matchConditions": [{"name": "one", "expression": "object.metadata.name == 'webhook-a'"}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "validatingadmissionpolicies": {**about, "kind": "ValidatingAdmissionPolicy", "spec": policy},
        "validatingadmissionpolicybindings": {
            **about,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": "isolation.test", "validationActions": ["Deny"]},
        },
        "validatingwebhookconfigurations": {**about, "kind": "ValidatingWebhookConfiguration", "webhooks": [webhook]},
    }


def _refusal(code: int, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "by script", "code": code}
    return HttpAnswer(code, {"Content-Type": "application/json", **(headers or {})}, json.dumps(body).encode())


def main(instances: int = INSTANCES) -> list[str]:
    return asyncio.run(_main(instances))


async def _main(instances: int) -> list[str]:
    good = frozenset(f"i{number:04}" for number in range(instances - len(FAULTS)))
    with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name, ControlPlane.start(Path(name), ()) as server:
        async with Upstream(server) as upstream:
            transport = await HttpTransport.open(choose_source(str(server.kubeconfig("levelgate")), None))
            return await Fleet(upstream, Shaken(transport), good).run()


if __name__ == "__main__":
    end(main(*map(int, sys.argv[1:2])))
