"""Sets of instances: the revision from which each is rendered, nested instances, and instances that Git cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple, Protocol

from renderer.catalog.file_content import DeclaredObject
from renderer.definition.compile import Definition
from renderer.definition.conditions import ReadyVerdict
from renderer.errors import Problem, SourceLocation
from renderer.identity import GroupKind, Manifest, ObjectKey, digest, source_parent
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.model import RenderedApplySet, RenderedNode
from renderer.render.order import source_node
from renderer.render.resources import MAX_NODES, join_errors
from renderer.render.revisions import AppliedSnapshot
from renderer.schema import SchemaMistake

MAX_NESTING = 8


class InstanceOwner(NamedTuple):
    """Owner of an instance: a source, through the set of `parent`."""

    source: str
    parent: ObjectKey

    @classmethod
    def of_source(cls, source: str) -> InstanceOwner:
        return cls(source, source_parent(source))


class FromGit(Enum):
    """Content of an instance that does not come from another instance."""

    # Renderings are keys of many values. The hash of an enumeration is a Python function, and costs as much as the rest.
    __hash__ = object.__hash__

    DECLARED = "declared"
    """The instance as the source declares it now."""
    APPLIED = "applied"
    """The instance as it was last applied, from its applied snapshot."""


class NodeOf(NamedTuple):
    """Content of a nested instance: a node of another rendering."""

    rendering: InstanceRendering
    node_id: str


class InstanceRendering(NamedTuple):
    """Key of one rendering of an instance. An instance that moves to another revision has two renderings."""

    instance: ObjectKey
    revision: int
    owner: InstanceOwner
    content: FromGit | NodeOf


class RenderInputs(Protocol):
    """Knowledge from which instances are rendered. Each method looks up one kind or one instance."""

    def current(self, kind: GroupKind) -> Definition | None:
        """Return the definition from which new instances of a kind are rendered, or None if there is none."""

    def newest(self, kind: GroupKind) -> int:
        """Return the revision number of the current definition of a kind."""

    def definition_at(self, kind: GroupKind, number: int) -> Definition | None:
        """Return the definition of a kind at a revision, or None if the revision is unknown or does not build."""

    def held_reason(self, kind: GroupKind) -> str:
        """Return the reason why a kind has no usable definition, or an empty text."""

    def installed_name(self, kind: GroupKind) -> str:
        """Return the name of the definition whose CRD the cluster has, or an empty text."""

    def placement(self, instance: ObjectKey) -> RevisionPlacement:
        """Return the revisions that the rollout gives to an instance."""

    def applied(self, instance: ObjectKey) -> AppliedSnapshot | None:
        """Return the applied snapshot of an instance."""

    def is_gated(self, instance: ObjectKey) -> bool:
        """Return whether an instance waits at a gate, so that its applied snapshot is rendered as well."""

    def read_record(self, record: str) -> None:
        """Ask for the content of a record that is not read yet."""

    def with_defaults(
        self, rendering: InstanceRendering, definition: Definition, declared: DeclaredObject, manifest: Manifest
    ) -> tuple[Manifest, Sequence[SchemaMistake]]:
        """Return a declared instance with the defaults of a definition, and the mistakes in its spec.

        The result follows from the key of the rendering.
        """

    def resolve(self, rendering: InstanceRendering, definition: Definition, manifest: Manifest) -> RenderedApplySet:
        """Return the set of a rendering. The definition and the manifest follow from the key."""


class _Assigned(NamedTuple):
    """Definition of an instance at a revision."""

    definition: Definition
    number: int
    aim: int
    """Number of the revision to which the instance is to move."""
    travels: bool = False
    """True if only the revision in `aim` fits what Git wants, so that the change goes with the move."""
    unfit: str = ""
    """Reason why what Git wants does not fit the revision in `aim`, so that the instance cannot move."""


class InstanceRenderer:
    """Renderer of instances that collects the sets and the mistakes.

    If two instances nest one instance, the first that is rendered has it.
    """

    def __init__(self, inputs: RenderInputs) -> None:
        self.sets: dict[ObjectKey, RenderedApplySet] = {}
        self.problems: list[Problem] = []
        self.is_shared = False
        """Whether the last declared instance, or an instance nested in it, had been rendered before."""
        self._inputs = inputs
        self._nodes_of_family = 0

    def is_instance(self, kind: GroupKind) -> bool:
        """Are objects of this kind instances? They are never plain objects, whether they can be rendered or not."""
        return self._inputs.current(kind) is not None or bool(self.undefined(kind))

    def undefined(self, kind: GroupKind) -> str:
        """Why objects of this kind, which are instances, cannot be rendered; empty for every other kind."""
        why = self._inputs.held_reason(kind) or ("is not in Git" if self._inputs.installed_name(kind) else "")
        if not why or self._inputs.current(kind) is not None:
            return ""
        return f"the definition of {kind} {why}; the instance stays as it is"

    def hold(self, key: ObjectKey, why: str, manifest: Manifest, by: InstanceOwner, *, depth: int = 0) -> None:
        """What Git wants of an instance cannot be rendered: it is rendered from its applied pair, and without one it stays as it is."""
        pair = self._inputs.applied(key)
        definition = self._at_pair(key, pair)
        if pair and pair.manifest is not None and definition:
            at = _Assigned(definition, pair.revision, pair.revision)
            self._expand(at, FromGit.APPLIED, pair.manifest, key, by, held=why, depth=depth)
            return
        name = definition.name if definition else self._inputs.installed_name(key.group_kind)
        self._fail(key, why, manifest, name, by)

    def before(self, key: ObjectKey, by: InstanceOwner) -> RenderedApplySet | None:
        """The instance at its applied pair; None where there is none, or it has to be read first."""
        pair = self._inputs.applied(key)
        definition = self._at_pair(key, pair)
        if not (pair and pair.manifest is not None and definition):
            return None
        rendering = InstanceRendering(key, pair.revision, by, FromGit.APPLIED)
        found = self._inputs.resolve(rendering, definition, pair.manifest)
        return replace(
            found, revision=pair.revision, target_revision=pair.revision, applied=pair.revision, is_applied=True
        )

    def has_references(self, key: ObjectKey) -> bool:
        """Return whether the definition of an instance, at its applied pair, reads by `externalRef`."""
        pair = self._inputs.applied(key)
        definition = self._inputs.definition_at(key.group_kind, pair.revision) if pair else None
        return definition is not None and any(node.external for node in definition.nodes)

    def declared(self, source: str, declared: DeclaredObject, manifest: Manifest, key: ObjectKey) -> RenderedNode:
        """Render a declared instance with all instances nested in it, and return its node in the set of its source."""
        self.is_shared = key in self.sets
        by = InstanceOwner.of_source(source)

        def with_defaults(definition: Definition, number: int) -> tuple[Manifest, Sequence[SchemaMistake]]:
            rendering = InstanceRendering(key, number, by, FromGit.DECLARED)
            return self._inputs.with_defaults(rendering, definition, declared, manifest)

        assigned = self._assigned(key, FromGit.DECLARED, with_defaults, by)
        if assigned.travels:
            self._stay(assigned, key, manifest, by)
            turn = f"its queue position for r{assigned.aim}, which it needs"
            return source_node(manifest, key, declared.origin, error=declared.refused_reason, waiting=(turn,))
        definition = assigned.definition
        manifest, mistakes = with_defaults(definition, assigned.number)
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
            self._expand(assigned, FromGit.DECLARED, manifest, key, by)
        return source_node(manifest, key, at, error=error)

    def _assigned(self, key: ObjectKey, content: FromGit | NodeOf, at: _AtDefinition, by: InstanceOwner) -> _Assigned:
        """Which revision an instance is rendered from: its own, unless the one that it is to move to renders the same. `at` gives the instance
        under a definition.
        """
        kind = key.group_kind
        place, newest, current = self._inputs.placement(key), self._inputs.newest(kind), self._inputs.current(kind)
        assert current is not None
        aim = self._numbered(kind, place.aim) or _Assigned(current, newest, newest)
        own = self._numbered(kind, place.revision)
        if own is None or own.number == aim.number:
            return aim
        before, wrong_before = at(own.definition, own.number)
        after, wrong_after = at(aim.definition, aim.number)
        if wrong_before or wrong_after:
            return own._replace(aim=aim.number, travels=not wrong_after, unfit=join_errors(wrong_after))
        before_rendering = InstanceRendering(key, own.number, by, content)
        after_rendering = InstanceRendering(key, aim.number, by, content)
        is_same = _same(
            self._inputs.resolve(before_rendering, own.definition, before),
            self._inputs.resolve(after_rendering, aim.definition, after),
        )
        return aim if is_same and before == after else own._replace(aim=aim.number)

    def _numbered(self, kind: GroupKind, number: int) -> _Assigned | None:
        definition = self._inputs.definition_at(kind, number) if number else None
        return _Assigned(definition, number, number) if definition else None

    def _at_pair(self, key: ObjectKey, pair: AppliedSnapshot | None) -> Definition | None:
        """The definition at the revision of a pair; one that has to be read first is asked for."""
        if pair and pair.manifest is None:
            self._inputs.read_record(pair.record)
        return self._inputs.definition_at(key.group_kind, pair.revision) if pair else None

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
        content: FromGit | NodeOf,
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
        rendering = InstanceRendering(key, assigned.number, by, content)
        rendered = self._inputs.resolve(rendering, definition, manifest)
        undefined = {kind: why for node in definition.nodes if (why := self.undefined(kind := node.group_kind))}
        nodes = rendered.nodes
        if undefined:
            nodes = tuple(replace(one, error=one.error or undefined.get(one.group_kind, "")) for one in nodes)
        pair = self._inputs.applied(key)
        self.sets[key] = replace(
            rendered,
            nodes=nodes,
            held_reason=held,
            revision=assigned.number,
            target_revision=assigned.aim,
            incompatible_reason=assigned.unfit,
            applied=pair.revision if pair else 0,
            is_applied=pair is not None and pair.digest == digest([assigned.number, manifest]),
            applied_rendering=self.before(key, by) if self._inputs.is_gated(key) else None,
        )
        self._nodes_of_family += len(nodes)
        for node in nodes:
            if node.key and not node.external:
                self._nested(node, node.key, rendering, depth + 1)

    def _too_much(self, definition: Definition, depth: int) -> str:
        if depth == MAX_NESTING:
            return (
                f"instances are nested more than {MAX_NESTING} deep; does {definition.name} create instances of itself?"
            )
        if self._nodes_of_family > MAX_NODES:
            return f"the instance at the top has more than {MAX_NODES:,} objects, nested ones counted"
        return ""

    def _nested(self, node: RenderedNode, key: ObjectKey, outer: InstanceRendering, depth: int) -> None:
        """Render an object of an instance, if the object is an instance itself."""
        by = InstanceOwner(outer.owner.source, outer.instance)
        if key in self.sets:
            self.is_shared = True
        elif self._inputs.current(node.group_kind) is not None and node.writable:
            content = NodeOf(outer, node.id)
            assigned = self._assigned(key, content, _given(node.manifest), by)
            self._expand(assigned, content, node.manifest, key, by, depth=depth)
        elif self._inputs.applied(key) is not None:
            self.hold(key, node.error or f"waits for {', '.join(node.waiting)}", node.manifest, by, depth=depth)

    def _fail(self, key: ObjectKey, why: str, manifest: Manifest, definition: str, by: InstanceOwner) -> None:
        self.sets[key] = RenderedApplySet(
            parent=key, manifest=manifest, error=why, source=by.source, definition=definition, owner=by.parent
        )


_AtDefinition = Callable[[Definition, int], tuple[Manifest, Sequence[SchemaMistake]]]
"""Function of a definition and its revision number that returns an instance with defaults, and its mistakes."""


def _given(manifest: Manifest) -> _AtDefinition:
    """Return the function for a nested instance, which has the defaults of the newest definition already."""
    return lambda _definition, _number: (manifest, ())


def _same(one: RenderedApplySet, other: RenderedApplySet) -> bool:
    """Would going from one to the other write nothing? What is read from the cluster is the same for both."""
    return [_written(node) for node in one.nodes] == [_written(node) for node in other.nodes]


def _written(node: RenderedNode) -> RenderedNode:
    return replace(node, origin=SourceLocation(), ready=ReadyVerdict(), healthy_first=frozenset(), iterators={})
