"""Commands that show what is, typed by somebody who may not read all of it (docs/people.md, "Who may look")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from applier.sandbox.api.request_path import parse_request_path
from applier.sandbox.wire import Refusal, Request, Response, UnknownPathError
from tests.support.cli import Printed
from tests.support.fault_injector import InjectedFault, RefusedRequest
from tests.support.link_platform import GROUP, LinkPlatform

DEPLOY = Path(__file__).parents[2] / "deploy"
NOT_ALL = "Some objects are missing, because you do not have the permissions: "
RECORDS = InjectedFault(RefusedRequest(403), plural="configmaps", namespace="levelgate-system")
CLUSTER_WIDE = InjectedFault(RefusedRequest(403), verb="list", plural="links", namespace="")


@contextmanager
def denied(fleet: LinkPlatform, *faults: InjectedFault) -> Iterator[None]:
    fleet.faulty.faults = faults
    yield
    fleet.faulty.faults = ()


def test_one_kind_that_may_not_be_listed_costs_no_more_than_itself(held_up: LinkPlatform, printed: Printed) -> None:
    """surface 1.1, 4.3: sources and rollouts are shown; one line says what is missing, and the exit code that it is."""
    whole, _ = printed(held_up, "status")
    with denied(held_up, InjectedFault(RefusedRequest(403), verb="list", plural="links")):
        out, err = printed(held_up, "status", code=1)
        told, _ = printed(held_up, "status", "-o", "json", code=1)
    assert out.splitlines()[:3] == whole.splitlines()[:3]
    assert "links.g.test   r2" in out
    assert "link/cart" not in out
    assert out.endswith("\nNothing that you may read waits or fails.\n")
    assert err == f"\n{NOT_ALL}list links.{GROUP}. Ask for a role from deploy/people.yaml.\n"
    assert json.loads(told)["denied"] == [f"list links.{GROUP}"]


def test_what_may_be_listed_in_its_namespaces_is(held_up: LinkPlatform, printed: Printed) -> None:
    """A team may list in its namespaces only: they are asked one by one, and nothing is missing."""
    for arguments in (["status"], ["status", "-n", "default"], ["tree", "source/platform"], ["explain", "link/shop"]):
        whole = printed(held_up, *arguments)
        with denied(held_up, CLUSTER_WIDE):
            assert printed(held_up, *arguments) == whole


@pytest.mark.parametrize("command", ["status", "explain", "tree"])
def test_who_may_read_an_instance_alone_is_told_of_it(held_up: LinkPlatform, printed: Printed, command: str) -> None:
    with denied(held_up, RECORDS, CLUSTER_WIDE):
        out, err = printed(held_up, command, "link/cart", "-n", "default", code=0 if command == "tree" else 1)
    assert "cart" in out
    if command != "tree":
        assert "WindowClosed" in out
        assert f"{NOT_ALL}get configmaps in namespace levelgate-system; list configmaps in" in err


def test_nothing_is_never_said_to_be_absent_because_it_may_not_be_read(held_up: LinkPlatform, printed: Printed) -> None:
    with denied(held_up, RECORDS):
        for arguments in (["status"], ["windows"], ["explain", "source/platform"], ["wait", f"rollout/links.{GROUP}"]):
            out, err = printed(held_up, *arguments, code=1)
            assert out == ""
            assert f"{NOT_ALL}" in err
    with denied(held_up, InjectedFault(RefusedRequest(403), plural="links")):
        for command in ("status", "explain", "tree", "wait"):
            out, err = printed(held_up, command, "link/cart", code=1)
            assert "does not exist" not in err
            assert out == "" or command == "status"


def test_a_wait_for_a_rollout_counts_no_instance_that_may_not_be_listed(
    held_up: LinkPlatform, printed: Printed
) -> None:
    with denied(held_up, InjectedFault(RefusedRequest(403), verb="list", plural="links")):
        _, err = printed(held_up, "wait", f"rollout/links.{GROUP}", "--timeout", "2m", code=1)
    assert "is not readable" in err


def test_events_of_the_namespaces_that_may_be_listed(held_up: LinkPlatform, printed: Printed) -> None:
    whole, _ = printed(held_up, "events", "-n", "default")
    with denied(held_up, InjectedFault(RefusedRequest(403), verb="list", plural="events", namespace="")):
        out, err = printed(held_up, "events")
        assert (out, err) == (whole, "")
    with denied(held_up, InjectedFault(RefusedRequest(403), verb="list", plural="events")):
        out, err = printed(held_up, "logs", "--tail", "1", code=1)
        assert "Link default/" in out
        assert f"{NOT_ALL}list events.events.k8s.io" in err


def test_credentials_that_are_not_known_end_at_once(held_up: LinkPlatform, printed: Printed) -> None:
    with denied(held_up, InjectedFault(RefusedRequest(401))):
        for command in ("status", "events", "history"):
            out, err = printed(held_up, command, code=1)
            assert out == ""
            assert err.startswith("Error: ")
            assert NOT_ALL not in err


def test_who_may_not_list_is_told_of_a_misspelt_name_all_the_same(held_up: LinkPlatform, printed: Printed) -> None:
    with denied(held_up, InjectedFault(RefusedRequest(403), verb="list")):
        out, err = printed(held_up, "hold", "link/chart", "--reason", "x", code=1)
    assert out == ""
    assert err.startswith(
        "Error: link/chart does not exist in namespace default in cluster prod-eu; for an object that is only in Git"
    )


def test_a_namespace_that_is_not_there_is_named(held_up: LinkPlatform, printed: Printed) -> None:
    _, err = printed(held_up, "status", "link/cart", "-n", "prdo", code=1)
    assert "link/cart in namespace prdo" in err
    assert "No instance is in namespace prdo." in printed(held_up, "status", "-n", "prdo")[0]
    assert "No instance" not in printed(held_up, "status", "-n", "default")[0]


class Roles:
    """A door that lets pass what these roles of deploy/people.yaml allow, a Role in its own namespace, ClusterRoles in all (RBAC's rules)."""

    def __init__(self, fleet: LinkPlatform, *names: str) -> None:
        text = (DEPLOY / "people.yaml").read_text().replace("platform.example.com", GROUP)
        text = text.replace("webapp.kro.run", f"links.{GROUP}")
        self.roles = [one for one in yaml.safe_load_all(text) if one["metadata"]["name"] in names]
        self.door = fleet.sandbox.answer

    async def answer(self, request: Request) -> Response:
        try:
            where = parse_request_path(request)
        except (UnknownPathError, Refusal):  # what is served, and who one is, everybody may ask
            return await self.door(request)
        if where.group != "authentication.k8s.io" and not any(
            (role["metadata"].get("namespace", where.namespace) == where.namespace)
            and where.group in rule["apiGroups"]
            and {where.plural, "*"} & set(rule["resources"])
            and where.verb in rule["verbs"]
            and where.name in rule.get("resourceNames", [where.name])
            for role in self.roles
            for rule in role["rules"]
        ):
            return Refusal(403, "Forbidden", f"cannot {where.verb} {where.plural}", details={}).response
        return await self.door(request)


@contextmanager
def bound(fleet: LinkPlatform, *names: str) -> Iterator[None]:
    before = fleet.sandbox
    fleet.sandbox = cast(Any, Roles(fleet, *names))
    yield
    fleet.sandbox = before


READER = ("levelgate-reader", "levelgate-definitions-reader")


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("explain", "link/shop"),
        ("explain", f"rgd/links.{GROUP}"),
        ("tree", "source/platform"),
        ("tree", "link/cart"),
        ("events",),
        ("logs", "link/cart"),
        ("history",),
        ("windows",),
        ("wait", "link/api"),
    ],
)
def test_the_roles_of_readers_are_enough(held_up: LinkPlatform, printed: Printed, words: tuple[str, ...]) -> None:
    whole = printed(held_up, *words)
    with bound(held_up, *READER):
        assert printed(held_up, *words) == whole
    with bound(held_up, "none"):
        printed(held_up, *words, code=1)


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("levelgate-operator", ("hold", "link/cart", "-n", "default", "--reason", "INC-7")),
        ("levelgate-approver", ("halt", f"rollout/links.{GROUP}", "--reason", "INC-7")),
        ("levelgate-approver", ("reconcile", "source/platform")),
    ],
)
def test_the_roles_of_those_who_order_are_enough(
    held_up: LinkPlatform, printed: Printed, role: str, words: tuple[str, ...]
) -> None:
    with bound(held_up, *READER):
        printed(held_up, *words, code=1)
    with bound(held_up, role, "levelgate-definitions-reader"):
        printed(held_up, *words)
