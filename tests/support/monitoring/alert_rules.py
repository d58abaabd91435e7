"""What an alert's expression comes to, of two scrapes of a daemon: the operators that the rules in `deploy/` use, and no others.

Source: Prometheus, "Operators", "Query functions". `increase` is what came between the two scrapes, without its extrapolation; a series that the
first did not have adds nothing, as for Prometheus. How long it has to last (`for`) is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import eq, gt, lt, sub
from typing import Final

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = Mapping[Labels, float]

_COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {"<": lt, ">": gt, "==": eq}


@dataclass(frozen=True)
class Scrape:
    """At `at` (seconds since the epoch) the daemon said `text`."""

    at: float
    text: str

    def selected(self, selector: promql.VectorSelector) -> Vector:
        return {
            frozenset(one.labels.items()): one.value
            for family in text_string_to_metric_families(self.text)
            for one in family.samples
            if one.name == selector.name
            and all(re.fullmatch(each.value, one.labels.get(each.name, "")) for each in selector.matchers.matchers)
        }


@dataclass(frozen=True)
class Between:
    """Two scrapes; the later one is now."""

    before: Scrape
    now: Scrape

    def firing(self, expression: str) -> Vector:
        """For which labels it fires, with the value of each."""
        found = self._of(promql.parse(expression))
        assert not isinstance(found, float), "an alert is a vector"
        return found

    def _of(self, one: promql.Expr) -> Vector | float:
        match one:
            case promql.NumberLiteral():
                return float(one.val)
            case promql.ParenExpr():
                return self._of(one.expr)
            case promql.VectorSelector():
                return self.now.selected(one)
            case promql.AggregateExpr():
                return self._aggregated(one)
            case promql.Call():
                return self._called(one)
            case promql.BinaryExpr():
                return self._combined(one)
        raise ValueError(f"not evaluated: {type(one).__name__}")

    def _aggregated(self, one: promql.AggregateExpr) -> Vector:
        by = set(one.modifier.labels) if one.modifier else set()
        groups: dict[Labels, list[float]] = {}
        for labels, value in self._vector(one.expr).items():
            groups.setdefault(frozenset(pair for pair in labels if pair[0] in by), []).append(value)
        assert str(one.op) in {"sum", "max"}
        return {labels: sum(values) if str(one.op) == "sum" else max(values) for labels, values in groups.items()}

    def _called(self, one: promql.Call) -> Vector | float:
        match one.func.name:
            case "time":
                return self.now.at
            case "vector":
                return {frozenset(): float(one.args[0].val)}
        (matrix,) = one.args
        seconds = matrix.range.total_seconds()
        assert self.now.at - self.before.at <= seconds, "both scrapes are within the range"
        before = self.before.selected(matrix.vector_selector)
        if one.func.name == "max_over_time":
            now = self.now.selected(matrix.vector_selector)
            return {
                labels: max(found[labels] for found in (before, now) if labels in found) for labels in {**before, **now}
            }
        share = {"increase": 1.0, "rate": 1 / seconds}[one.func.name]
        return {
            labels: (value - before[labels]) * share
            for labels, value in self.now.selected(matrix.vector_selector).items()
            if labels in before
        }

    def _combined(self, one: promql.BinaryExpr) -> Vector | float:
        operator = str(one.op)
        if operator in {"or", "unless"}:
            on = set(one.modifier.matching.labels) if one.modifier and one.modifier.matching else None
            left, right = self._vector(one.lhs), self._vector(one.rhs)
            others = {_only(labels, on) for labels in (left if operator == "or" else right)}
            kept = {
                labels: value
                for labels, value in (right if operator == "or" else left).items()
                if _only(labels, on) not in others
            }
            return {**left, **kept} if operator == "or" else kept
        left_side, right_side = self._of(one.lhs), self._of(one.rhs)
        if operator == "-":
            assert isinstance(left_side, float)
            assert not isinstance(right_side, float)
            return {labels: sub(left_side, value) for labels, value in right_side.items()}
        assert not isinstance(left_side, float)
        assert isinstance(right_side, float)
        return {labels: value for labels, value in left_side.items() if _COMPARED[operator](value, right_side)}

    def _vector(self, one: promql.Expr) -> Vector:
        found = self._of(one)
        assert not isinstance(found, float)
        return found


def _only(labels: Labels, on: set[str] | None) -> Labels:
    return labels if on is None else frozenset(pair for pair in labels if pair[0] in on)
