"""Members left behind, as the record of a source stores them.

A member left behind is an object without its `part-of` label, because a person removed the label. Git does not declare
the object, and pruning misses it. Levelgate does not delete such a member, because Levelgate cannot tell whether the
person removed the label on purpose. Levelgate offers commands to delete or keep the member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from shlex import quote
from typing import Any, Final, NamedTuple

from applier.applyset.inventory import Scope, scope_covering
from applier.applyset.member import RECORD_ANNOTATIONS
from applier.causes import Cause, Reason
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD, NAMESPACE
from renderer.phrasing import format_count, join_names

MAX_LISTED: Final = 20
"""Largest number of members that a record lists. The record counts further members."""

_MAX_NAMED: Final = 5
"""Largest number of members that a message names."""


class Action(NamedTuple):
    """Action that a person can choose, and the kubectl command for this action."""

    description: str
    command: str


class LeftBehindMember(NamedTuple):
    """Key of a member left behind, and the facts that decide which actions a person can choose."""

    key: ObjectKey
    set_id: str
    """Id of the set that would prune the member if the member had its `part-of` label, or an empty string."""
    has_finalizer: bool = False
    """True for an instance with Levelgate's finalizer. If a person deletes the instance, the deletion never ends."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return the choices of a person, each as one kubectl command."""
        namespace = f" -n {self.key.namespace}" if self.key.namespace else ""
        name = f"{_kubectl_type(self.key)} {quote(self.key.name)}{namespace}"
        is_container = self.key.group_kind in {NAMESPACE, CRD}
        removed = " ".join(f"{annotation}-" for annotation in RECORD_ANNOTATIONS)
        delete = Action("delete the object", f"kubectl delete {name}")
        back = Action(
            f"give the object back: the next reconciliation {'releases' if is_container else 'prunes'} it "
            "like any member",
            f"kubectl label {name} {well_known.PART_OF}={self.set_id} --overwrite",
        )
        keep = (
            Action("keep the object as it is", f"kubectl annotate {name} {well_known.PRUNE}=disabled --overwrite")
            if self.has_finalizer
            else Action("keep the object without an owner: remove the record", f"kubectl annotate {name} {removed}")
        )
        return (
            *((back,) if self.set_id else ()),
            *(() if self.has_finalizer or is_container else (delete,)),
            keep,
        )

    @property
    def cause(self) -> Cause:
        """Return the cause that explains why the member remains in the cluster."""
        message = (
            f"left behind: a person removed the label {well_known.PART_OF}, and Git no longer declares the object; "
            "Levelgate wrote the object, and does not delete the object without the label"
        )
        return Cause(Reason.LEFT_BEHIND, message, object_key=self.key)


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Number and list of a source's members that are left behind, and the scope in which to search for members."""

    count: int = 0
    """Number of all members left behind, listed or not."""
    members: tuple[LeftBehindMember, ...] = ()
    """Members in the list, ordered by key, at most `MAX_LISTED`."""
    scope: Scope = Scope()
    """Kinds and namespaces of all members left behind, and of candidates about which Levelgate has not decided yet.

    Searches include this scope, because the inventory of the set may no longer cover it.
    """

    @classmethod
    def from_members(cls, members: Mapping[ObjectKey, LeftBehindMember]) -> LeftBehind:
        """Return the record that counts all of `members` and lists the first `MAX_LISTED`."""
        return cls(len(members), tuple(members[key] for key in sorted(members))[:MAX_LISTED], scope_covering(members))

    def keep(self, is_left: Callable[[ObjectKey], bool]) -> LeftBehind:
        """Return the record without those listed members for which `is_left` is false.

        The count of members that are not listed stays.
        """
        members = tuple(member for member in self.members if is_left(member.key))
        count = self.count - len(self.members) + len(members)
        return replace(self, count=count, members=members)

    def joined(self, members: Mapping[ObjectKey, LeftBehindMember]) -> LeftBehind:
        """Return the record, extended by those of `members` that the record does not list yet."""
        new = {key: member for key, member in members.items() if self.find(key) is None}
        if not new:
            return self
        added = LeftBehind.from_members(new)
        listed = tuple(sorted((*self.members, *added.members)))[:MAX_LISTED]
        return LeftBehind(self.count + added.count, listed, self.scope | added.scope)

    def searched_in(self, scope: Scope) -> LeftBehind:
        """Return the record, with its scope extended by `scope`."""
        return replace(self, scope=self.scope | scope)

    def find(self, key: ObjectKey) -> LeftBehindMember | None:
        """Return the listed member with the key `key`, or None if no such member is listed."""
        return next((member for member in self.members if member.key == key), None)

    @property
    def cause(self) -> Cause:
        """Return one cause for all members left behind, with a message that names at most `_MAX_NAMED` members."""
        names = [str(member.key) for member in self.members[:_MAX_NAMED]]
        more = f" and {self.count - len(names)} more" if self.count > len(names) else ""
        verb = "is" if self.count == 1 else "are"
        message = (
            f"{format_count(self.count, 'member')} {verb} left behind: {join_names(names)}{more}; "
            f"a person removed the label {well_known.PART_OF} from objects that Git no longer declares: "
            "delete the objects, give them back or keep them"
        )
        return Cause(Reason.LEFT_BEHIND, message)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON."""
        return {
            "count": self.count,
            "members": [
                {
                    "object": str(member.key),
                    **({"set": member.set_id} if member.set_id else {}),
                    **({"finalizer": True} if member.has_finalizer else {}),
                }
                for member in self.members
            ],
            "kinds": sorted(map(str, self.scope.kinds)),
            "namespaces": sorted(self.scope.namespaces),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LeftBehind:
        """Return the record from which `to_json` made `value`.

        If `value` is unreadable, return an empty record, because the next search finds all members.
        """
        match value:
            case {"count": int(count), "members": list(rows), "kinds": list(kinds), "namespaces": list(namespaces)}:
                scope = Scope(frozenset(map(GroupKind.parse, map(str, kinds))), frozenset(map(str, namespaces)))
                members = [
                    LeftBehindMember(key, str(row.get("set", "")), bool(row.get("finalizer")))
                    for row in rows
                    if isinstance(row, dict) and (key := ObjectKey.parse(str(row.get("object", ""))))
                ]
                return cls(count, tuple(members[:MAX_LISTED]), scope)
        return cls()


def _kubectl_type(key: ObjectKey) -> str:
    """Return the type of `key` in the form that kubectl accepts, such as `configmap` or `deployment.apps`."""
    return f"{key.kind.lower()}.{key.group}" if key.group else key.kind.lower()
