"""Can a query have an answer? The labels of its result, found from its syntax tree and from what a daemon tells; a mistake is a ValueError.

Source: Prometheus, "Querying basics", "Operators" (vector matching), "Query functions".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families

SCRAPED = frozenset({"job", "instance"})
"""Labels that every sample gets when it is read."""

GRAFANA = {"$__rate_interval": "5m", "$source": ".*", "$cluster": ".*"}
RATES = frozenset({"rate", "irate", "increase"})
SET_OPERATORS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True)
class Scraped:
    """The labels of each sample's name, which of them only grow, and which values labels may have (the closed ones, by metric)."""

    samples: Mapping[str, frozenset[str]]
    growing: frozenset[str]
    values: Mapping[tuple[str, str], Set[str]]

    @classmethod
    def of(cls, text: str, values: Mapping[tuple[str, str], Set[str]]) -> Scraped:
        samples: dict[str, frozenset[str]] = {}
        growing = set()
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                samples[one.name] = samples.get(one.name, SCRAPED) | one.labels.keys()
                if family.type in {"counter", "histogram"}:
                    growing.add(one.name)
        return cls(samples, frozenset(growing), values)

    def labels(self, expression: str) -> frozenset[str]:
        """Those of the result. Raises ValueError."""
        for variable, value in GRAFANA.items():
            expression = expression.replace(variable, value)
        return self._of(promql.parse(expression)) or frozenset()

    def _of(self, one: promql.Expr) -> frozenset[str] | None:
        """None: a scalar."""
        match one:
            case promql.NumberLiteral() | promql.StringLiteral():
                return None
            case promql.ParenExpr() | promql.UnaryExpr():
                return self._of(one.expr)
            case promql.VectorSelector():
                return self._selected(one)
            case promql.MatrixSelector():
                return self._of(one.vector_selector)
            case promql.AggregateExpr():
                return self._aggregated(one)
            case promql.Call():
                return self._called(one)
            case promql.BinaryExpr():
                return self._combined(one)
        raise ValueError(f"not looked into: {type(one).__name__}")

    def _selected(self, one: promql.VectorSelector) -> frozenset[str]:
        if not one.name or one.name not in self.samples:
            raise ValueError(f"there is no metric {one.name}")
        known = self.samples[one.name]
        for matcher in one.matchers.matchers:
            _in(known, {matcher.name})
            allowed = self.values.get((one.name, matcher.name), ())
            for value in matcher.value.split("|") if allowed else ():
                if not any(re.fullmatch(value, word) for word in allowed):
                    raise ValueError(f"{value} is no {matcher.name} of {one.name}")
        return known

    def _aggregated(self, one: promql.AggregateExpr) -> frozenset[str]:
        inner = self._of(one.expr) or frozenset()
        if one.modifier is None:
            return frozenset()
        _in(inner, one.modifier.labels)
        if one.modifier.type == promql.AggModifierType.By:
            return frozenset(one.modifier.labels)
        return inner - {*one.modifier.labels}

    def _called(self, one: promql.Call) -> frozenset[str] | None:
        found = [self._of(argument) for argument in one.args]
        name = one.func.name
        if name in RATES and (metric := one.args[0].vector_selector.name) not in self.growing:
            raise ValueError(f"{name} of a gauge, {metric}")
        if name == "histogram_quantile":
            if "le" not in (found[1] or ()) or "_bucket" not in str(one.args[1]):
                raise ValueError("a quantile without le of buckets")
            return found[1] - {"le"} if found[1] else None
        if name == "vector":
            return frozenset()
        return next((labels for labels in found if labels is not None), None)

    def _combined(self, one: promql.BinaryExpr) -> frozenset[str] | None:
        left, right = self._of(one.lhs), self._of(one.rhs)
        if left is None or right is None:
            return right if left is None else left
        matching = one.modifier.matching if one.modifier else None
        if matching is None and left != right:
            raise ValueError(f"{sorted(left)} and {sorted(right)} never match")
        if matching is not None:
            _in(left, matching.labels)
            _in(right, matching.labels)
        if matching is not None and str(one.op) not in SET_OPERATORS:
            return frozenset(matching.labels)
        return left


def _in(known: frozenset[str], labels: set[str] | list[str]) -> None:
    for label in labels:
        if label not in known:
            raise ValueError(f"{label} is no label here; there are {', '.join(sorted(known))}")
