"""A chain of causes: its earliest end, its last object, and the references of its first link."""

from __future__ import annotations

from datetime import UTC, datetime

from applier.causes import Cause, CauseRef, Reason
from gitops.explain.explanation import CauseChain, WaitingLink, blockers_of
from gitops.records.display_state import DisplayState
from renderer.identity import ObjectKey

SHOP, CART = (ObjectKey("kro.run", "WebApp", "prod", name) for name in ("shop", "cart"))
OPENS = datetime(2026, 11, 23, 8, tzinfo=UTC)


def chain(*links: WaitingLink) -> CauseChain:
    return CauseChain(str(SHOP), DisplayState.WAITING, SHOP, chain=links)


def test_the_first_known_time_of_the_chain_counts() -> None:
    waits = WaitingLink(SHOP, Cause(Reason.PACE_REACHED))
    assert chain(waits, WaitingLink(CART, Cause(Reason.WINDOW_CLOSED, until=OPENS))).not_before == OPENS
    assert chain(waits).not_before is None
    assert chain().not_before is None


def test_the_last_object_is_that_of_the_last_link() -> None:
    claim = ObjectKey("", "PersistentVolumeClaim", "prod", "cart")
    broken = WaitingLink(CART, Cause(Reason.UNHEALTHY, object_key=claim))
    found = chain(WaitingLink(SHOP, Cause(Reason.PACE_REACHED)), broken)
    assert found.last_object == claim
    assert found.failures == (broken,)


def test_a_cause_without_references_stands_for_its_object() -> None:
    gate = CauseRef("Gate", "a.yaml:3", Reason.GATE_CLOSED)
    assert list(blockers_of(WaitingLink(SHOP, Cause(Reason.GATE_CLOSED, references=(gate,))))) == [gate]
    (own,) = blockers_of(WaitingLink(SHOP, Cause(Reason.RENDER_FAILED)))
    assert (own.kind, own.name) == ("Object", str(SHOP))
