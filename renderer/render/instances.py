"""The sets of instances: from which revision each is rendered, which instances are nested in it, and what stands for one that Git cannot say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from renderer.catalog.file_content import DeclaredObject
from renderer.definition.compile import Definition
from renderer.definition.conditions import ReadyVerdict
from renderer.errors import Problem, SourceLocation
from renderer.identity import GroupKind, Manifest, ObjectKey, digest, source_parent
from renderer.render.cache import RenderCache
from renderer.render.instance_cache import InstanceRevisions, RevisionPlacement, SharedRenderInputs
from renderer.render.model import RenderedApplySet, RenderedNode
from renderer.render.order import source_node
from renderer.render.resources import MAX_NODES, join_errors
from renderer.render.revision_selection import RevisionSelection
from renderer.render.revisions import AppliedSnapshot
from renderer.render.set_cache import SetInputs
from renderer.render.world import ClusterView
from renderer.schema import SchemaMistake

MAX_NESTING = 8


class InstanceOwner(NamedTuple):
    """Who wants an instance: a source, by a set of it, which has this parent."""

    source: str
    parent: ObjectKey

    @classmethod
    def of_source(cls, source: str) -> InstanceOwner:
        return cls(source, source_parent(source))


class _Assigned(NamedTuple):
    """A definition at a revision, and the number of the revision that the instance is to move to. `travels`: only that one can say what Git wants,
    so the change of the instance goes with the move. `unfit`: why that one cannot say it, so that the instance cannot move.
    """

    definition: Definition
    number: int
    aim: int
    travels: bool = False
    unfit: str = ""


class InstanceRenderer:
    """`sets` are those that were rendered so far, `problems` what was found wrong on the way."""

    def __init__(
        self, definitions: RevisionSelection, scopes: Mapping[GroupKind, bool], world: ClusterView, memo: RenderCache
    ) -> None:
        self.sets: dict[ObjectKey, RenderedApplySet] = {}
        self.problems: list[Problem] = []
        self._definitions = definitions
        self._world = world
        self._memo = memo
        self._around = SetInputs(world.live, definitions.current, scopes, world.selected)
        self._standing = InstanceRevisions(world.places, world.stored.applied, world.gated, definitions.numbers)
        self._ground = memo.on(
            SharedRenderInputs(
                definitions.current,
                definitions.numbers,
                definitions.held,
                world.defined,
                scopes,
                world.selected,
                world.stored.revisions,
                tuple(definitions.known.values()),
            )
        )
        self._nodes_of_family = 0
        self._is_shared = False

    def declared(self, source: str, declared: DeclaredObject, manifest: Manifest, key: ObjectKey) -> RenderedNode:
        """The node of an instance in the set of its source. It is rendered with all that are nested in it, or is as it was last, where nothing of
        that has changed.
        """
        live = self._world.live
        known = self._memo.family(source, declared, key, self._ground, self._standing, live)
        if known and self.sets.keys().isdisjoint(known.sets):
            self.sets |= known.sets
            self.problems += known.problems
            return known.node
        sets, problems = len(self.sets), len(self.problems)
        self._is_shared = key in self.sets
        node = self._declared(source, declared, manifest, key)
        if not (self._is_shared or self._definitions.unread):
            mine = dict(islice(reversed(self.sets.items()), len(self.sets) - sets))
            found = self.problems[problems:]
            self._memo.keep(source, declared, self._ground, self._standing, live, node, mine, found)
        return node

    def is_instance(self, kind: GroupKind) -> bool:
        """Are objects of this kind instances? They are never plain objects, whether they can be rendered or not."""
        return kind in self._definitions.current or bool(self.undefined(kind))

    def undefined(self, kind: GroupKind) -> str:
        """Why objects of this kind, which are instances, cannot be rendered; empty for every other kind."""
        why = self._definitions.held.get(kind) or ("is not in Git" if kind in self._world.defined else "")
        if not why or kind in self._definitions.current:
            return ""
        return f"the definition of {kind} {why}; the instance stays as it is"

    def hold(self, key: ObjectKey, why: str, manifest: Manifest, by: InstanceOwner, *, depth: int = 0) -> None:
        """What Git wants of an instance cannot be rendered: it is rendered from its applied pair, and without one it stays as it is."""
        pair = self._world.stored.applied.get(key)
        definition = self._at_pair(key, pair)
        if pair and pair.manifest is not None and definition:
            at = _Assigned(definition, pair.revision, pair.revision)
            self._expand(at, pair.manifest, key, by, held=why, depth=depth)
            return
        name = definition.name if definition else self._world.defined.get(key.group_kind, "")
        self._fail(key, why, manifest, name, by)

    def before(self, key: ObjectKey, by: InstanceOwner) -> RenderedApplySet | None:
        """The instance at its applied pair; None where there is none, or it has to be read first."""
        pair = self._world.stored.applied.get(key)
        definition = self._at_pair(key, pair)
        if not (pair and pair.manifest is not None and definition):
            return None
        found = self._resolve(definition, pair.manifest, by)
        return replace(
            found, revision=pair.revision, target_revision=pair.revision, applied=pair.revision, is_applied=True
        )

    def has_references(self, key: ObjectKey) -> bool:
        """Return whether the definition of an instance, at its applied pair, reads by `externalRef`."""
        pair = self._world.stored.applied.get(key)
        definition = self._definitions.at(key.group_kind, pair.revision) if pair else None
        return definition is not None and any(node.external for node in definition.nodes)

    def _declared(self, source: str, declared: DeclaredObject, manifest: Manifest, key: ObjectKey) -> RenderedNode:
        by = InstanceOwner.of_source(source)
        assigned = self._assigned(key, lambda one: self._memo.with_defaults(one, declared, key, manifest), by)
        if assigned.travels:
            self._stay(assigned, key, manifest, by)
            turn = f"its queue position for r{assigned.aim}, which it needs"
            return source_node(manifest, key, declared.origin, error=declared.refused_reason, waiting=(turn,))
        definition = assigned.definition
        manifest, mistakes = self._memo.with_defaults(definition, declared, key, manifest)
        self.problems += [
            Problem(declared.origin.file, declared.line_of(mistake.path), mistake.path, mistake.message)
            for mistake in mistakes
        ]
        error = declared.refused_reason or join_errors(mistakes)
        if assigned.unfit and not error:
            message = f"does not fit revision {assigned.aim} of its definition, so it stays at {assigned.number}: {assigned.unfit}"
            self.problems.append(Problem(declared.origin.file, declared.origin.line, "spec", message))
        if manifest["apiVersion"] != definition.api_version and not error:
            error = f"apiVersion {manifest['apiVersion']} is not served; the definition at {definition.origin} says {definition.api_version}"
            self.problems.append(Problem(declared.origin.file, declared.origin.line, "apiVersion", error))
        at = replace(declared.origin, line=declared.line_of(mistakes[0].path)) if mistakes else declared.origin
        if error:
            self.hold(key, at.prefixed(error), manifest, by)
        else:
            self._expand(assigned, manifest, key, by)
        return source_node(manifest, key, at, error=error)

    def _assigned(self, key: ObjectKey, at: _AtDefinition, by: InstanceOwner) -> _Assigned:
        """Which revision an instance is rendered from: its own, unless the one that it is to move to renders the same. `at` gives the instance
        under a definition.
        """
        kind = key.group_kind
        place = self._world.places.get(key, RevisionPlacement())
        newest = self._definitions.numbers[kind]
        aim = self._numbered(kind, place.aim) or _Assigned(self._definitions.current[kind], newest, newest)
        own = self._numbered(kind, place.revision)
        if own is None or own.number == aim.number:
            return aim
        (before, wrong_before), (after, wrong_after) = at(own.definition), at(aim.definition)
        if wrong_before or wrong_after:
            return own._replace(aim=aim.number, travels=not wrong_after, unfit=join_errors(wrong_after))
        is_same = _same(self._resolve(own.definition, before, by), self._resolve(aim.definition, after, by))
        return aim if is_same and before == after else own._replace(aim=aim.number)

    def _numbered(self, kind: GroupKind, number: int) -> _Assigned | None:
        definition = self._definitions.at(kind, number) if number else None
        return _Assigned(definition, number, number) if definition else None

    def _at_pair(self, key: ObjectKey, pair: AppliedSnapshot | None) -> Definition | None:
        """The definition at the revision of a pair; one that has to be read first is asked for."""
        if pair and pair.manifest is None:
            self._definitions.unread.add(pair.record)
        return self._definitions.at(key.group_kind, pair.revision) if pair else None

    def _stay(self, assigned: _Assigned, key: ObjectKey, manifest: Manifest, by: InstanceOwner) -> None:
        """An instance whose change only the revision that it is to move to can say: until then it is as it was applied, or nothing."""
        name = assigned.definition.name
        nothing = RenderedApplySet(
            key, manifest, source=by.source, definition=name, owner=by.parent, revision=assigned.number
        )
        self.sets[key] = replace(self.before(key, by) or nothing, target_revision=assigned.aim)

    def _expand(
        self,
        assigned: _Assigned,
        manifest: Manifest,
        key: ObjectKey,
        by: InstanceOwner,
        *,
        held: str = "",
        depth: int = 0,
    ) -> None:
        """Render the set of an instance, and of the instances that are nodes of it."""
        definition = assigned.definition
        if depth == 0:
            self._nodes_of_family = 0
        if why := self._too_much(definition, depth):
            self._fail(key, why, manifest, definition.name, by)
            return
        rendered = self._resolve(definition, manifest, by)
        undefined = {kind: why for node in definition.nodes if (why := self.undefined(kind := node.group_kind))}
        nodes = rendered.nodes
        if undefined:
            nodes = tuple(replace(one, error=one.error or undefined.get(one.group_kind, "")) for one in nodes)
        pair = self._world.stored.applied.get(key)
        self.sets[key] = replace(
            rendered,
            nodes=nodes,
            held_reason=held,
            revision=assigned.number,
            target_revision=assigned.aim,
            incompatible_reason=assigned.unfit,
            applied=pair.revision if pair else 0,
            is_applied=pair is not None and pair.digest == digest([assigned.number, manifest]),
            applied_rendering=self.before(key, by) if key in self._world.gated else None,
        )
        self._nodes_of_family += len(nodes)
        for node in nodes:
            if node.key and not node.external:
                self._nested(node, node.key, InstanceOwner(by.source, key), depth + 1)

    def _too_much(self, definition: Definition, depth: int) -> str:
        if depth == MAX_NESTING:
            return (
                f"instances are nested more than {MAX_NESTING} deep; does {definition.name} create instances of itself?"
            )
        if self._nodes_of_family > MAX_NODES:
            return f"the instance at the top has more than {MAX_NODES:,} objects, nested ones counted"
        return ""

    def _nested(self, node: RenderedNode, key: ObjectKey, by: InstanceOwner, depth: int) -> None:
        """Render an object of an instance, if it is an instance itself."""
        if key in self.sets:
            self._is_shared = True
        elif node.group_kind in self._definitions.current and node.writable:
            self._expand(self._assigned(key, _given(node.manifest), by), node.manifest, key, by, depth=depth)
        elif key in self._world.stored.applied:
            self.hold(key, node.error or f"waits for {', '.join(node.waiting)}", node.manifest, by, depth=depth)

    def _fail(self, key: ObjectKey, why: str, manifest: Manifest, definition: str, by: InstanceOwner) -> None:
        self.sets[key] = RenderedApplySet(
            parent=key, manifest=manifest, error=why, source=by.source, definition=definition, owner=by.parent
        )

    def _resolve(self, definition: Definition, manifest: Manifest, by: InstanceOwner) -> RenderedApplySet:
        return self._memo.resolve(definition, manifest, self._around, source=by.source, owner=by.parent)


_AtDefinition = Callable[[Definition], tuple[Manifest, list[SchemaMistake]]]
"""An instance under a definition: with its defaults, and what of it does not fit."""


def _given(manifest: Manifest) -> _AtDefinition:
    """An instance that another one wants: it has the defaults of the newest definition already."""
    return lambda _: (manifest, [])


def _same(one: RenderedApplySet, other: RenderedApplySet) -> bool:
    """Would going from one to the other write nothing? What is read from the cluster is the same for both."""
    return [_written(node) for node in one.nodes] == [_written(node) for node in other.nodes]


def _written(node: RenderedNode) -> RenderedNode:
    return replace(node, origin=SourceLocation(), ready=ReadyVerdict(), healthy_first=frozenset(), iterators={})
