"""Reports of what a graph has decided: causes of waiting, words of people, and the next time to look again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial

from applier.plan.model import Plan
from applier.state.observed import Observed
from gitops.decisions import plain_objects
from gitops.decisions.decided_rollouts import decided_rollouts
from gitops.decisions.decision import Decision, earliest
from gitops.decisions.definitions import definitions, sources
from gitops.decisions.explanation import DecidedRollout, explain_instances
from gitops.decisions.holds import own_hold, source_hold
from gitops.decisions.moments import is_edge_past
from gitops.decisions.people import first_observed, instance_directives, source_directives, suspension
from gitops.decisions.placements import is_frozen
from gitops.decisions.plain_objects import SourceRequests, remembered_directives
from gitops.decisions.rollout_members import policy_conflicts, unruled_cause
from gitops.reconcile.context import Context
from gitops.reconcile.graph_inputs import GraphInputs
from gitops.rollouts.advance import RolloutStep, next_decision
from renderer.identity import ObjectKey, source_parent
from renderer.render.model import Rendering


def explained_decision(inputs: GraphInputs, bundle: Rendering, plan: Plan, known: Context) -> Decision:
    """Return a decision with everything that reports and partial reconciliations need."""
    graph, decided = inputs.graph, known.propagation
    rollouts = list(decided_rollouts(graph, decided.states, bundle.instances))
    plans = {one.rendered.parent: one for one in plan.sets if not one.rendered.is_source}
    found = explain_instances(rollouts, plans, known.now)
    unruled = {key: cause for key in bundle.instances if (cause := unruled_cause(graph, key))}
    forecasts = {name: decided.states[name].with_forecast(ahead) for name, ahead in found.ahead.items()}
    in_force = known.conditions.rules
    next_edge = graph.next_moment_of(is_edge_past)
    turns = (_next_turn(one, known.now) for one in rollouts)
    parents, since = map(source_parent, bundle.sources), partial(_first_observed, inputs)
    return Decision(
        places=dict(inputs.placements),
        gates=replace(decided.gates, suspended={key: why for key in parents if (why := suspension(graph, key))}),
        frozen=frozenset(key for key in bundle.instances if is_frozen(graph, key)),
        states={**decided.states, **forecasts},
        rules={source: one.accepted for source, one in in_force.items()},
        wake_at=earliest(next_edge, *turns),
        next_edge=next_edge,
        policy_conflicts=policy_conflicts(graph),
        rule_problems={source: one.problems for source, one in in_force.items() if one.problems},
        stays={**unruled, **found.blocked},
        remembered={
            key: {
                **remembered_directives(key, instance_directives(graph, key), since),
                **found.remembered.get(key, {}),
            }
            for key in plans
        },
        counted=found.counted,
        awaited=found.awaited,
        rollouts={one.name: one for one in rollouts},
        source_requests=_source_requests(inputs, plan, known.observed, decided),
    )


def _next_turn(rollout: DecidedRollout, now: datetime) -> datetime | None:
    """Return the next time at which a rollout may decide otherwise although nothing happens."""
    found = next_decision(rollout.collection, rollout.state, RolloutStep({}, {}, rollout.state), rollout.closed)
    return found if found and found > now else None


def _source_requests(
    inputs: GraphInputs, plan: Plan, observed: Observed, decided: Decision
) -> dict[str, SourceRequests]:
    """Return what people ask of each source and its plain objects, and what has bypassed windows."""
    graph, found = inputs.graph, dict[str, SourceRequests]()
    instances = frozenset(one.rendered.parent for one in plan.sets if not one.rendered.is_source)
    plain = dict(plain_objects.directives_of(plan, observed, instances, definitions(graph).current.keys()))
    since = partial(_first_observed, inputs)
    for name in sources(graph):
        mine = {key: one.directives for key, one in plain.items() if one.source == name}
        held = {
            key: cause
            for key, asked in mine.items()
            if (cause := asked.active_suspension(graph.now) or own_hold(graph, key))
        }
        overrides = decided.source_requests.get(name, SourceRequests()).overrides
        everyone = {source_parent(name): source_directives(graph, name), **mine}
        found[name] = SourceRequests.of(everyone, since, held, source_hold(graph, name), overrides)
    return found


def _first_observed(inputs: GraphInputs, key: ObjectKey, name: str, word: str) -> datetime:
    """Return the time in UTC of the first observation of a directive, and observe it now if nobody has."""
    found = inputs.observed(lambda: inputs.graph.answer(first_observed, key, name, word)).value
    assert found is not None
    return found
