"""Gates that wait for one another are told as what they are: nothing but a commit ends that, and the circle is named as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.support.link_platform import LinkPlatform

LATE: dict[str, Any] = {
    "id": "late",
    "template": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-late"},
        "data": {"image": "IMAGE"},
    },
}
PEER: dict[str, Any] = {
    "id": "peer",
    "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.peer + '-late'}"}},
}
BEHIND_PEER: dict[str, Any] = {
    **LATE,
    "propagateWhen": ["${peer.data.image == 'IMAGE'}"],
    "template": {**LATE["template"], "data": {"image": "IMAGE", "peer": "${peer.metadata.name}"}},
}


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    """Two instances that run, each with a ConfigMap of its own; each names the other as its peer."""
    written = {"a": {"peer": "b"}, "b": {"peer": "a"}}
    schema = {"text": "string | default=one", "peer": "string"}
    with LinkPlatform(names=("a", "b"), written=written, schema=schema, more=[LATE]) as found:
        found.start()
        yield found


@pytest.mark.parametrize("n", ["100%", 1], ids=["both move", "one moves, the other waits for its turn"])
def test_gates_that_read_each_others_members_are_deadlocked(fleet: LinkPlatform, n: str | int) -> None:
    """The ConfigMap of each instance may change once that of the other one has. Neither ever does."""
    fleet.more = [PEER, BEHIND_PEER]
    fleet.push("two", everybody={"shape": {"linear": {"n": n}}})
    fleet.settle()
    fleet.ready("a", "b")
    fleet.settle()
    for _ in range(2):
        told = {name: fleet.propagated(name) for name in fleet.names}
        assert {reason for reason, _ in told.values()} == {"Deadlocked"}, told
        assert "default/a -> default/b -> default/a" in told["a"][1]
        assert "default/b -> default/a -> default/b" in told["b"][1]
        fleet.step(timedelta(hours=1))


def test_a_gate_that_somebody_else_may_open_is_no_deadlock(fleet: LinkPlatform) -> None:
    """It reads a ConfigMap of its peer, and one that no source declares."""
    metadata = {"name": "foreign", "namespace": "default"}
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"image": "none"}}
    fleet.request("POST", "/api/v1/namespaces/default/configmaps", foreign)
    named: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign"}}
    gates = [*BEHIND_PEER["propagateWhen"], "${foreign.data.image == 'IMAGE'}"]
    template = {**LATE["template"], "data": {"image": "IMAGE", "read": "${peer.metadata.name + foreign.metadata.name}"}}
    late = {**LATE, "propagateWhen": gates, "template": template}
    fleet.more = [PEER, {"id": "foreign", "externalRef": named}, late]
    fleet.push("two", everybody={"shape": {"linear": {"n": "100%"}}})
    fleet.settle()
    fleet.ready("a", "b")
    fleet.settle()
    assert {fleet.propagated(name)[0] for name in fleet.names} == {"GateClosed"}


def test_the_circle_that_is_named_is_the_real_one(fleet: LinkPlatform) -> None:
    """The gate of `a` asks of `b` alone, and that of `b` of `a`: no instance waits for itself."""
    fleet.gates = ["${links.filter(x, x.metadata.name == each.spec.peer).all(x, x.settled())}"]
    fleet.push("two")
    fleet.settle()
    told = {name: fleet.propagated(name) for name in fleet.names}
    assert {reason for reason, _ in told.values()} == {"Deadlocked"}, told
    assert "waits in a cycle: default/a -> default/b -> default/a;" in told["a"][1]
    assert "waits in a cycle: default/b -> default/a -> default/b;" in told["b"][1]


def test_who_waits_for_a_circle_names_its_own_way_into_it() -> None:
    """`c` waits for `a`, and `a` and `b` for each other. All three have not settled, and the gate reads all instances."""
    peers = {"a": "b", "b": "a", "c": "a"}
    schema = {"text": "string | default=one", "peer": "string"}
    written = {name: {"peer": peer} for name, peer in peers.items()}
    with LinkPlatform(names=tuple(peers), written=written, schema=schema, more=[LATE]) as fleet:
        fleet.start()
        fleet.gates = ["${links.filter(x, x.metadata.name == each.spec.peer).all(x, x.settled())}"]
        fleet.push("two")
        fleet.settle()
        told = {name: fleet.propagated(name)[1] for name in fleet.names}
    assert "waits in a cycle: default/a -> default/b -> default/a;" in told["a"]
    assert "waits in a cycle: default/b -> default/a -> default/b;" in told["b"]
    assert "waits for an instance that waits in a cycle: default/c -> default/a;" in told["c"]
