"""Warnings about policies: windows that leave too little room, policies that cannot be told apart, instances that fit no wave, and selectors that
fit nothing.

`availability` of the default policy asks for so many hours in every period of the coming year, in pieces that are long
enough. The least is found where a period begins when a piece ends or gets too short, or ends when a piece begins or gets
long enough.
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
_RESOLUTION: Final = timedelta(seconds=1)

OpenInterval = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Shortage:
    """What these windows govern may change for `open_for` in the period from `begins`, which is less than is wanted."""

    windows: tuple[str, ...]
    begins: datetime
    open_for: timedelta


def find_shortages(rules: SourceRules, targets: Iterable[WindowTarget], now: datetime) -> Iterator[Shortage]:
    """The worst period of each set of windows that governs some target, if that is too little; nothing where the policy asks for nothing."""
    availability = rules.default_policy.windows.availability
    if availability is None:
        return
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
    """The first of the periods within these times that have the least in them, and how much that is."""
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
    """How long is open in the period that begins then, pieces that are too short in it left out."""
    ends = begins + availability.per
    lengths = (
        min(closes, ends) - max(opens, begins) for opens, closes in intervals if opens < ends and closes > begins
    )
    return sum((length for length in lengths if length >= availability.contiguous), timedelta())


def _open_intervals(rules: SourceRules, target: WindowTarget, now: datetime, until: datetime) -> Iterator[OpenInterval]:
    """When something of this target may be started."""
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
    """`problems` of policies between which nothing decides, so that their instances stay as they are; `warnings` of those that go last."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def lint_policies(policies: Collection[Policy], rendering: Rendering) -> PolicyLintResult:
    """Hold all instances of a rendering against the policies of its commit."""
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
    """Selectors of all rules of a source that fit nothing which it holds; `declared_rules` tell the lines, and which windows cannot be read."""
    declared_windows = {rule.manifest["metadata"]["name"] for rule in declared_rules if rule.group_kind.kind == WINDOW}
    yield from find_unmatched_windows(rules.windows.values(), declared_rules, objects)
    yield from find_unmatched_policies(rules.policies, declared_rules, declared_windows | rules.windows.keys(), objects)


def find_unmatched_policies(
    policies: Iterable[Policy],
    declared_rules: Iterable[DeclaredObject],
    windows: Collection[str],
    objects: SelectableObjects,
) -> Iterator[UnmatchedSelector]:
    """Selectors of policies and of their waves that fit no definition or instance of the source, and `windows` that waves name and that do not exist.

    A policy counts for the definitions of its source. Where the source holds no instance of them, nothing is known of their labels.
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
    names, what = tuple(objects.definitions), "no definition here is called"
    misses = list(find_missing_names(policy.selector.rgds, names, what, is_certain=objects.knows_definitions))
    consequence = "; it governs nothing" if len(misses) == len(policy.selector.rgds) else ""
    for index, message in misses:
        yield f"spec.selector.rgds[{index}]", f"{message}{consequence}"


def _missing_instances(
    policy: Policy, objects: SelectableObjects, windows: Collection[str]
) -> Iterator[tuple[str, str]]:
    instances, is_certain = objects.labels_of(policy.selector.rgds), objects.knows_objects
    if instances and (selector := policy.selector.instances):
        if message := describe_missing_labels(selector, instances, is_certain=is_certain):
            yield "spec.selector.instances", f"{message}; it governs nothing"
            return
        instances = [labels for labels in instances if selector.matches(labels)]
    for index, wave in enumerate(policy.waves):
        if instances and (message := describe_missing_labels(wave.selector, instances, is_certain=is_certain)):
            yield f"spec.waves[{index}].selector", f"{message}; wave {wave.name} is empty"
        for position, name in enumerate(wave.windows):
            if name not in windows:
                place = f"spec.waves[{index}].windows[{position}]"
                yield (
                    place,
                    f"window {name!r} does not exist{suggestion_or_names(name, windows)}; wave {wave.name} never starts",
                )
