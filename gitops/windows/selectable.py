"""What the rules of a source can select in it, and what a selector names that is not there.

A rule that selects nothing holds nothing back, and nobody notices: most often a name is misspelled. What cannot be known
from one commit is not taken for absent: names that come with data of a cluster, and what definitions of other sources make.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from gitops.windows.window import WindowTarget, list_targets, matches_any
from renderer.catalog.catalog import Catalog
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import GroupKind, version_of
from renderer.kinds import NAMESPACE
from renderer.label_selector import LabelSelector, Operator, Requirement
from renderer.phrasing import suggestion
from renderer.render.model import RenderedNode, Rendering

Labels = Mapping[str, str]

_POSITIVE_OPERATORS = frozenset({Operator.IN, Operator.EXISTS})


@dataclass(frozen=True, slots=True, order=True)
class UnmatchedSelector:
    """A selector of a rule, or an entry of one, that fits nothing; `rule` is kind and name, `problem` says it at its line."""

    rule: tuple[str, str]
    problem: Problem

    def with_other_sources(self) -> UnmatchedSelector:
        """The same of a rule that may govern more than what was looked at."""
        message = f"{self.problem.message}; other sources, which it may govern, are not read"
        return replace(self, problem=replace(self.problem, message=message))


@dataclass(frozen=True)
class SelectableObjects:
    """What a source holds that selectors name. `definitions` maps names to ids of resources, `labels` to those of its instances.

    `knows_namespaces`: no object waits for the data that names its namespace. `knows_objects`: no object may be an instance
    of a definition of another source, and no definition or file is broken. `is_whole`: all that there will be is rendered.
    """

    targets: tuple[WindowTarget, ...]
    namespaces: frozenset[str]
    kinds: frozenset[GroupKind]
    definitions: Mapping[str, frozenset[str]]
    labels: Mapping[str, tuple[Labels, ...]]
    knows_namespaces: bool
    knows_definitions: bool
    knows_objects: bool
    is_whole: bool

    @classmethod
    def from_rendering(cls, catalog: Catalog, rendering: Rendering, cluster: str) -> SelectableObjects:
        """Return what a commit holds, as it is rendered; `cluster` is the name of the cluster."""
        nodes = [node for rendered in rendering.sets for node in rendered.nodes if not node.external]
        targets = tuple(list_targets(rendering, catalog.definitions, cluster))
        declared_namespaces = {
            declared.manifest["metadata"]["name"] for declared in catalog.objects if declared.group_kind == NAMESPACE
        }
        made_kinds = {node.group_kind for definition in catalog.definitions.values() for node in definition.nodes}
        knows_namespaces = all(node.key for node in nodes)
        knows_definitions = not catalog.broken and not catalog.unreadable_files
        knows_objects = knows_definitions and all(
            declared.group_kind in catalog.types.described
            or catalog.types.type_of(declared.group_kind, version_of(declared.manifest))
            for declared in catalog.objects
        )
        return cls(
            targets,
            frozenset({target.namespace for target in targets} | declared_namespaces) - {""},
            frozenset({target.kind for target in targets} | made_kinds),
            {
                definition.name: frozenset(node.id for node in definition.nodes)
                for definition in catalog.definitions.values()
            },
            _instance_labels(catalog, nodes),
            knows_namespaces,
            knows_definitions,
            knows_objects,
            knows_namespaces
            and knows_objects
            and not any(node.waiting or node.error for node in nodes if node.group_kind in catalog.definitions),
        )

    @property
    def is_empty(self) -> bool:
        """Whether the source holds nothing but rules."""
        return not self.targets and not self.definitions

    @cached_property
    def all_labels(self) -> tuple[Labels, ...]:
        """The labels of all instances."""
        return tuple(labels for of_definition in self.labels.values() for labels in of_definition)

    @cached_property
    def kind_names(self) -> frozenset[str]:
        """The kinds as a window may name them: `Deployment`, `Deployment.apps`."""
        return frozenset({kind.kind for kind in self.kinds} | {str(kind) for kind in self.kinds})

    @cached_property
    def node_ids(self) -> frozenset[str]:
        """The ids of all resources of definitions."""
        return frozenset().union(*self.definitions.values())

    def labels_of(self, rgds: Collection[str]) -> list[Labels]:
        """The labels of the instances of these definitions, by names and patterns; of all where there are none."""
        return [
            labels
            for name, of_definition in self.labels.items()
            if matches_any(tuple(rgds) or None, name)
            for labels in of_definition
        ]


def _instance_labels(catalog: Catalog, nodes: Iterable[RenderedNode]) -> dict[str, tuple[Labels, ...]]:
    """Labels of instances by definition, also of those that another instance is still to make."""
    found: dict[str, list[Labels]] = {}
    for node in nodes:
        if definition := catalog.definitions.get(node.group_kind):
            found.setdefault(definition.name, []).append((node.manifest.get("metadata") or {}).get("labels") or {})
    return {name: tuple(labels) for name, labels in found.items()}


def find_missing_names(
    entries: Iterable[str] | None, known: Collection[str], what: str, *, is_certain: bool
) -> Iterator[tuple[int, str]]:
    """Yield the index of each entry that fits no known name, and a sentence; where not all names are known, only with a near name."""
    for index, entry in enumerate(entries or ()):
        if entry == "*" or any(matches_any((entry,), name) for name in known):
            continue
        hint = "" if "*" in entry else suggestion(entry, known)
        if is_certain or hint:
            yield index, f"{what} {entry!r}{hint}"


def required_labels(selector: LabelSelector) -> LabelSelector:
    """The same without what excludes: an exclusion that leaves nothing is meant so."""
    return LabelSelector(tuple(one for one in selector.requirements if one.operator in _POSITIVE_OPERATORS))


def describe_missing_labels(
    selector: LabelSelector, instances: Collection[Labels], *, is_certain: bool, noun: str = "instance here"
) -> str:
    """Say what of the labels that a selector requires no instance has (or no other thing, as `noun` says); empty where some has them all, or may."""
    required = required_labels(selector)
    if any(required.matches(labels) for labels in instances):
        return ""
    for requirement in required.requirements:
        if not any(requirement.matches(labels) for labels in instances):
            hint = _suggest_label(requirement, instances)
            return f"no {noun} has the label {requirement}{hint}" if is_certain or hint else ""
    return f"no {noun} has all of the labels {required}" if is_certain else ""


def _suggest_label(requirement: Requirement, instances: Iterable[Labels]) -> str:
    """A near value of the same label, else a near label."""
    keys = {key for labels in instances for key in labels}
    if requirement.key not in keys:
        return suggestion(requirement.key, keys)
    known_values = {labels[requirement.key] for labels in instances if requirement.key in labels}
    return next(filter(None, (suggestion(value, known_values) for value in sorted(requirement.values))), "")
