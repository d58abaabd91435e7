"""What each scenario of kills is about, taken out of the code: the bench must report a breach, or it watches for nothing there.

As with mutants the code under test is patched inside this process; here only after the scenario's clean runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any
from unittest import mock

from applier.errors import Invalid
from applier.execute import executor
from applier.execute.executor import Executor
from applier.plan import node_planner, prune_decision
from applier.plan.barriers import WriteBarriers
from applier.plan.prune_planner import PrunePlanner
from applier.plan.prune_readers import ReadOrder
from applier.plan.set_planner import ApplySetPlanner
from applier.state.field_conflicts import ConflictPolicy
from tests.support.faults.kills import KillBench
from tests.support.faults.lane import Lane
from tests.support.faults.mutants import last_first, without_dependencies, without_superset
from tests.support.faults.proxy import Moment
from tests.support.faults.scenarios import Scenario

Off = Callable[[], AbstractContextManager[object]]


def _without_barrier() -> Any:
    """What depends on a node starts before it."""
    return mock.patch.object(node_planner, "dependents_cause", return_value=None)


@contextmanager
def _with_one_dependency() -> Iterator[None]:
    """Of what an object records to use, only the first counts."""
    original = prune_decision.index_dependents

    def dependents(observed: Any, sets: Any) -> Any:
        found = original(observed, sets)
        return {dep: tuple(user for user in users if min(user.dependencies) == dep) for dep, users in found.items()}

    with last_first(), mock.patch.object(prune_decision, "index_dependents", dependents):
        yield


@contextmanager
def _with_all_users_or_none() -> Iterator[None]:
    """Who uses an object counts as long as all five do."""
    original = prune_decision._users

    def users(*arguments: Any) -> Any:
        found = original(*arguments)
        return found if len(found) == len("bcdef") else []

    with last_first(), mock.patch.object(prune_decision, "_users", users):
        yield


@contextmanager
def _let_go_at_once() -> Iterator[None]:
    """A deleted instance does not wait for its members."""
    original = ApplySetPlanner._plan_deleting

    def deleting(*arguments: Any) -> Any:
        return replace(original(*arguments), finish_deletion=True)

    async def nothing_left(*_: Any) -> None:
        return None

    with (
        mock.patch.object(ApplySetPlanner, "_plan_deleting", deleting),
        mock.patch.object(Executor, "_find_remaining", nothing_left),
    ):
        yield


def _orphans_of(wanted: Callable[[Any, Any], Mapping[Any, Any]]) -> Any:
    """Orphans are judged by another idea of what is wanted."""
    original = PrunePlanner.plan_candidates

    def orphans(planner: PrunePlanner, rendered: Any, *arguments: Any, **named: Any) -> Any:
        mistaken = replace(planner, wanting_sets=wanted(planner, rendered))
        return original(mistaken, rendered, *arguments, **named)

    return mock.patch.object(PrunePlanner, "plan_candidates", orphans)


def _by_its_own_set() -> Any:
    """What another set wants is not known."""
    return _orphans_of(
        lambda planner, rendered: {key: sets for key, sets in planner.wanting_sets.items() if rendered.id in sets}
    )


def _not_created_again() -> Any:
    """What is gone stays away."""

    def failure(_barriers: Any, _rendered: Any, _node: Any, key: Any, live: Any) -> Any:
        return Invalid(f"{key} was deleted") if live is None else None

    return mock.patch.object(WriteBarriers, "write_failure", failure)


@contextmanager
def _with_members_of_all() -> Iterator[None]:
    """Whatever carries a label of any set counts as a member of this one."""
    original = prune_decision.prune_candidates

    def orphans(rendered: Any, observed: Any, **named: Any) -> Any:
        everyone = tuple(chain.from_iterable(observed.members.values()))
        mistaken = mock.Mock(wraps=observed, members={rendered.id: everyone}, objects=observed.objects)
        return original(rendered, mistaken, **named)

    with _by_its_own_set(), mock.patch.object(prune_decision, "prune_candidates", orphans):
        yield


def _deleted_for_good() -> Any:
    """Who deletes an instance by hand means it."""

    def detaching(planner: ApplySetPlanner, rendered: Any, parent: Any, current: Any) -> Any:
        prune_planner = replace(planner.prune_planner, wanting_sets={})
        return replace(planner, prune_planner=prune_planner)._plan_deleting(rendered, parent, current)

    return mock.patch.object(ApplySetPlanner, "_plan_detaching", detaching)


def _drift_is_only_reported() -> Any:
    """Drift by another manager is a conflict."""
    return mock.patch.object(ConflictPolicy, "takes_from", return_value=False)


@contextmanager
def _whatever_it_holds() -> Iterator[None]:
    """Kinds and namespaces go before what is in them."""

    async def nothing(*_: Any) -> str:
        return ""

    with without_dependencies(), mock.patch.object(executor, "contents_of", nothing):
        yield


@contextmanager
def _without_readers() -> Iterator[None]:
    """What only reads an object keeps nothing."""
    with last_first(), mock.patch.object(ReadOrder, "going_first", {}):
        yield


SUBJECTS: Mapping[str, Off] = {
    "create": _without_barrier,
    "update": without_superset,
    "prune A-D": without_dependencies,
    "create a diamond": _without_barrier,
    "prune a diamond": _with_one_dependency,
    "create a fan-out of 5": _without_barrier,
    "prune a fan-out of 5": _with_all_users_or_none,
    "delete an instance": _let_go_at_once,
    "move between instances": _by_its_own_set,
    "move between sources": _by_its_own_set,
    "a kind and its object": without_superset,
    "a plain CRD and its object go": _whatever_it_holds,
    "two sets in one namespace": _with_members_of_all,
    "a revert during a prune": _not_created_again,
    "an instance deleted by hand": _deleted_for_good,
    "a CRD deleted by hand while an instance leaves": _deleted_for_good,
    "an instance and its namespace go together": _whatever_it_holds,
    "readers go with what they read": _without_readers,
    "drift by another manager": _drift_is_only_reported,
}


def subject(scenario: Scenario) -> str:
    """What is taken out, in words."""
    return SUBJECTS[scenario.name].__name__.strip("_").replace("_", " ")


async def noticed(scenario: Scenario, lane: Lane) -> str:
    """The first breach that the bench reports of this scenario without its subject; empty where it reports none."""
    bench = KillBench(scenario, lane, changed=SUBJECTS[scenario.name])
    await bench.prepare()
    async for point in bench.points(moments=(Moment.RECEIVED,)):
        if point.violations:
            return f"{point}: {point.violations[0]}"
    return ""
