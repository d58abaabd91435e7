"""`levelgate explain`: the chain from what was asked to what holds it up, in words and as JSON (docs/people.md)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from applier.causes import Cause, Reason
from gitops.cli import EXIT_USAGE
from gitops.explain.explanation import CauseChain, WaitingLink
from gitops.explain.phrasing import suggest_actions
from gitops.gates.evaluate import ExternalFact
from gitops.reconcile.source_acceptance import HeldCommit
from gitops.reconcile.sources import SourceState
from gitops.records.display_state import DisplayState
from gitops.records.source_record import UnreadableSource
from renderer import well_known
from renderer.catalog.catalog import load
from renderer.identity import ObjectKey, source_parent
from tests.support.cli import Typed
from tests.support.definitions import config_map
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import MERGE, commit_id
from tests.support.shops import HOURS, SHOPS, START, friday


def answer(typed: Typed, fleet: LinkPlatform, *ref: str, code: int = 0) -> list[str]:
    """Without the line that names the cluster."""
    header, empty, *lines = typed(fleet, "explain", *ref, code=code).splitlines()
    assert header.startswith("Cluster prod-eu, ")
    assert empty == ""
    return lines


def found(typed: Typed, fleet: LinkPlatform, *ref: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(typed(fleet, "explain", *ref, "-o", "json"))
    return told


CART = """\
  WindowClosed  default/cart, node database, ConfigMap/cart-db, since 14:02 CET
     ${inWindow("dba-hours")}        link.json:1
       inWindow("dba-hours") = false
""".splitlines()
WINDOW = """\
  window dba-hours (CHG-2210), Allow, closed since 11:00 CET
     opens  Mon 2026-11-23 09:00 CET   08:00Z
            Tue 2026-11-24 09:00 CET   08:00Z
            Wed 2026-11-25 09:00 CET   08:00Z
""".splitlines()
WAYS = [
    "",
    "Who can act",
    "  bypass the window of cart  levelgate break-glass link/cart -n default --for 1h --reason ...",
    "  change window dba-hours    in Git: dba-hours.json:1",
]


def numbered(first: int, *links: list[str]) -> list[str]:
    return [
        f"{number}{link[0]}" if not index else line
        for number, link in enumerate(links, first)
        for index, line in enumerate(link)
    ]


def test_one_that_waits_behind_another_is_told_the_whole_chain(held_up: LinkPlatform, typed: Typed) -> None:
    """surface 4.4: instance, pace, the other's node, its gate with operands, the window with three openings."""
    assert answer(typed, held_up, "link/shop") == [
        "Link default/shop stays at r1; r2 (0000000) waits since 14:02 CET.",
        "Not before Mon 2026-11-23 09:00 CET. Nothing has failed.",
        "",
        f"1  PaceReached   wave prod of links.{GROUP}, exponential 2",
        "     8th of 8; 4 may be in flight or settled, 4 are",
        "     settled api, auth, billing; not settled cart",
        "     when cart settles the limit rises from 4 to 8 and shop may start",
        *numbered(2, CART, WINDOW),
        "",
        "Open conditions: window business-hours (last start today 16:30 CET).",
        *WAYS[:2],
        "  let the others pass cart   levelgate hold link/cart -n default --reason ...",
        "  bypass the window of cart  levelgate break-glass link/cart -n default --for 1h --reason ...",
        "  change window dba-hours    in Git: dba-hours.json:1",
    ]


def test_who_can_act_can(held_up: LinkPlatform, typed: Typed) -> None:
    """surface 4.4, 1.2: the proposals do what they say: held, cart is passed and stays half way; with break-glass its database moves too."""
    held_up.annotate("cart", hold="the database waits until Monday")
    assert held_up.move("two", rounds=4) == [["catalog"], ["mail", "search", "shop"]]
    assert (
        answer(typed, held_up, "link/cart")[3]
        == "1  Held  default/cart, node database, ConfigMap/cart-db, since 15:20 CET"
    )
    held_up.annotate("cart", hold=None)
    until = held_up.clock.moment + timedelta(hours=1)
    held_up.annotate("cart", break_glass_reason="INC-7", break_glass_until=until.isoformat())
    held_up.step()
    assert held_up.waits()["cart"] == "Settled"
    overridden = [one for one in held_up.rollout().decisions if one.what == "overridden"]
    assert [(one.subject, one.by, one.why) for one in overridden] == [
        ("update ConfigMap/default/cart-db bypassing window dba-hours (CHG-2210)", "kubectl-annotate", "INC-7")
    ]


def test_the_json_has_what_blocks_it_and_the_chain(held_up: LinkPlatform, typed: Typed) -> None:
    """The contract of docs/reference.md; times in UTC."""
    told = found(typed, held_up, "link", "shop")
    assert (told["unit"], told["state"]) == (f"Link.{GROUP}/default/shop", "Waiting")
    monday = "2026-11-23T08:00:00Z"
    assert told["blockedBy"] == [
        {"kind": "Instance", "name": "default/cart", "reason": "WindowClosed", "since": None, "until": monday}
    ]
    pace, gate, window = told["chain"]
    assert (pace["position"]["place"], pace["settled"][-1], pace["unsettled"]) == (
        8,
        "default/billing",
        ["default/cart"],
    )
    assert gate["gates"][0]["operands"] == ['inWindow("dba-hours") = false']
    assert (window["window"], window["until"], len(window["opens"])) == ("dba-hours", monday, 3)


def test_external_facts_that_are_open_are_told_as_well(shops: LinkPlatform, typed: Typed) -> None:
    """surface 4.4: what was checked too and does not hold it up; a fact that is not so is a link of the chain instead."""
    known = {"error-budget": ExternalFact(True), "unasked": ExternalFact(True)}
    shops.reconciler.facts = lambda _: known
    shops.gates = ['${external("error-budget")}']
    friday(shops)
    assert answer(typed, shops, "link/shop")[-7:-4] == [
        "Open conditions: window business-hours (last start today 16:30 CET),",
        'external("error-budget") = true (since 14:02 CET).',
        "",
    ]
    told = found(typed, shops, "link/shop")
    assert (told["open"], told["externals"]) == (
        ["business-hours"],
        [{"name": "error-budget", "since": "2026-11-20T13:02:00Z"}],
    )
    known["error-budget"] = ExternalFact(False)
    shops.step()
    assert found(typed, shops, "link/shop")["externals"] == []
    assert found(typed, shops, "link/shop")["chain"][0]["reason"] == "GateClosed"


@pytest.mark.parametrize("ref", ["link/cart", "link/cart/database"])
def test_one_that_stopped_half_way(held_up: LinkPlatform, typed: Typed, ref: str) -> None:
    assert answer(typed, held_up, ref) == [
        "Link default/cart is in flight from r1 to r2 (0000000) since 14:02 CET.",
        "Not before Mon 2026-11-23 09:00 CET. Nothing has failed.",
        "",
        *numbered(1, CART, WINDOW),
        "",
        "Open conditions: window business-hours (last start today 16:30 CET).",
        *WAYS,
    ]


def test_a_member_of_an_instance_is_explained_by_its_node(held_up: LinkPlatform, typed: Typed) -> None:
    assert answer(typed, held_up, "configmap/cart-db")[:2] == [
        "ConfigMap default/cart-db waits since 14:02 CET.",
        "Not before Mon 2026-11-23 09:00 CET. Nothing has failed.",
    ]
    assert answer(typed, held_up, "configmap/api-app") == [
        "ConfigMap default/api-app matches Git: r2 (0000000), settled."
    ]


def test_a_source_that_waits_for_another_says_so_and_so_does_what_is_in_it_alone(typed: Typed) -> None:
    """Nothing of it is in the cluster; that it waits is."""
    with LinkPlatform(names=("a",)) as fleet:
        fleet.push()
        catalog = replace(fleet.state.catalog, source="shop")
        fleet.call(fleet.reconciler.reconcile([SourceState(catalog, ref="main", depends_on=("platform",))]))
        told = answer(typed, fleet, "source/shop")
        assert told[0] == "source/shop follows main at 0000000: Waiting, 0 of 1 instances settled."
        assert "     source shop waits until platform has been applied once" in told
        status = typed(fleet, "status")
        assert "source/shop        DependencyNotReady   source/platform" in status
        assert "Next: levelgate explain source/shop\n" in status
        why = "; no object of source/shop is applied yet; run levelgate explain source/shop\n"
        assert typed(fleet, "explain", "configmap/a-app", code=1).endswith(f"does not exist in cluster prod-eu{why}")
        assert typed(fleet, "explain", "link/a", code=1).endswith(why)


def test_what_has_settled_is_as_git_says(held_up: LinkPlatform, typed: Typed) -> None:
    assert answer(typed, held_up, "link/api") == ["Link default/api matches Git: r2 (0000000), settled."]
    assert found(typed, held_up, "link/api")["state"] == "Settled"


def test_a_source_and_a_rollout_say_how_far_they_are_and_who_waits(held_up: LinkPlatform, typed: Typed) -> None:
    waiting = [
        "  Link default/cart      WindowClosed   not before Mon 2026-11-23 09:00 CET",
        "  Link default/catalog   PaceReached    not before Mon 2026-11-23 09:00 CET",
    ]
    source = answer(typed, held_up, "source/platform")
    assert source[:3] == ["source/platform follows main at 0000000: Held, 3 of 8 instances settled.", *waiting]
    rollout = answer(typed, held_up, f"rollout/links.{GROUP}")
    assert rollout[:4] == [
        f"rollout/links.{GROUP} to r2: Held, 3 of 8 instances settled.",
        "  wave prod: 3 of 8 settled, 1 progressing, 4 waiting; exponential 2",
        *waiting,
    ]
    assert rollout[8:15] == numbered(1, CART, WINDOW)
    assert answer(typed, held_up, f"rgd/links.{GROUP}")[1:] == rollout[1:]


@pytest.mark.parametrize("name", ["string | required=true", "nonsense"], ids=["breaking", "broken"])
def test_a_definition_that_is_refused_says_where_and_why(typed: Typed, name: str) -> None:
    """S1-23: the last revision serves on, and all its instances have settled; that is not what Git says."""
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start()
        for _ in range(2):
            fleet.step()
        assert "settled.\n" in typed(fleet, "explain", f"rgd/links.{GROUP}")
        fleet.schema["name"] = name
        fleet.push()
        fleet.step()
        told = typed(fleet, "explain", f"rgd/links.{GROUP}")
        (problem,) = (line for line in told.splitlines() if "RenderFailed" in line)
        assert f"rgd/links.{GROUP} to r1: Failed, 2 of 2 instances settled.\n" in told
        assert "Levelgate rejects the newest version in Git; the last accepted version stays in force.\n" in told
        assert problem.startswith("  RenderFailed  link.json:1: spec.schema")
        asked = f"levelgate explain customresourcedefinition/links.{GROUP}"
        assert f"Next: {asked}\n" in typed(fleet, "status")
        assert "link.json:1: spec.schema" in typed(fleet, *asked.split()[1:])
        assert json.loads(typed(fleet, "explain", f"rgd/links.{GROUP}", "-o", "json"))["others"]


def test_a_window_says_what_it_holds_up(held_up: LinkPlatform, typed: Typed) -> None:
    assert answer(typed, held_up, "window/dba-hours") == [
        "window/dba-hours holds up:",
        "  Link default/cart   WindowClosed   not before Mon 2026-11-23 09:00 CET",
        "",
        *numbered(1, WINDOW),
        *WAYS[:2],
        "  change window dba-hours  in Git: dba-hours.json:1",
    ]
    assert answer(typed, held_up, "window/business-hours") == [
        "window/business-hours allows changes: last start today 16:30 CET.",
        "Nothing waits for window/business-hours.",
    ]


def test_a_window_that_governs_can_be_passed_by_break_glass(shops: LinkPlatform, typed: Typed) -> None:
    """Not one that forbids it."""
    shops.clock.moment = START + timedelta(hours=8)
    shops.push("two")
    shops.step()
    assert answer(typed, shops, "link/shop")[3:] == [
        "1  WindowClosed  default/shop, since 18:00 CET",
        "     waits for window business-hours, opens 2026-11-23T08:00Z (Mon 09:00 Europe/Berlin)",
        "2  window business-hours, Allow, closed since 17:00 CET",
        "     opens  Mon 2026-11-23 09:00 CET   08:00Z",
        "            Tue 2026-11-24 09:00 CET   08:00Z",
        "            Wed 2026-11-25 09:00 CET   08:00Z",
        "",
        "Who can act",
        "  bypass the window of shop     levelgate break-glass link/shop -n default --for 1h --reason ...",
        "  change window business-hours  in Git: business-hours.json:1",
    ]
    shops.push(**{"business-hours": {**HOURS, "breakGlass": "Forbidden"}})
    shops.step()
    assert "break-glass" not in "".join(answer(typed, shops, "link/shop"))


def test_a_freeze_says_when_it_ends(shops: LinkPlatform, typed: Typed) -> None:
    freeze = {"once": [{"start": "2026-11-20T12:00", "end": "2026-11-23T06:00"}]}
    shops.clock.moment = START + timedelta(hours=4)
    shops.push("two", freeze={"kind": "Deny", "timeZone": "Europe/Berlin", "schedule": freeze})
    shops.step()
    assert answer(typed, shops, "link/shop")[3:7] == [
        "1  WindowClosed  default/shop, since 14:00 CET",
        "     window freeze is closed, opens 2026-11-23T08:00Z (Mon 09:00 Europe/Berlin)",
        "2  window freeze, Deny, closed since 12:00 CET",
        "     ends   Mon 2026-11-23 06:00 CET   05:00Z",
    ]


def test_an_instance_that_does_not_exist_yet_is_explained_by_its_source(shops: LinkPlatform, typed: Typed) -> None:
    shops.clock.moment = START + timedelta(hours=8)
    shops.names = (*SHOPS, "zoo")
    shops.push()
    shops.step()
    assert answer(typed, shops, "link/zoo")[:4] == [
        "Link default/zoo waits since 18:00 CET.",
        "Not before Mon 2026-11-23 09:00 CET. Nothing has failed.",
        "",
        "1  WindowClosed  Link default/zoo, since 18:00 CET",
    ]
    assert answer(typed, shops, "source/platform")[0].endswith("8 of 9 instances settled.")
    assert answer(typed, shops, "window/business-hours")[:2] == [
        "window/business-hours holds up:",
        "  Link default/zoo   WindowClosed   not before Mon 2026-11-23 09:00 CET",
    ]
    assert found(typed, shops, "window/business-hours")["waiting"] == [f"Link.{GROUP}/default/zoo"]


def test_one_that_a_second_source_wants_is_explained_by_that(shops: LinkPlatform, typed: Typed) -> None:
    """`status` names it, and leads to it; that it is settled where it is answers nothing."""
    link = {"apiVersion": f"{GROUP}/v1", "kind": "Link", "metadata": {"name": "shop", "namespace": "default"}}
    other = load({"shop.json": json.dumps(link).encode()}, source="other", commit=commit_id(9))
    shops.call(shops.reconciler.reconcile([shops.state, SourceState(other)]))
    assert "levelgate explain link/shop -n default" in typed(shops, "status")
    assert "1  OwnedElsewhere  Link default/shop, since 10:00 CET" in answer(typed, shops, "link/shop")


def test_one_that_is_on_its_way_says_when_it_counts_as_failed(shops: LinkPlatform, typed: Typed) -> None:
    """And what it says behind it: the node, and how it is."""
    shops.push("two")
    shops.step()
    shops.ready("api", ready=False)
    shops.step()
    assert answer(typed, shops, "link/api") == [
        "Link default/api is in flight from r1 to r2 (0000000) since 10:00 CET.",
        "Nothing has failed.",
        "",
        "1  Progressing  default/api, node app, Deployment/api-app, since 10:00 CET",
        "     waits for app.status.availableReplicas; 0 of 1 available",
        "     dependents: after",
        "     counts as failed after 10:10 CET",
        "",
        "Open conditions: window business-hours (last start today 16:30 CET).",
    ]


def test_a_halt_leads_to_what_failed_and_says_how_to_go_on(shops: LinkPlatform, typed: Typed) -> None:
    shops.push("two")
    shops.move("two", except_for=["api"])
    shops.step(timedelta(minutes=11))
    lines = answer(typed, shops, "link/shop")
    assert lines[1] == "The wait does not end by itself: a person must act."
    assert lines[3:7] == [
        f"1  Halted     wave prod of links.{GROUP}",
        "     r2 has been halted since 2026-11-20T09:11:00Z by levelgate: 1 of 8 items failed in wave prod, more than the limit of 0",
        "2  Unhealthy  default/api, since 10:11 CET",
        "     not healthy at r2 within the progress deadline",
    ]
    assert lines[-3:] == [
        "  correct or revert it     in Git: a fix, or git revert",
        f"  resume the rollout       levelgate resume rollout/links.{GROUP} --reason ...",
        "  see the unhealthy nodes  levelgate tree link/api -n default",
    ]


@pytest.mark.parametrize(
    ("said", "reason", "action"),
    [
        ({"hold": "a game is running"}, "Held", "levelgate release link/api -n default"),
        ({"suspend": "INC-7"}, "Suspended", "levelgate resume link/api -n default"),
    ],
)
def test_the_word_of_a_person_says_how_to_take_it_back(
    shops: LinkPlatform, typed: Typed, said: dict[str, str], reason: str, action: str
) -> None:
    shops.annotate("api", **said)
    shops.push("two")
    shops.step()
    lines = answer(typed, shops, "link/api")
    assert lines[3].startswith(f"1  {reason}  default/api, since 10:00 CET")
    assert lines[-1].endswith(f"  {action}")


def test_an_approval_names_who_has_to_agree(shops: LinkPlatform, typed: Typed) -> None:
    policy = {
        "selector": {"rgds": [f"links.{GROUP}"]},
        "approvals": [{"after": {"settled": 1}, "by": ["platform-leads"]}],
    }
    shops.push("two", webapps=policy)
    shops.move("two")
    lines = answer(typed, shops, "link/shop")
    assert lines[3].startswith(f"1  ApprovalRequired  links.{GROUP}")
    assert lines[-1] == (f"  approve (platform-leads)  levelgate approve rollout/links.{GROUP} --after 1 --reason ...")


def test_a_closed_gate_says_where_it_stands(shops: LinkPlatform, typed: Typed) -> None:
    shops.gates = ["${each.metadata.name != 'api'}"]
    shops.push("two")
    shops.step()
    assert answer(typed, shops, "link/api")[3:] == [
        "1  GateClosed  default/api, since 10:00 CET",
        "     ${each.metadata.name != 'api'}        link.json:1",
        '       each.metadata.name = "api"',
        "",
        "Open conditions: window business-hours (last start today 16:30 CET).",
        "",
        "Who can act",
        "  change the condition  in Git: link.json:1",
    ]


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("link/nobody", "Link.g.test/default/nobody does not exist in cluster prod-eu"),
        ("link/shop/aftr", "Link.g.test/default/shop has no object of a node 'aftr'; did you mean 'after'?"),
        ("link/shop/0", "Link.g.test/default/shop has no object of a node '0'; choose from after, app"),
        ("source/other", "source 'other' is not in cluster prod-eu; its sources are: platform"),
        ("rollout/other", "rollout 'other' is not in cluster prod-eu"),
        (
            "window/other",
            "window 'other' is not in force in cluster prod-eu; its windows are: business-hours, dba-hours",
        ),
        ("namespace/default", "is not in a set of cluster prod-eu, so the object is not from Git"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(
    shops: LinkPlatform, typed: Typed, ref: str, said: str
) -> None:
    assert said in typed(shops, "explain", ref, code=1)


def test_a_reference_that_names_nothing_is_wrong_usage(shops: LinkPlatform, typed: Typed) -> None:
    assert "is not a reference" in typed(shops, "explain", "shop", code=EXIT_USAGE)


def test_a_rule_of_health_is_told_with_its_age_and_its_deadline(shops: LinkPlatform, typed: Typed) -> None:
    """Issue of gates: the node, what kstatus says of it, since when, and when that counts as a failure."""
    pods = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "w", "image": "IMAGE"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "w"}}, "template": pods}
    workers = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "${schema.metadata.name}-w"},
        "spec": spec,
    }
    shops.more = [{"id": "workers", "template": workers}]
    shops.push("two")
    shops.step()
    shops.ready("api")
    path = "/apis/apps/v1/namespaces/default/deployments/api-w"
    counts = {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 1, "availableReplicas": 1}
    shops.request("PATCH", f"{path}/status", {"status": counts}, MERGE)
    shops.step(timedelta(minutes=2))
    assert answer(typed, shops, "link/api")[:7] == [
        "Link default/api is at r2 (0000000) and not settled since 10:00 CET.",
        "Nothing has failed.",
        "",
        "1  Progressing  default/api, node workers, Deployment/api-w, since 10:00 CET",
        "     1 of 3 available",
        "     counts as failed after 10:12 CET",
        "",
    ]
    shops.step(timedelta(minutes=11))
    assert answer(typed, shops, "link/api")[1:6] == [
        "The wait does not end by itself: a person must act.",
        "",
        "1  Unhealthy  default/api, since 10:13 CET",
        "     not healthy at r2 within the progress deadline",
        "",
    ]
    assert "  Progressing  workers 1 of 3 available" in answer(typed, shops, "link/api")


def test_what_the_server_refuses_is_told_once_by_its_node_and_says_what_to_do(typed: Typed) -> None:
    """The rollout that it halts leads to it as well."""
    metadata = {"name": "${app.metadata.name}", "labels": {"image": "IMAGE"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    with LinkPlatform(names=("a", "b"), more=[{"id": "service", "template": service}]) as fleet:
        fleet.start()
        fleet.push("not a label!")
        fleet.step()
        fleet.ready("a")
        fleet.step()
        mend = "  correct or revert it  in Git: a fix, or git revert"
        instance = answer(typed, fleet, "link/a")
        assert instance[3].startswith("1  ApplyFailed  default/a, node service, Service/a-app, since ")
        assert instance[4].startswith('     apply Service/default/a-app: Service "a-app" is invalid: metadata.labels: ')
        assert instance[5:] == ["", "Who can act", mend]
        rollout = answer(typed, fleet, f"rollout/links.{GROUP}")
        assert rollout[0].startswith(f"rollout/links.{GROUP} to r2: Failed, ")
        assert [line[:14] for line in rollout if line[:1].isdigit()] == ["1  Halted     ", "2  ApplyFailed"]
        assert rollout[-2] == mend
        assert rollout[-1].endswith(f"levelgate resume rollout/links.{GROUP} --reason ...")
        told = [line for line in typed(fleet, "status").splitlines() if line.startswith("ApplyFailed: ")]
        assert len(told) == 1
        assert told[0].startswith("ApplyFailed: default  link/a node service: apply Service/")


WHOSE = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations "
IN_GIT = "in Git: a fix"


@pytest.mark.parametrize(
    ("said", "ways"),
    [
        (
            'failed calling webhook "strict.test": connection refused',
            [("repair the service of the webhook, or delete the webhook configuration", WHOSE)],
        ),
        (
            'admission webhook "strict.test" denied the request: no',
            [("find the owner of webhook strict.test", WHOSE), ("correct or revert it", IN_GIT)],
        ),
        (
            "services \"a\" is forbidden: ValidatingAdmissionPolicy 'owned' with binding 'all' denied request: no owner",
            [
                ("read the policy, and find its owner", "kubectl describe validatingadmissionpolicy owned"),
                ("correct or revert it", IN_GIT),
            ],
        ),
        ("Service is invalid: spec.ports: Required value", [("correct or revert it", IN_GIT)]),
    ],
)
def test_who_refused_is_named_beside_a_fix_in_git(said: str, ways: list[tuple[str, str]]) -> None:
    """One that nobody answers is mended in no commit."""
    key = ObjectKey("", "Service", "default", "a")
    cause = Cause(Reason.APPLY_FAILED, f"apply Service/default/a: {said}", object_key=key)
    found = list(suggest_actions(CauseChain(str(key), DisplayState.FAILED, key, chain=(WaitingLink(key, cause),))))
    assert [(what[: len(want)], how[: len(way)]) for (what, how), (want, way) in zip(found, ways, strict=True)] == ways


def test_a_source_that_cannot_be_read_says_why_to_programs_too(typed: Typed) -> None:
    with LinkPlatform(names=("a",)) as fleet:
        fleet.start()
        assert found(typed, fleet, "source/platform")["unreadable"] is None
        why = UnreadableSource("2026-11-20T12:00:00Z", "no answer")
        fleet.call(
            fleet.cluster.merge(
                source_parent("platform"),
                {"metadata": {"annotations": {well_known.UNREADABLE: why.encode()}}},
                manager="levelgate",
            )
        )
        assert found(typed, fleet, "source/platform")["unreadable"] == {"since": why.since, "why": why.why}


def test_a_wave_leads_to_whom_it_waits_for(typed: Typed) -> None:
    """On call: that prod waits for staging says nothing; that staging's b is not ready does."""
    waves = [{"name": name, "selector": {"matchLabels": {"stage": name}}} for name in ("staging", "prod")]
    stages = {"a": "prod", "b": "staging", "c": "staging"}
    written = {name: {"metadata": {"labels": {"stage": stage}}} for name, stage in stages.items()}
    policy = {"selector": {"rgds": [f"links.{GROUP}"]}, "shape": {"linear": {"n": 2}}, "waves": waves}
    with LinkPlatform(names=tuple(stages), written=written) as fleet:
        fleet.push(webapps=policy)
        for _ in range(3):
            fleet.step()
        fleet.ready("c")
        fleet.step()
        chain = found(typed, fleet, "link/a")["chain"]
        assert [(link["unit"], link["reason"]) for link in chain] == [
            (f"Link.{GROUP}/default/a", "WaveNotReached"),
            (f"Link.{GROUP}/default/b", "Progressing"),
        ]
        (row,) = [line for line in typed(fleet, "status").splitlines() if line.startswith("default  link/a ")]
        assert row.split()[2:] == ["WaveNotReached", "default", "link/b"]
        node = found(typed, fleet, "link/a/app")["chain"][0]
        assert (node["node"], [one["name"] for one in node["blockedBy"]]) == ("app", ["default/b"])


def test_what_the_cluster_does_not_serve_can_be_asked_for(typed: Typed) -> None:
    """`status` names it, and leads to it before all that merely waits; so `explain` has to know it."""
    metadata = {"name": "tls", "namespace": "default"}
    certificate = {"apiVersion": "cert.test/v1", "kind": "Certificate", "metadata": metadata, "spec": {}}
    with LinkPlatform(names=("a",), plain={"tls.json": certificate}) as fleet:
        fleet.push()
        for _ in range(3):
            fleet.step()
        told = typed(fleet, "status").splitlines()
        assert told[-1] == "Next: levelgate explain certificate/tls -n default"
        assert told[-2].startswith(
            "ApplyFailed: default  certificate/tls: Certificate.cert.test: the cluster does not serve"
        )
        for word in ("certificate/tls", "Certificate.cert.test/tls"):
            assert "1  ApplyFailed  Certificate default/tls, since 13:00 CET" in answer(typed, fleet, word)
        for word, namespace in (
            ("certificate/tls", "other"),
            ("certificate/other", "default"),
            ("cert/tls", "default"),
        ):
            assert "the cluster serves no kind" in typed(fleet, "explain", word, "-n", namespace, code=1)


def test_what_is_to_go_and_may_not_is_never_called_as_git_says(typed: Typed) -> None:
    """Rule 12: a person asks about one of the objects that the brake holds, not about the source; the answer can be copied."""
    names = [f"m{number}" for number in range(8)]
    plain = {f"{one}.json": json.loads(config_map("default", one, a="b")) for one in names}
    with LinkPlatform(names=("a",), plain=plain) as fleet:
        fleet.start()
        fleet.plain = {}
        fleet.push()
        fleet.step()
        act = f"  approve the deletions  levelgate approve source/platform --commit {commit_id(fleet.commits)[:12]}"
        for ref in ("configmap/m1", "source/platform"):
            told = answer(typed, fleet, ref)
            assert "8 of 12 objects would be deleted" in " ".join(told)
            assert "as Git says" not in " ".join(told)
            assert told[-1] == act


@pytest.mark.parametrize("reason", [Reason.HISTORY_REWRITTEN, Reason.UNSIGNED, Reason.APPROVAL_REQUIRED])
def test_a_commit_that_waits_for_a_person_can_be_agreed_to_as_it_stands(typed: Typed, reason: Reason) -> None:
    """The answer can be copied: it names the commit that is offered, and no rollout."""
    with LinkPlatform(names=("a",)) as fleet:
        fleet.start()
        offered = replace(fleet.state, offer=HeldCommit("b" * 40, "its plan is another one", reason))
        fleet.call(fleet.reconciler.reconcile([offered]))
        told = answer(typed, fleet, "source/platform")
        assert told[-1] == f"  approve the commit  levelgate approve source/platform --commit {'b' * 12}"


def test_an_instance_that_is_being_deleted_says_so(typed: Typed) -> None:
    """A finalizer of somebody's on what it is made of: it has not "not been applied yet"."""
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start()
        path = "/apis/apps/v1/namespaces/default/deployments/a-app"
        fleet.request("PATCH", f"{path}?fieldManager=x", {"metadata": {"finalizers": ["example.org/hold"]}}, MERGE)
        fleet.names = ("b",)
        fleet.push()
        for _ in range(3):
            fleet.step()
        told = answer(typed, fleet, "link/a")
        assert told[0].startswith("Link default/a is being deleted since ")
        assert "example.org/hold (set by x)" in " ".join(told)
