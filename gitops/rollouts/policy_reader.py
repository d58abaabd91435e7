"""Reader of `PropagationPolicy` objects in Git.

The reader accepts or rejects a policy as a whole. The reader reports all mistakes in a policy together, each with its
line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from applier.plan.model import Barrier
from gitops.durations import parse_duration
from gitops.rollouts.policy import (
    ALL_WAVE,
    REST_WAVE,
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
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear, Shape
from gitops.windows.problem_collector import FieldProblems
from gitops.windows.rule_reader import ParsedRules, parse_rules
from gitops.windows.window import Openness
from renderer import schema
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem
from renderer.kinds import OWN_API_VERSION, POLICY
from renderer.label_selector import LabelSelector

_T = TypeVar("_T")


_WAVE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PATTERN: Final = re.compile(r"[-a-z0-9.*]+")


def read_policies(catalog: Catalog) -> ParsedRules[Policy]:
    """Return all policies that `catalog` declares, and the problems with them."""
    return parse_rules(catalog.rules, POLICY, "policy", read_policy)


def read_policy(declared: DeclaredObject) -> Policy | list[Problem]:
    """Return the policy that `declared` describes, or all mistakes in it, in order."""
    reader = _PolicyReader(declared)
    policy = reader.parse_policy()
    return sorted(reader.problems) or policy


class _PolicyReader(FieldProblems):
    """Reader of one policy.

    If a value is wrong, the reader adds a problem and continues with the default value.
    """

    def parse_policy(self) -> Policy:
        """Return the policy. If `problems` is not empty afterwards, the policy is unusable."""
        manifest = self.declared.manifest
        policy = Policy(name=manifest["metadata"]["name"], origin=self.declared.origin)
        if manifest["apiVersion"] != OWN_API_VERSION:
            self.add_problem("apiVersion", f"{manifest['apiVersion']!r} is not known; write {OWN_API_VERSION}")
        for name in sorted(manifest.keys() - {"apiVersion", "kind", "metadata", "spec"}):
            self.add_problem(name, f"no field {name!r}; write the fields of the policy under spec")
        spec = {} if manifest.get("spec") is None else _restore_n_keys(manifest["spec"])
        mistakes = schema.validate(SPEC, spec)
        for mistake in mistakes:
            self.add_problem(f"spec.{mistake.path}".removesuffix("."), mistake.message)
        return policy if mistakes else self._parse_spec(policy, spec)

    def _parse_spec(self, policy: Policy, spec: Mapping[str, Any]) -> Policy:
        waves = tuple(
            self._parse_wave(f"spec.waves[{index}]", wave_spec) for index, wave_spec in enumerate(spec.get("waves", ()))
        )
        self._check_wave_names(waves)
        rollback = spec.get("rollback", {})
        if "pipelineMax" in spec and spec.get("onNewRevision") != OnNewRevision.PIPELINE:
            self.add_problem(
                "spec.pipelineMax", "requires onNewRevision: Pipeline; add onNewRevision, or remove pipelineMax"
            )
        return replace(
            policy,
            selector=self._parse_selector(spec.get("selector", {})),
            governs=PolicyScope(spec.get("governs", policy.governs)),
            barrier=Barrier(spec.get("barrier", policy.barrier)),
            shape=self._parse_shape("spec.shape", spec.get("shape")) or policy.shape,
            mode=Mode(spec.get("mode", policy.mode)),
            bake=self._parse_value("spec.bake", parse_duration, spec.get("bake"), policy.bake),
            progress_deadline=self._parse_value(
                "spec.progressDeadline", parse_duration, spec.get("progressDeadline"), policy.progress_deadline
            ),
            max_failures=self._parse_value(
                "spec.maxFailures", CountOrPercent.parse, spec.get("maxFailures"), policy.max_failures
            ),
            max_flaps=int(spec.get("maxFlaps", policy.max_flaps)),
            on_halt=OnHalt(spec.get("onHalt", policy.on_halt)),
            min_available=self._parse_value(
                "spec.minAvailable", CountOrPercent.parse, spec.get("minAvailable"), policy.min_available
            ),
            order=ItemOrder(spec.get("order", policy.order)),
            waves=waves,
            approvals=tuple(self._parse_approvals(spec.get("approvals", ()), [wave.name for wave in waves])),
            rollback=Rollback(
                shape=self._parse_shape("spec.rollback.shape", rollback.get("shape")),
                skip_bake=rollback.get("skipBake", True),
                ignore_approvals=rollback.get("ignoreApprovals", True),
            ),
            new_instances=NewInstances(spec.get("newInstances", policy.new_instances)),
            on_new_revision=OnNewRevision(spec.get("onNewRevision", policy.on_new_revision)),
            pipeline_max=int(spec.get("pipelineMax", policy.pipeline_max)),
            max_hold=self._parse_value("spec.maxHold", parse_duration, spec.get("maxHold"), policy.max_hold),
            windows=self._parse_windows(spec),
        )

    def _parse_value(self, path: str, parse: Callable[[Any], _T], value: Any, default: _T) -> _T:
        """Return the result of `parse` for `value`.

        If `value` is None, return `default`. If `value` is wrong, add a problem at `path` and return `default`.
        """
        if value is None:
            return default
        try:
            return parse(value)
        except ValueError as error:
            self.add_problem(path, str(error))
            return default

    def _parse_selector(self, selector: Mapping[str, Any]) -> PolicySelector:
        rgds = tuple(selector.get("rgds", ()))
        for index, pattern in enumerate(rgds):
            if not _PATTERN.fullmatch(pattern):
                self.add_problem(
                    f"spec.selector.rgds[{index}]",
                    f"{pattern!r} is not the name of a definition; "
                    "write a name such as webapp.kro.run, or a pattern such as webapp.*",
                )
        return PolicySelector(rgds, self._parse_labels("spec.selector.instances", selector.get("instances")))

    def _parse_labels(self, path: str, selector: Any) -> LabelSelector | None:
        return self._parse_value(path, LabelSelector.from_object, selector, None)

    def _parse_shape(self, path: str, shape: Mapping[str, Any] | None) -> Shape | None:
        match shape:
            case None:
                return None
            case {"linear": linear} if len(shape) == 1:
                return self._parse_value(
                    f"{path}.linear.n", lambda n: Linear(CountOrPercent.parse(n)), linear.get("n", 1), None
                )
            case {"exponential": exponential} if len(shape) == 1:
                return Exponential(int(exponential.get("factor", 2)))
        self.add_problem(path, "must be exactly one of linear: {n: 3} (or n: 25%) and exponential: {factor: 2}")
        return None

    def _parse_wave(self, path: str, wave_spec: Mapping[str, Any]) -> Wave:
        return Wave(
            name=wave_spec["name"],
            selector=self._parse_labels(f"{path}.selector", wave_spec.get("selector")) or LabelSelector(),
            shape=self._parse_shape(f"{path}.shape", wave_spec.get("shape")),
            bake=self._parse_value(f"{path}.bake", parse_duration, wave_spec.get("bake"), None),
            windows=tuple(wave_spec.get("windows", ())),
        )

    def _check_wave_names(self, waves: tuple[Wave, ...]) -> None:
        uses = Counter(wave.name for wave in waves)
        for index, wave in enumerate(waves):
            path = f"spec.waves[{index}].name"
            if not _WAVE_NAME.fullmatch(wave.name) or wave.name.isdecimal():
                self.add_problem(path, f"{wave.name!r}: must be a lower-case name with a letter, such as canary")
            elif wave.name in {REST_WAVE, ALL_WAVE}:
                self.add_problem(path, f"{wave.name!r} is the name of a built-in wave; choose another name")
            elif uses[wave.name] > 1:
                self.add_problem(path, f"{uses[wave.name]} waves are called {wave.name!r}; give each wave its own name")

    def _parse_approvals(self, approval_specs: Any, waves: list[str]) -> list[ApprovalPoint]:
        points = []
        for index, approval_spec in enumerate(approval_specs):
            path = f"spec.approvals[{index}].after"
            match approval_spec["after"]:
                case {"wave": wave} if len(approval_spec["after"]) == 1:
                    if wave not in waves:
                        hint = f"name one of {', '.join(waves)}" if waves else "declare it under spec.waves"
                        self.add_problem(f"{path}.wave", f"wave {wave!r} is not declared in this policy; {hint}")
                    points.append(ApprovalPoint(after_wave=wave, by=tuple(approval_spec.get("by", ()))))
                case {"settled": settled} if len(approval_spec["after"]) == 1:
                    points.append(ApprovalPoint(after_settled=int(settled), by=tuple(approval_spec.get("by", ()))))
                case _:
                    self.add_problem(path, "must be exactly one of wave: NAME and settled: NUMBER")
        return points

    def _parse_windows(self, spec: Mapping[str, Any]) -> WindowRules:
        window_rules = spec.get("windows")
        if window_rules is None:
            return WindowRules()
        if spec.get("selector"):
            self.add_problem(
                "spec.windows", "belongs in the default policy of the source; remove windows, or remove the selector"
            )
        availability = window_rules.get("availability")
        return WindowRules(
            default_when_no_window=Openness(window_rules.get("defaultWhenNoWindow", Openness.OPEN)),
            expired_allow=Openness(window_rules.get("expiredAllow", Openness.CLOSED)),
            availability=None if availability is None else self._parse_availability(availability),
        )

    def _parse_availability(self, availability: Mapping[str, Any]) -> Availability:
        path, zero = "spec.windows.availability", parse_duration("0s")
        at_least, per, contiguous = (
            self._parse_value(f"{path}.{name}", parse_duration, availability.get(name), zero)
            for name in ("atLeast", "per", "contiguous")
        )
        if not self.problems and not (zero < at_least <= per and contiguous <= at_least):
            self.add_problem(path, "must satisfy contiguous <= atLeast <= per, such as 4h, 48h and 32d")
        return Availability(at_least, per, contiguous, OnViolation(availability.get("onViolation", OnViolation.WARN)))


def _restore_n_keys(value: Any) -> Any:
    """Return `value` with the key `n` of each `linear` restored. YAML 1.1 reads this key as the boolean false."""
    match value:
        case dict():
            restored = {name: _restore_n_keys(child) for name, child in value.items()}
            if isinstance(linear := restored.get("linear"), dict):
                restored["linear"] = {"n" if name == "false" else name: child for name, child in linear.items()}
            return restored
        case list():
            return [_restore_n_keys(child) for child in value]
    return value
