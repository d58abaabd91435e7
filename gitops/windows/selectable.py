"""Objects of a source that its rules can select, and the entries of selectors that match none of these objects.

A rule that selects nothing has no effect. Usually, the reason is a misspelled name. An entry counts as missing only if
the commit proves that no object matches the entry. A commit proves nothing about names that come from data of a
cluster, or about objects that definitions of other sources create.
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
    """Selector of a rule, or entry of a selector, that matches nothing."""

    rule: tuple[str, str]
    """Kind and name of the rule."""
    problem: Problem

    def with_other_sources(self) -> UnmatchedSelector:
        """Return the finding with a note that the rule may govern other sources, which the lint has not read."""
        message = f"{self.problem.message}; the rule may govern other sources, which are not read"
        return replace(self, problem=replace(self.problem, message=message))


@dataclass(frozen=True)
class SelectableObjects:
    """Objects of one source that selectors can name, with flags for the completeness of the lists."""

    targets: tuple[WindowTarget, ...]
    namespaces: frozenset[str]
    kinds: frozenset[GroupKind]
    definitions: Mapping[str, frozenset[str]]
    """Node ids by name of the definition."""
    labels: Mapping[str, tuple[Labels, ...]]
    """Labels of each instance by name of its definition."""
    knows_namespaces: bool
    """True if all namespaces are known, because no object waits for data that contains its namespace."""
    knows_definitions: bool
    """True if all definitions are known, because no definition and no file is broken."""
    knows_objects: bool
    """True if all definitions are known, and no object can be an instance of a definition of another source."""
    is_whole: bool
    """True if all namespaces and objects are known, and every object that the source will have is rendered."""

    @classmethod
    def from_rendering(cls, catalog: Catalog, rendering: Rendering, cluster: str) -> SelectableObjects:
        """Return the objects of the commit in `catalog`, rendered in `rendering`.

        Args:
            cluster: name by which windows select the cluster.
        """
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
        """Return whether the source has no objects and no definitions, only rules."""
        return not self.targets and not self.definitions

    @cached_property
    def all_labels(self) -> tuple[Labels, ...]:
        """Return the labels of each instance."""
        return tuple(labels for of_definition in self.labels.values() for labels in of_definition)

    @cached_property
    def kind_names(self) -> frozenset[str]:
        """Return the names that a window can use for the kinds, such as `Deployment` and `Deployment.apps`."""
        return frozenset({kind.kind for kind in self.kinds} | {str(kind) for kind in self.kinds})

    @cached_property
    def node_ids(self) -> frozenset[str]:
        """Return the ids of all nodes of definitions."""
        return frozenset().union(*self.definitions.values())

    def labels_of(self, rgds: Collection[str]) -> list[Labels]:
        """Return the labels of the instances whose definition matches a name or pattern in `rgds`.

        If `rgds` is empty, return the labels of all instances.
        """
        return [
            labels
            for name, of_definition in self.labels.items()
            if matches_any(tuple(rgds) or None, name)
            for labels in of_definition
        ]


def _instance_labels(catalog: Catalog, nodes: Iterable[RenderedNode]) -> dict[str, tuple[Labels, ...]]:
    """Return the labels of each instance by name of the definition.

    The result includes instances that another instance has yet to create.
    """
    found: dict[str, list[Labels]] = {}
    for node in nodes:
        if definition := catalog.definitions.get(node.group_kind):
            found.setdefault(definition.name, []).append((node.manifest.get("metadata") or {}).get("labels") or {})
    return {name: tuple(labels) for name, labels in found.items()}


def find_missing_names(
    entries: Iterable[str] | None, known: Collection[str], sentence: str, *, is_certain: bool
) -> Iterator[tuple[int, str]]:
    """Yield the index and the message of each entry in `entries` that matches no name in `known`.

    Args:
        sentence: opening of the message, which the entry follows.
        is_certain: whether `known` has all names. If `is_certain` is false, the function yields only entries that
            resemble a known name.
    """
    for index, entry in enumerate(entries or ()):
        if entry == "*" or any(matches_any((entry,), name) for name in known):
            continue
        hint = "" if "*" in entry else suggestion(entry, known)
        if is_certain or hint:
            yield index, f"{sentence} {entry!r}{hint}"


def required_labels(selector: LabelSelector) -> LabelSelector:
    """Return `selector` without its exclusions, because an author may exclude all objects on purpose."""
    positive = (entry for entry in selector.requirements if entry.operator in _POSITIVE_OPERATORS)
    return LabelSelector(tuple(positive))


def describe_missing_labels(
    selector: LabelSelector, instances: Collection[Labels], *, is_certain: bool, noun: str = "instance of the source"
) -> str:
    """Return a message about labels that `selector` requires and that no instance has.

    If an instance has all required labels, or may have them, return an empty string.

    Args:
        instances: labels of each known instance.
        is_certain: whether all instances are known. If `is_certain` is false, the message names only a label that
            resembles a known label.
        noun: name of the labelled objects in the message.
    """
    required = required_labels(selector)
    if any(required.matches(labels) for labels in instances):
        return ""
    for requirement in required.requirements:
        if not any(requirement.matches(labels) for labels in instances):
            hint = _suggest_label(requirement, instances)
            return f"no {noun} has the label {requirement}{hint}" if is_certain or hint else ""
    return f"no {noun} has all of the labels {required}" if is_certain else ""


def _suggest_label(requirement: Requirement, instances: Iterable[Labels]) -> str:
    """Return a hint about a label that resembles `requirement`, or an empty string if no label does.

    If an instance has a label with the same key, the hint names a similar value. Otherwise, the hint names a similar
    key.
    """
    keys = {key for labels in instances for key in labels}
    if requirement.key not in keys:
        return suggestion(requirement.key, keys)
    known_values = {labels[requirement.key] for labels in instances if requirement.key in labels}
    return next(filter(None, (suggestion(value, known_values) for value in sorted(requirement.values))), "")
