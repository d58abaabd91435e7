"""PropagationPolicy objects from Git to values. A policy is read whole or not at all; all its mistakes are reported together, with their lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Final, TypeVar

from applier.plan.model import Barrier
from gitops.durations import duration
from gitops.rollouts.amounts import CountOrPercent
from gitops.rollouts.policy import (
    ALL,
    REST,
    ApprovalPoint,
    Availability,
    ItemOrder,
    Mode,
    NewInstances,
    OnHalt,
    OnNewRevision,
    OnViolation,
    Policy,
    PolicyScope,
    PolicySelector,
    Rollback,
    Wave,
    WindowRules,
)
from gitops.rollouts.policy_schema import SPEC
from gitops.rollouts.shapes import Exponential, Linear, Shape
from gitops.windows.labels import LabelSelector
from gitops.windows.window import Openness
from renderer import schema
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.kinds import OWN_API_VERSION, POLICY

_T = TypeVar("_T")


_WAVE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PATTERN: Final = re.compile(r"[-a-z0-9.*]+")


@dataclass(frozen=True, slots=True)
class ParsedPolicies:
    """The policies of a commit. `broken` are those that cannot be read, by name: what was accepted of them before stays in force."""

    policies: tuple[Policy, ...] = ()
    broken: Mapping[str, SourceLocation] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def policies_of(catalog: Catalog) -> ParsedPolicies:
    """Read all policies of a catalog; of two with one name the first counts, in the order of files."""
    found: dict[str, Policy] = {}
    broken: dict[str, SourceLocation] = {}
    problems: list[Problem] = []
    for rule in catalog.rules:
        if rule.group_kind.kind != POLICY:
            continue
        match read(rule):
            case Policy() as policy:
                if (other := found.setdefault(policy.name, policy)) is not policy:
                    message = f"a policy {policy.name!r} stands at {other.origin} already; rename one of the two"
                    line = rule.line_of("metadata.name")
                    problems.append(Problem(rule.origin.file, line, "metadata.name", message))
            case mistakes:
                broken[rule.manifest["metadata"]["name"]] = rule.origin
                problems += mistakes
    return ParsedPolicies(tuple(found.values()), broken, tuple(sorted(problems)))


def read(declared: DeclaredObject) -> Policy | list[Problem]:
    """The policy of one manifest, or all its mistakes."""
    reader = _Reader(declared)
    policy = reader.policy()
    return sorted(reader.problems) or policy


class _Reader:
    """Collects mistakes while it goes. Where a value is wrong the policy's default stands in, so that reading can go on."""

    def __init__(self, declared: DeclaredObject) -> None:
        self.declared = declared
        self.problems: list[Problem] = []

    def fail(self, path: str, message: str) -> None:
        origin = self.declared.origin
        self.problems.append(Problem(origin.file, self.declared.line_of(path), path, message))

    def policy(self) -> Policy:
        manifest = self.declared.manifest
        policy = Policy(name=manifest["metadata"]["name"], origin=self.declared.origin)
        if manifest["apiVersion"] != OWN_API_VERSION:
            self.fail("apiVersion", f"{manifest['apiVersion']!r} is not known; write {OWN_API_VERSION}")
        for name in sorted(manifest.keys() - {"apiVersion", "kind", "metadata", "spec"}):
            self.fail(name, f"no field {name!r}; what the policy says stands in spec")
        spec = {} if manifest.get("spec") is None else _with_n(manifest["spec"])
        mistakes = schema.validate(SPEC, spec)
        for mistake in mistakes:
            self.fail(f"spec.{mistake.path}".removesuffix("."), mistake.message)
        return policy if mistakes else self._filled(policy, spec)

    def _filled(self, policy: Policy, spec: Mapping[str, Any]) -> Policy:
        waves = tuple(self._wave(f"spec.waves[{index}]", one) for index, one in enumerate(spec.get("waves", ())))
        self._wave_names(waves)
        rollback = spec.get("rollback", {})
        if "pipelineMax" in spec and spec.get("onNewRevision") != OnNewRevision.PIPELINE:
            self.fail("spec.pipelineMax", "only counts with onNewRevision: Pipeline; add that or remove this")
        return replace(
            policy,
            selector=self._selector(spec.get("selector", {})),
            governs=PolicyScope(spec.get("governs", policy.governs)),
            barrier=Barrier(spec.get("barrier", policy.barrier)),
            shape=self._shape("spec.shape", spec.get("shape")) or policy.shape,
            mode=Mode(spec.get("mode", policy.mode)),
            bake=self._value("spec.bake", duration, spec.get("bake"), policy.bake),
            progress_deadline=self._value(
                "spec.progressDeadline", duration, spec.get("progressDeadline"), policy.progress_deadline
            ),
            max_failures=self._value(
                "spec.maxFailures", CountOrPercent.read, spec.get("maxFailures"), policy.max_failures
            ),
            max_flaps=int(spec.get("maxFlaps", policy.max_flaps)),
            on_halt=OnHalt(spec.get("onHalt", policy.on_halt)),
            min_available=self._value(
                "spec.minAvailable", CountOrPercent.read, spec.get("minAvailable"), policy.min_available
            ),
            order=ItemOrder(spec.get("order", policy.order)),
            waves=waves,
            approvals=tuple(self._approvals(spec.get("approvals", ()), [wave.name for wave in waves])),
            rollback=Rollback(
                shape=self._shape("spec.rollback.shape", rollback.get("shape")),
                skip_bake=rollback.get("skipBake", True),
                ignore_approvals=rollback.get("ignoreApprovals", True),
            ),
            new_instances=NewInstances(spec.get("newInstances", policy.new_instances)),
            on_new_revision=OnNewRevision(spec.get("onNewRevision", policy.on_new_revision)),
            pipeline_max=int(spec.get("pipelineMax", policy.pipeline_max)),
            max_hold=self._value("spec.maxHold", duration, spec.get("maxHold"), policy.max_hold),
            windows=self._windows(spec),
        )

    def _value(self, path: str, read: Callable[[Any], _T], written: Any, default: _T) -> _T:
        if written is None:
            return default
        try:
            return read(written)
        except ValueError as error:
            self.fail(path, str(error))
            return default

    def _selector(self, written: Mapping[str, Any]) -> PolicySelector:
        rgds = tuple(written.get("rgds", ()))
        for index, pattern in enumerate(rgds):
            if not _PATTERN.fullmatch(pattern):
                self.fail(
                    f"spec.selector.rgds[{index}]",
                    f"{pattern!r} is no name of a definition; write one such as webapp.kro.run, or with * as in webapp.*",
                )
        return PolicySelector(rgds, self._labels("spec.selector.instances", written.get("instances")))

    def _labels(self, path: str, written: Any) -> LabelSelector | None:
        return self._value(path, LabelSelector.read, written, None)

    def _shape(self, path: str, written: Mapping[str, Any] | None) -> Shape | None:
        match written:
            case None:
                return None
            case {"linear": linear} if len(written) == 1:
                return self._value(f"{path}.linear.n", _linear, linear.get("n", 1), None)
            case {"exponential": exponential} if len(written) == 1:
                return Exponential(int(exponential.get("factor", 2)))
        self.fail(path, "must be exactly one of linear: {n: 3} (or n: 25%) and exponential: {factor: 2}")
        return None

    def _wave(self, path: str, written: Mapping[str, Any]) -> Wave:
        return Wave(
            name=written["name"],
            selector=self._labels(f"{path}.selector", written.get("selector")) or LabelSelector(),
            shape=self._shape(f"{path}.shape", written.get("shape")),
            bake=self._value(f"{path}.bake", duration, written.get("bake"), None),
            windows=tuple(written.get("windows", ())),
        )

    def _wave_names(self, waves: tuple[Wave, ...]) -> None:
        uses = Counter(wave.name for wave in waves)
        for index, wave in enumerate(waves):
            path = f"spec.waves[{index}].name"
            if not _WAVE_NAME.fullmatch(wave.name) or wave.name.isdecimal():
                self.fail(path, f"{wave.name!r}: must be a lower-case name with a letter, such as canary")
            elif wave.name in {REST, ALL}:
                self.fail(path, f"{wave.name!r} names a wave that is always there; choose another name")
            elif uses[wave.name] > 1:
                self.fail(path, f"{uses[wave.name]} waves are called {wave.name!r}; names must be unique")

    def _approvals(self, written: Any, waves: list[str]) -> list[ApprovalPoint]:
        found = []
        for index, one in enumerate(written):
            path = f"spec.approvals[{index}].after"
            match one["after"]:
                case {"wave": wave} if len(one["after"]) == 1:
                    if wave not in waves:
                        known = f"there are {', '.join(waves)}" if waves else "this policy has no waves"
                        self.fail(f"{path}.wave", f"no wave {wave!r}; {known}")
                    found.append(ApprovalPoint(after_wave=wave, by=tuple(one.get("by", ()))))
                case {"settled": settled} if len(one["after"]) == 1:
                    found.append(ApprovalPoint(after_settled=int(settled), by=tuple(one.get("by", ()))))
                case _:
                    self.fail(path, "must be exactly one of wave: NAME and settled: NUMBER")
        return found

    def _windows(self, spec: Mapping[str, Any]) -> WindowRules:
        written = spec.get("windows")
        if written is None:
            return WindowRules()
        if spec.get("selector"):
            self.fail("spec.windows", "belongs into the source's default policy, which is the one without a selector")
        found = written.get("availability")
        return WindowRules(
            default_when_no_window=Openness(written.get("defaultWhenNoWindow", Openness.OPEN)),
            expired_allow=Openness(written.get("expiredAllow", Openness.CLOSED)),
            availability=None if found is None else self._availability(found),
        )

    def _availability(self, written: Mapping[str, Any]) -> Availability:
        path, nothing = "spec.windows.availability", duration("0s")
        at_least, per, contiguous = (
            self._value(f"{path}.{name}", duration, written.get(name), nothing)
            for name in ("atLeast", "per", "contiguous")
        )
        if not self.problems and not (nothing < at_least <= per and contiguous <= at_least):
            self.fail(path, "must hold contiguous <= atLeast <= per, such as 4h, 48h and 32d")
        return Availability(at_least, per, contiguous, OnViolation(written.get("onViolation", OnViolation.WARN)))


def _with_n(value: Any) -> Any:
    """What was read, with the keys `n` that were written: YAML 1.1, which Kubernetes reads, takes a plain `n` for the boolean false."""
    match value:
        case dict():
            spelled = {name: _with_n(one) for name, one in value.items()}
            if isinstance(linear := spelled.get("linear"), dict):
                spelled["linear"] = {"n" if name == "false" else name: one for name, one in linear.items()}
            return spelled
        case list():
            return [_with_n(one) for one in value]
    return value


def _linear(n: int | str) -> Linear:
    return Linear(CountOrPercent.read(n))
