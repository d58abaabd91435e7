"""What may move and what may be written, now: rollouts, windows and people's words, put together for one pass.

A rendering needs to know which revision each instance is at, a rollout needs to know how each instance is: so the pass renders and plans, asks
`decide`, and renders and plans again while that lets more move. Nothing is written before it grants nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial

from applier.applyset.inventory import target_revision_of
from applier.causes import Cause
from applier.plan.model import Barrier, CandidateChange, ChangePermissions, PermissionAnswer
from applier.state.observed import Observed
from gitops.decisions import suspension
from gitops.decisions.decision import Decision, Override
from gitops.decisions.explanation import Explanation, explain_instances
from gitops.decisions.inputs import DecisionInputs
from gitops.decisions.permission import ChangeJudge
from gitops.decisions.plain_objects import SourceRequests, remembered_directives
from gitops.decisions.rollouts import RolloutDecisions
from gitops.decisions.window_verdicts import WindowVerdicts, instance_of
from gitops.rollouts.state import DecisionRecord
from renderer.identity import ObjectKey, source_parent
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.model import Rendering
from renderer.render.revisions import StoredRevisions


def initial_placements(observed: Observed, stored: StoredRevisions) -> Decision:
    """Return where instances are, before anything is rendered. The gates are open: nothing acts on this decision."""
    at = {key: pair.revision for key, pair in stored.applied.items()}
    for key, obj in observed.objects.items():
        if target := target_revision_of(obj):
            at[key] = target
    return Decision({key: RevisionPlacement(number) for key, number in at.items()})


def suspended_decision(bundle: Rendering, observed: Observed, now: datetime) -> Decision | None:
    """What holds while a person has suspended everything; None where nobody has."""
    if not (why := suspension.installation_suspension(observed, now)):
        return None
    gates = ChangePermissions(lambda _: why, suspended={one.parent: why for one in bundle.sets})
    return Decision(gates=gates, wake_at=why.until, stopped=why)


def decide_changes(here: DecisionInputs) -> Decision:
    """What may move now, given how everything is."""
    verdicts = WindowVerdicts(here)
    suspended = dict(here.suspensions.waits(here.now))
    moves = RolloutDecisions(here, verdicts, suspended)
    permission = ChangeJudge(
        here,
        verdicts,
        suspended,
        {**here.object_holds, **moves.holds},
        here.source_holds,
        frozenset(moves.frozen),
        moves.unruled,
        moves.policies,
    )
    barriers = {key: policy.barrier for key, policy in moves.policies.items() if policy.barrier is not Barrier.PATH}
    holds = (*here.object_holds.values(), *here.source_holds.values())
    edges = {*moves.edges, *verdicts.edges, *(end for end in here.suspensions.ends if end > here.now)}
    edges |= {hold.until for hold in holds if hold.until}
    rules = here.conditions.rules
    return Decision(
        moves.places,
        ChangePermissions(permission, moves.targets, permission.suspended, barriers),
        permission.frozen,
        moves.states,
        {source: one.accepted for source, one in rules.items()},
        min({*moves.wake_ups, *edges}, default=None),
        min(edges, default=None),
        tuple(moves.problems),
        {source: one.problems for source, one in rules.items() if one.problems},
        explain=partial(explain, permission, moves),
        source_requests=_source_requests(here),
    )


def is_fixpoint(decided: Decision, here: DecisionInputs, answers: Iterable[PermissionAnswer]) -> bool:
    """Would deciding again come to the same, because nothing came out of the decision in `here` that it was not made with? Rendering, plan and
    decision rest on where instances are, on the `answers` of the gates and on what rollouts remember. A revision that was left open is the one
    that the rendering has taken.
    """
    instances = here.bundle.instances

    def taken(key: ObjectKey, place: RevisionPlacement) -> RevisionPlacement:
        aim = place.aim or (instances[key].target_revision if key in instances else 0)
        return RevisionPlacement(place.revision or aim, aim)

    places, states = here.before.places, here.states
    return (
        all(
            taken(key, places.get(key, RevisionPlacement())) == taken(key, place)
            for key, place in decided.places.items()
        )
        and decided.states.keys() == states.keys()
        and all(states[name].without_report == state.without_report for name, state in decided.states.items())
        and decided.gates.gives_same_answers(here.before.gates, answers)
    )


def explain(permission: ChangeJudge, moves: RolloutDecisions, decided: Decision) -> Decision:
    """With why each instance stays where it is; see `Decision`."""
    here = moves.situation
    found = explain_instances(moves.rollouts, here.plans, here.now)
    blocked = {**moves.unruled, **found.blocked}
    states = {name: decided.states[name].with_forecast(ahead) for name, ahead in found.ahead.items()}
    return replace(
        decided,
        states={**decided.states, **states},
        gates=replace(decided.gates, check=replace(permission, stays=blocked)),
        stays=blocked,
        remembered={
            key: {**remembered_directives(key, asked, here.since), **found.remembered.get(key, {})}
            for key, asked in here.asked.items()
        },
        counted=found.counted,
        awaited=found.awaited,
        rollouts={one.name: one for one in moves.rollouts},
        under_glass=partial(_under_glass, permission, found),
    )


def all_causes(decided: Decision, here: DecisionInputs) -> Callable[[CandidateChange], tuple[Cause, ...]]:
    """All that stands in the way of a change of the plan in `here`, by what was decided; but for whether its instance has its turn."""
    check = decided.gates.check
    if not isinstance(check, ChangeJudge):
        return lambda change: tuple(filter(None, [check(change)]))
    asked = check.for_plan(here)
    return lambda change: tuple(asked.all_causes(change))


def find_overrides(decided: Decision, here: DecisionInputs) -> Callable[[CandidateChange], DecisionRecord | None]:
    """What lets a change of the plan in `here` past windows that are closed; None where nothing does, or something else holds it."""
    check = decided.gates.check
    if not isinstance(check, ChangeJudge):
        return lambda _: None
    asked = check.for_plan(here)

    def find_override(change: CandidateChange) -> DecisionRecord | None:
        # Few changes have a break-glass; what holds a change costs more to find.
        entry = asked.override_record(change)
        return None if entry is None or any(asked.all_causes(change)) else entry

    return find_override


def _under_glass(permission: ChangeJudge, found: Explanation, change: CandidateChange) -> Override | None:
    """Recorded with the rollout of the instance; with that of its definition, where the instance is in none any more; else with the source."""
    if not (entry := permission.override_record(change)):
        return None
    instance = instance_of(change)
    definition = permission.situation.bundle.definitions.get(instance.group_kind)
    known = found.remembered.get(instance, {}).get("rollout") or {"name": definition.name if definition else ""}
    return Override(entry, permission.verdicts.source_of(change), known["name"])


def _source_requests(here: DecisionInputs) -> dict[str, SourceRequests]:
    """What is asked of each source and its plain objects: since when, so that it can lapse, and what holds now."""
    found: dict[str, SourceRequests] = {}
    for name, asked in here.asked_of_sources.items():
        plain = {key: one.directives for key, one in here.asked_of_plain_objects.items() if one.source == name}
        held = {
            key: cause
            for key, one in plain.items()
            if (cause := one.active_suspension(here.now) or here.object_holds.get(key))
        }
        overrides = here.before.source_requests.get(name, SourceRequests()).overrides
        everyone = {source_parent(name): asked, **plain}
        found[name] = SourceRequests.of(everyone, here.since, held, here.source_holds.get(name), overrides)
    return found
