"""Label selectors as Kubernetes has them (`metav1.LabelSelector`): all requirements must hold, none matches everything."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from renderer.frozen import dataclass


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
LABEL_SELECTOR: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "matchExpressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {
                    "key": {"type": "string", "minLength": 1},
                    "operator": {"type": "string", "enum": [str(operator) for operator in Operator]},
                    "values": _TEXTS,
                },
            },
        },
    },
}
"""OpenAPI of a selector as it is written."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `NotIn` also holds where the label is absent."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class LabelSelector:
    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def from_dict(cls, selector: Mapping[str, Any]) -> LabelSelector:
        """A selector that fits `LABEL_SELECTOR`. Raises ValueError where values and operator do not go together."""
        requirements = [
            Requirement(key, Operator.IN, frozenset({value})) for key, value in selector.get("matchLabels", {}).items()
        ]
        for expression in selector.get("matchExpressions", ()):
            requirement = Requirement(
                expression["key"], Operator(expression["operator"]), frozenset(expression.get("values", ()))
            )
            if (requirement.operator in {Operator.IN, Operator.NOT_IN}) != bool(requirement.values):
                problem = "needs values" if not requirement.values else "takes no values"
                raise ValueError(f"label {requirement.key}: operator {requirement.operator} {problem}")
            requirements.append(requirement)
        return cls(tuple(requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)
