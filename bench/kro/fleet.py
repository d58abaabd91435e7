"""Work of `bench.beside_kro`: instances of one definition, which both systems have to create. Pure.

A definition has a number of ConfigMaps of about 300 bytes that do not depend on each other. Each ConfigMap reads the
`text` of its instance. `release` is a word of the definition that all ConfigMaps contain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import yaml

GROUP: Final = "bench.example.com"
KIND, PLURAL = "Note", "notes"
NAMESPACE: Final = "bench"
DEFINITION: Final = f"{PLURAL}.{GROUP}"
CONFIG_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
INSTANCES: Final = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/{PLURAL}"
FILLING: Final = "x" * 200

SHOWN: Final = 3
"""Number of differences in a text."""


@dataclass(frozen=True)
class Fleet:
    """Wanted state. `texts` has the text of each instance."""

    resources: int
    release: str
    texts: Mapping[str, str] = field(repr=False)

    @classmethod
    def of_size(cls, instances: int, resources: int) -> Fleet:
        return cls(resources, "one", {f"i{number:05}": f"text of {number}" for number in range(instances)})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.texts)

    def with_release(self, release: str) -> Fleet:
        return replace(self, release=release)

    def with_text(self, name: str, text: str) -> Fleet:
        return replace(self, texts={**self.texts, name: text})

    def without(self, name: str) -> Fleet:
        return replace(self, texts={each: text for each, text in self.texts.items() if each != name})

    @cached_property
    def definition(self) -> dict[str, Any]:
        schema = {"group": GROUP, "apiVersion": "v1", "kind": KIND, "spec": {"text": "string"}}
        return {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": DEFINITION},
            "spec": {"schema": schema, "resources": [self._resource(number) for number in range(self.resources)]},
        }

    def instance(self, name: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": NAMESPACE}
        return {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": metadata, "spec": {"text": self.texts[name]}}

    def config_map(self, name: str, number: int) -> str:
        """Return the name of the ConfigMap with this number of an instance."""
        return f"{name}-r{number}"

    def config_maps(self) -> dict[str, dict[str, str]]:
        """Return the data of each ConfigMap, by name."""
        return {
            self.config_map(name, number): self._data(number, text)
            for name, text in self.texts.items()
            for number in range(self.resources)
        }

    def _resource(self, number: int) -> dict[str, Any]:
        return {
            "id": f"r{number}",
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": self.config_map("${schema.metadata.name}", number)},
                "data": self._data(number, "${schema.spec.text}"),
            },
        }

    def _data(self, number: int, text: str) -> dict[str, str]:
        return {"number": str(number), "release": self.release, "text": text, "filling": FILLING}


@dataclass(frozen=True)
class Change:
    """Difference of two wanted states.

    If the definition stays, `definition` is None. `removed` has names of instances.
    """

    definition: Mapping[str, Any] | None
    instances: Mapping[str, Mapping[str, Any]]
    removed: tuple[str, ...]

    @classmethod
    def between(cls, before: Fleet | None, after: Fleet) -> Change:
        """Return the change between two states. If `before` is None, the change starts from an empty cluster."""
        known = before.texts if before else {}
        return cls(
            None if before and before.definition == after.definition else after.definition,
            {name: after.instance(name) for name, text in after.texts.items() if known.get(name) != text},
            tuple(name for name in known if name not in after.texts),
        )

    def files(self) -> dict[str, str | None]:
        """Return the files of a commit in YAML, one for each object. For a removed file, the value is None."""
        found: dict[str, str | None] = {f"apps/{name}.yaml": None for name in self.removed}
        found |= {f"apps/{name}.yaml": _yaml(instance) for name, instance in self.instances.items()}
        return found | ({"definition.yaml": _yaml(self.definition)} if self.definition else {})


def at_once() -> dict[str, str | None]:
    """Return the policy file by which a rollout moves all instances together."""
    spec = {"selector": {"rgds": [DEFINITION]}, "shape": {"linear": {"n": "100%"}}}
    policy = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "at-once"}}
    return {"policy.yaml": _yaml({**policy, "spec": spec})}


def differences(
    wanted: Fleet, config_maps: Mapping[str, Mapping[str, str]], states: Mapping[str, str | None]
) -> list[str]:
    """Return the differences from the wanted state: data of ConfigMaps, and `status.state` of instances."""
    return [
        *_unlike("ConfigMap", wanted.config_maps(), config_maps),
        *_unlike("instance", dict.fromkeys(wanted.names, "ACTIVE"), states),
    ]


def summarize(found: list[str]) -> str:
    """Return the first differences in one line, with the number of the rest."""
    more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def _unlike(what: str, wanted: Mapping[str, object], live: Mapping[str, object]) -> Iterator[str]:
    for name, value in wanted.items():
        if name not in live:
            yield f"{what} {name} is missing"
        elif live[name] != value:
            yield f"{what} {name} is {json.dumps(live[name])[:120]}"
    for name in live:
        if name not in wanted:
            yield f"{what} {name} is still there"


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, width=1_000)
