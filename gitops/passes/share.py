"""What a process carries out of what it decides, where several divide the sources between them. Pure.

Each decides about everything: what one source wants may stand in the way of another (hand-overs, what others depend on, who defines a kind). It
writes the sets of its own sources alone, and their records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from applier.cluster import Object
from applier.observed import Observed, label
from applier.plan import Plan
from gitops.passes.sources import SourceState
from gitops.propagation.state import State
from gitops.records.rollouts import PREFIX as ROLLOUT_PREFIX
from gitops.records.rollouts import rollout_key
from renderer import keys
from renderer.identity import SOURCE_PREFIX, ObjectKey, applyset_id, source_parent
from renderer.model import Bundle
from renderer.values import dataclass

T = TypeVar("T")

COMMON: Final = ""
"""Stands, as the name of a source, for what is of no source: the installation's record, the calendar, what nobody wants."""

Mine = Callable[[str], bool]
"""Does this process work on the source of this name now?"""


@dataclass(frozen=True, slots=True)
class Share:
    """The sources that were `mine` when everything was looked at last, and still are; all of them where `mine` is None."""

    mine: Mine | None = None
    began: frozenset[str] = frozenset()

    @classmethod
    def of(cls, mine: Mine | None, states: Iterable[SourceState]) -> Share:
        names = (COMMON, *(state.catalog.source for state in states))
        return cls(mine, frozenset(filter(mine, names))) if mine else cls()

    def has(self, source: str) -> bool:
        return self.mine is None or (source in self.began and self.mine(source))

    def of_plan(self, plan: Plan) -> Plan:
        """What of it is carried out here."""
        if self.mine is None:
            return plan
        return replace(plan, sets=tuple(one for one in plan.sets if self.has(one.source)))

    def of_rollouts(self, bundle: Bundle, rollouts: Mapping[str, T], states: Mapping[str, State]) -> Mapping[str, T]:
        """Those of definitions that are ours, by name; `states` tell which kind each is of, since definitions of two sources may have one name."""
        if self.mine is None:
            return rollouts
        nothing = State()
        return {
            name: one
            for name, one in rollouts.items()
            if self.has(_definer(bundle, name, states.get(name, nothing).of) or COMMON)
        }

    def parents(self, observed: Observed) -> Iterator[Object]:
        """The parents of all sets that are ours, from owner to member."""
        if self.mine is None:
            yield from observed.objects.values()
            return
        pending = [source_parent(source) for source in sorted(self.began) if source]
        while pending:
            key = pending.pop()
            if parent := observed.objects.get(key):
                yield parent
            members = observed.members.get(applyset_id(key), ())
            pending += [one for one in members if label(observed.objects[one], keys.PARENT_ID)]

    def concerns(self, bundle: Bundle, parents: Iterable[ObjectKey]) -> bool:
        """Is one of these sets ours, or of nobody that is known?"""
        return any(not (sources := _sources_of(bundle, one)) or any(map(self.has, sources)) for one in parents)


def _definer(bundle: Bundle, rollout: str, of: str) -> str | None:
    """The source of the definition that a rollout is of: of its kind, and where nobody said `of` which it is, of its name."""
    kinds = [kind for kind in bundle.definitions if _is_under(of, str(kind))]
    if kinds:
        return bundle.owners[max(kinds, key=lambda kind: len(str(kind)))]
    return None if of else next(_definers(bundle, rollout), None)


def _definers(bundle: Bundle, rollout: str) -> Iterator[str]:
    """The sources of the definitions that a rollout may be named after."""
    return (bundle.owners[kind] for kind, one in bundle.definitions.items() if _is_under(rollout, one.name))


def _is_under(name: str, definition: str) -> bool:
    """Is it that of the definition, or of it under a policy?"""
    return name == definition or name.startswith(f"{definition}.")


def _sources_of(bundle: Bundle, parent: ObjectKey) -> tuple[str, ...]:
    """Of the parent of a set; of the record of a rollout, all that it may be of. Empty for everything else."""
    if rendered := bundle.instances.get(parent):
        return (rendered.source,)
    if parent == source_parent(name := parent.name.removeprefix(SOURCE_PREFIX)):
        return (name,)
    is_rollout = parent == rollout_key(name := parent.name.removeprefix(ROLLOUT_PREFIX))
    return tuple(_definers(bundle, name)) if is_rollout else ()
