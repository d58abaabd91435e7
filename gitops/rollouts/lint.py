"""Lint of policies: open time, equally specific policies, instances without a wave, selectors without a match.

`availability` of the default policy requires a minimum of open time in every period of the coming year. Only open
intervals of a minimum length count. The lint computes two sorts of periods. A period of the first sort begins where an
open interval ends or becomes too short. A period of the second sort ends where an open interval begins or becomes long
enough. The period with the least open time is one of the computed periods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from applier.plan.model import Operation
from gitops.rollouts.policy import Availability, Policy, select_policy
from gitops.rollouts.source_rules import SourceRules
from gitops.windows.lint import find_unmatched_windows
from gitops.windows.selectable import (
    SelectableObjects,
    UnmatchedSelector,
    describe_missing_labels,
    find_missing_names,
)
from gitops.windows.verdict import TrustedTime, judge
from gitops.windows.window import WindowTarget
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.kinds import POLICY, WINDOW
from renderer.phrasing import suggestion_or_names
from renderer.render.model import Rendering

LOOKAHEAD: Final = timedelta(days=366)
"""Length of the period from now on in which the lint checks the open time."""
_RESOLUTION: Final = timedelta(seconds=1)

OpenInterval = tuple[datetime, datetime]
"""Start and end in UTC of an interval in which changes may start."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Period in which the targets that the same windows govern have less open time than required."""

    windows: tuple[str, ...]
    """Names of the windows."""
    begins: datetime
    """Start of the period in UTC."""
    open_for: timedelta
    """Open time in the period."""


def find_shortages(rules: SourceRules, targets: Iterable[WindowTarget], now: datetime) -> Iterator[Shortage]:
    """Yield the period with the least open time for each set of windows that governs a target.

    Omit a period with at least the required open time. If the default policy has no `availability`, yield nothing.
    """
    availability = rules.default_policy.windows.availability
    if availability is None:
        return
    # Targets that the same windows govern have equal verdicts, so one target of each group is judged.
    target_by_windows: dict[tuple[str, ...], WindowTarget] = {}
    for target in targets:
        names = tuple(window.name for window in rules.windows.values() if window.governs(target, Operation.UPDATE))
        target_by_windows.setdefault(names, target)
    for names, target in sorted(target_by_windows.items()):
        begins, open_for = find_worst_period(
            list(_open_intervals(rules, target, now, now + LOOKAHEAD)), availability, now, now + LOOKAHEAD
        )
        if open_for < availability.at_least:
            yield Shortage(names, begins, open_for)


def find_worst_period(
    intervals: Sequence[OpenInterval], availability: Availability, now: datetime, until: datetime
) -> tuple[datetime, timedelta]:
    """Return the start and the open time of the period with the least open time between `now` and `until`.

    If several periods have the least open time, return the first of these periods.
    """
    candidates = {now}
    for opens, closes in intervals:
        candidates |= {closes, closes - availability.contiguous + _RESOLUTION}
        candidates |= {opens - availability.per, opens + availability.contiguous - _RESOLUTION - availability.per}
    periods = sorted(begins for begins in candidates if now <= begins and begins + availability.per <= until)
    return min(
        ((begins, _open_time(intervals, availability, begins)) for begins in periods or [now]),
        key=lambda period: period[1],
    )


def _open_time(intervals: Sequence[OpenInterval], availability: Availability, begins: datetime) -> timedelta:
    """Return the open time in the period that starts at `begins`, without intervals shorter than `contiguous`."""
    ends = begins + availability.per
    lengths = (
        min(closes, ends) - max(opens, begins) for opens, closes in intervals if opens < ends and closes > begins
    )
    return sum((length for length in lengths if length >= availability.contiguous), timedelta())


def _open_intervals(rules: SourceRules, target: WindowTarget, now: datetime, until: datetime) -> Iterator[OpenInterval]:
    """Yield the intervals between `now` and `until` in which an update of `target` may start."""
    moment = now
    windows = [rules.window_set(None)]
    while moment < until:
        verdict = judge(windows, target, Operation.UPDATE, TrustedTime(moment))
        following = min(verdict.until or until, until)
        if verdict.is_open:
            yield moment, following
        moment = following


@dataclass(frozen=True, slots=True)
class PolicyLintResult:
    """Findings about the policies of one commit."""

    problems: tuple[Problem, ...]
    """Problems with equally specific policies. An instance that two equally specific policies select does not move."""
    warnings: tuple[Problem, ...]
    """Warnings about instances that fit no declared wave, or more than one declared wave."""


def lint_policies(policies: Collection[Policy], rendering: Rendering) -> PolicyLintResult:
    """Return the findings about `policies` for all instances of `rendering`.

    Args:
        rendering: rendering of the commit that declares `policies`.
    """
    problems: set[Problem] = set()
    instances_by_policy: dict[str, tuple[Policy, dict[str, Mapping[str, str]]]] = {}
    for key, rendered in rendering.instances.items():
        definition = rendering.definitions.get(key.group_kind)
        labels = rendered.manifest["metadata"].get("labels") or {}
        policy = select_policy(policies, definition.name, labels) if definition else None
        match policy:
            case Problem():
                problems.add(policy)
            case Policy():
                instances_by_policy.setdefault(policy.name, (policy, {}))[1][str(key)] = labels
    warnings = (
        warning for policy, instances in instances_by_policy.values() for warning in policy.find_stragglers(instances)
    )
    return PolicyLintResult(tuple(sorted(problems)), tuple(sorted(warnings)))


def find_unmatched_selectors(
    rules: SourceRules, declared_rules: Collection[DeclaredObject], objects: SelectableObjects
) -> Iterator[UnmatchedSelector]:
    """Yield the selectors of windows and policies in `rules` that match nothing in their source.

    Args:
        rules: rules in force.
        declared_rules: rules of the commit, for the line of each selector and for the names of unreadable windows.
        objects: objects of the source.
    """
    declared_windows = {rule.manifest["metadata"]["name"] for rule in declared_rules if rule.group_kind.kind == WINDOW}
    yield from find_unmatched_windows(rules.windows.values(), declared_rules, objects)
    yield from find_unmatched_policies(rules.policies, declared_rules, declared_windows | rules.windows.keys(), objects)


def find_unmatched_policies(
    policies: Iterable[Policy],
    declared_rules: Iterable[DeclaredObject],
    windows: Collection[str],
    objects: SelectableObjects,
) -> Iterator[UnmatchedSelector]:
    """Yield selectors of policies and waves that match nothing, and names in waves that are not in `windows`.

    A policy applies to the definitions of its source. If the source declares no instance of the selected definitions,
    the lint does not check labels. The instances may exist only in the cluster.
    """
    declared_by_name = {
        rule.manifest["metadata"]["name"]: rule for rule in declared_rules if rule.group_kind.kind == POLICY
    }
    for policy in policies:
        declared = declared_by_name.get(policy.name)
        for place, message in (*_missing_definitions(policy, objects), *_missing_instances(policy, objects, windows)):
            line = declared.line_of(place) if declared else policy.origin.line
            problem = Problem(policy.origin.file, line, place, f"policy {policy.name}: {message}")
            yield UnmatchedSelector((POLICY, policy.name), problem)


def _missing_definitions(policy: Policy, objects: SelectableObjects) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of each entry in `spec.selector.rgds` that matches no definition."""
    names, sentence = tuple(objects.definitions), "no definition of the source is called"
    misses = list(find_missing_names(policy.selector.rgds, names, sentence, is_certain=objects.knows_definitions))
    consequence = "; the policy governs nothing" if len(misses) == len(policy.selector.rgds) else ""
    for index, message in misses:
        yield f"spec.selector.rgds[{index}]", f"{message}{consequence}"


def _missing_instances(
    policy: Policy, objects: SelectableObjects, windows: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of each label selector without a match, and of each unknown window of a wave."""
    instances, is_certain = objects.labels_of(policy.selector.rgds), objects.knows_objects
    if instances and (selector := policy.selector.instances):
        if message := describe_missing_labels(selector, instances, is_certain=is_certain):
            yield "spec.selector.instances", f"{message}; the policy governs nothing"
            return
        instances = [labels for labels in instances if selector.matches(labels)]
    for index, wave in enumerate(policy.waves):
        if instances and (message := describe_missing_labels(wave.selector, instances, is_certain=is_certain)):
            yield f"spec.waves[{index}].selector", f"{message}; wave {wave.name} is empty"
        for position, name in enumerate(wave.windows):
            if name not in windows:
                place = f"spec.waves[{index}].windows[{position}]"
                hint = suggestion_or_names(name, windows) or "; declare the window"
                yield place, f"window {name!r} does not exist{hint}; wave {wave.name} never starts"
