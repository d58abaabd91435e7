"""Warnings about selectors that match nothing after a commit, and are new, changed or matched before the commit.

The selectors belong to windows, policies and waves. If an unchanged selector already matches nothing before the commit,
only `levelgate lint` reports the selector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from applier.cluster import Object
from applier.state.observed import annotation
from gitops.plan.comparison_base import ComparedObjects
from gitops.plan.masking import SecretMasks
from gitops.plan.report import PlannedAction, PlannedChange, PlanWarning, WarningKind
from gitops.reconcile.preview import Preview
from gitops.reconcile.sources import SourceState
from gitops.rollouts.lint import find_unmatched_selectors
from gitops.rollouts.source_rules import restore_rules
from gitops.windows.selectable import Labels, SelectableObjects
from gitops.windows.window import WindowTarget
from renderer import well_known
from renderer.identity import ObjectKey
from renderer.kinds import CRD
from renderer.render.model import Rendering, id_in_definition

_LEAVING = frozenset({PlannedAction.DELETE, PlannedAction.RELEASE})


def find_newly_unmatched(
    preview: Preview,
    head: SourceState,
    changes: Sequence[PlannedChange],
    selectable: ComparedObjects | None,
    masks: SecretMasks,
) -> Iterator[PlanWarning]:
    """Yield a warning for each selector that matches nothing after the commit, and is new, changed or matched before.

    Args:
        selectable: objects of the whole source, or None if the preview itself covers the whole source.
    """
    source = head.catalog.source
    if not head.catalog.rules:
        return
    compared = selectable or _compare_objects(preview, head, changes)
    rules_before = restore_rules(source, preview.accepted.get(source) or {})
    rules_after = preview.due.state.known.conditions.rules[source]
    known = {
        (unmatched.rule, unmatched.problem.message)
        for unmatched in find_unmatched_selectors(rules_before, (), compared.before)
    }
    is_elsewhere = source in head.governors or compared.after.is_empty
    for unmatched in find_unmatched_selectors(rules_after, head.catalog.rules, compared.after):
        if (unmatched.rule, unmatched.problem.message) not in known:
            problem = unmatched.with_other_sources().problem if is_elsewhere else unmatched.problem
            yield PlanWarning(
                WarningKind.SELECTS_NOTHING,
                masks.mask_text(problem.message),
                unmatched.rule[1],
                problem.file,
                problem.line,
            )


def _compare_objects(preview: Preview, head: SourceState, changes: Sequence[PlannedChange]) -> ComparedObjects:
    """Return the source's objects before the commit, and the rendered objects after the commit.

    The objects before the commit include the objects that the commit removes. Instances before the commit have their
    live labels.
    """
    cluster = preview.due.state.known.conditions.cluster
    after = SelectableObjects.from_rendering(head.catalog, _own_sets(preview.due.bundle, head), cluster)
    live = preview.due.observed.objects
    leaving = {change.key: change for change in changes if change.key and change.action in _LEAVING}
    definitions = preview.due.bundle.definitions
    keys = [*preview.due.bundle.instances, *leaving]
    instances = {key: live[key] for key in keys if key in live and key.group_kind in definitions}
    labels: dict[str, tuple[Labels, ...]] = {}
    for key, obj in instances.items():
        name = definitions[key.group_kind].name
        labels[name] = (*labels.get(name, ()), obj["metadata"].get("labels") or {})
    before = replace(
        after,
        targets=(*after.targets, *(_leaving_target(change, preview, live, cluster) for change in leaving.values())),
        namespaces=after.namespaces | {key.namespace for key in leaving} - {""},
        kinds=after.kinds | {key.group_kind for key in leaving},
        definitions={**dict.fromkeys(_leaving_definitions(leaving, live), frozenset[str]()), **after.definitions},
        labels={name: (*after.labels.get(name, ()), *labels.get(name, ())) for name in after.labels.keys() | labels},
    )
    return ComparedObjects(before, after)


def _own_sets(rendering: Rendering, head: SourceState) -> Rendering:
    """Return the rendering without the sets of other sources."""
    source = head.catalog.source
    return replace(
        rendering,
        sources={name: rendered for name, rendered in rendering.sources.items() if name == source},
        instances={key: rendered for key, rendered in rendering.instances.items() if rendered.source == source},
    )


def _leaving_target(
    change: PlannedChange, preview: Preview, live: Mapping[ObjectKey, Object], cluster: str
) -> WindowTarget:
    """Return a removed object in the form that windows select from."""
    assert change.key
    owner = change.instance or change.key
    definition = preview.due.bundle.definitions.get(owner.group_kind)
    labels = (live.get(owner) or {}).get("metadata", {}).get("labels") or {}
    return WindowTarget(
        change.key.group_kind,
        change.key.namespace,
        cluster,
        definition.name if definition else "",
        id_in_definition(change.node) if definition else "",
        labels if definition else None,
    )


def _leaving_definitions(leaving: Iterable[ObjectKey], live: Mapping[ObjectKey, Object]) -> Iterator[str]:
    """Yield the names of definitions whose CRD the commit removes."""
    for key in leaving:
        if key.group_kind == CRD and key in live:
            yield annotation(live[key], well_known.DEFINITION)
