"""What people suspend, in whole passes: an instance, a definition, a source, everything (docs/semantics.md, "Suspending")."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from applier.sandbox.wire import Request, Response
from gitops.errors import NewerRecords
from gitops.reconcile.tally import StateCounts
from gitops.records.display_state import DisplayState
from gitops.windows.window import LOCAL
from tests.support.link_platform import LinkPlatform
from tests.support.platform import MERGE, OWN

EVERYTHING = f"{OWN}/levelgate"
SOURCE = f"{OWN}/source-platform"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/links.g.test"
PLAIN = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain", "namespace": "default"}, "data": {"x": "1"}}'


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b")) as found:
        found.rules["plain.json"] = PLAIN
        yield found


def drift(fleet: LinkPlatform) -> None:
    """Somebody deletes a member of `a`; Git wants something else of all."""
    fleet.request("DELETE", "/apis/apps/v1/namespaces/default/deployments/a-app")
    fleet.rules["plain.json"] = PLAIN.replace('"x": "1"', '"x": "2"')
    fleet.push("two")


def plain(fleet: LinkPlatform) -> str:
    found: str = fleet.request("GET", "/api/v1/namespaces/default/configmaps/plain")["data"]["x"]
    return found


def test_while_everything_is_suspended_nothing_is_written(fleet: LinkPlatform) -> None:
    """Surface 5.2, "stop everything now": no content, no healing, no status, no record; and it goes on by itself when the time is over."""
    fleet.start()
    fleet.put(EVERYTHING, suspend="INC-7", suspend_until=(fleet.clock.now() + timedelta(hours=1)).isoformat())
    drift(fleet)
    version = fleet.sandbox.state.store.version
    found = fleet.step()
    assert fleet.sandbox.state.store.version == version
    assert (
        str(found.propagation.stopped and found.propagation.stopped.message)
        == "everything is suspended until 2026-11-20T13:00Z: INC-7"
    )
    assert found.propagation.wake_at == fleet.clock.now() + timedelta(hours=1)
    assert StateCounts.of_all(found.ledger).state is DisplayState.SUSPENDED
    fleet.step(timedelta(hours=1))
    assert (fleet.at("two"), plain(fleet)) == (["a"], "2")


def test_everything_can_be_stopped_in_the_middle_of_a_pass(fleet: LinkPlatform) -> None:
    """The round under way ends, no other begins."""
    fleet.start()
    drift(fleet)

    async def door(request: Request) -> Response:
        answer = await fleet.sandbox.answer(request)
        if request.method == "PATCH" and "controllerrevisions" in request.target:
            fleet.put(EVERYTHING, suspend="INC-7")
        return answer

    fleet.restart(door)
    found = fleet.step()
    assert found.propagation.stopped
    assert (fleet.deployed("two"), plain(fleet)) == (set(), "1")


def test_without_a_reason_it_is_suspended_all_the_same(fleet: LinkPlatform) -> None:
    """In an emergency nobody is asked for a form."""
    fleet.start()
    fleet.put(EVERYTHING, suspend="")
    drift(fleet)
    assert fleet.step().propagation.stopped
    fleet.put(EVERYTHING, suspend=None)
    fleet.step()
    assert plain(fleet) == "2"


def test_a_suspended_source_writes_nothing_of_its_own_and_its_instances(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.put(SOURCE, suspend="migration")
    drift(fleet)
    fleet.step()
    assert (fleet.deployed("two"), plain(fleet)) == (set(), "1")
    assert fleet.deployed("one") == {"b-app"}
    assert fleet.propagated("a") == ("Suspended", "source platform is suspended: migration")
    assert fleet.record().state == "Suspended"
    fleet.put(SOURCE, suspend=None)
    fleet.step()
    assert (fleet.at("two"), plain(fleet)) == (["a"], "2")


def test_a_suspension_that_ends_by_itself_is_looked_at_then(fleet: LinkPlatform) -> None:
    """Nobody has to say so, and nothing else has to happen: the pass tells when the next one is due."""
    fleet.start()
    ends = fleet.clock.now() + timedelta(hours=2)
    fleet.put(SOURCE, suspend="migration", suspend_until=ends.isoformat())
    drift(fleet)
    assert fleet.step().propagation.wake_at == ends
    assert fleet.step(timedelta(hours=1)).propagation.wake_at == ends
    assert plain(fleet) == "1"
    fleet.step(timedelta(hours=1))
    assert plain(fleet) == "2"


@pytest.mark.parametrize("place", ["git", "cluster"])
def test_a_suspended_definition_stops_its_crd_and_all_its_instances(fleet: LinkPlatform, place: str) -> None:
    """Everything else of the source goes on."""
    fleet.start()
    if place == "git":
        fleet.about = {"levelgate.dev/suspend": "schema review"}
    else:
        fleet.put(DEFINITION, suspend="schema review")
    drift(fleet)
    fleet.step()
    assert (fleet.deployed("two"), plain(fleet)) == (set(), "2")
    assert fleet.propagated("b") == ("Suspended", "definition links.g.test is suspended: schema review")
    fleet.about = {}
    fleet.put(DEFINITION, suspend=None)
    fleet.push()
    fleet.step()
    assert fleet.at("two") == ["a"]


def test_an_instance_that_leaves_git_while_its_source_is_suspended_stays(fleet: LinkPlatform) -> None:
    """No pruning either, also of what has begun to go."""
    fleet.start()
    fleet.names = ("a",)
    fleet.push()
    fleet.request(
        "PATCH", "/apis/apps/v1/namespaces/default/deployments/b-app", {"metadata": {"finalizers": ["x/y"]}}, MERGE
    )
    fleet.step()
    fleet.put(SOURCE, suspend="migration")
    fleet.request(
        "PATCH", "/apis/apps/v1/namespaces/default/deployments/b-app", {"metadata": {"finalizers": None}}, MERGE
    )
    for _ in range(3):
        fleet.step()
    assert fleet.status("b")
    fleet.put(SOURCE, suspend=None)
    for _ in range(3):
        fleet.step()
    assert not fleet.status("b")


def test_the_installation_says_which_version_looks_after_the_cluster(fleet: LinkPlatform) -> None:
    """Surface 3.1; written once, and again after it was deleted."""
    fleet.start()
    assert fleet.request("GET", EVERYTHING)["data"] == {"version": "0", "format": "1", "cluster": LOCAL}
    version = fleet.request("GET", EVERYTHING)["metadata"]["resourceVersion"]
    fleet.step()
    assert fleet.request("GET", EVERYTHING)["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize("written", ["2", "later"])
def test_a_version_refuses_the_records_of_a_later_one(fleet: LinkPlatform, written: str) -> None:
    """Surface 5.2, fault row "upgrade/downgrade": whatever is committed, the older version writes nothing at all, and says why."""
    fleet.start()
    fleet.request("PATCH", EVERYTHING, {"data": {"format": written, "version": "9.0"}}, MERGE)
    drift(fleet)
    version = fleet.sandbox.state.store.version
    with pytest.raises(NewerRecords, match=rf"format {written} of levelgate 9\.0, .* use levelgate 9\.0 or newer"):
        fleet.step()
    assert fleet.sandbox.state.store.version == version
