"""Grouping of equal transitions into one message. Pure.

If a commit makes a thousand instances fail, a receiver gets a few messages instead of a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gitops.records.transitions import Transition
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.phrasing import join_names

MAX_NAMED_INSTANCES: Final = 3
"""Maximum number of instances in the text of a message. A webhook gets up to `MAX_INSTANCES_PER_MESSAGE` names."""

MAX_INSTANCES_PER_MESSAGE: Final = 200
"""Maximum number of instances in one message. Further instances go into the next message."""


@dataclass(frozen=True, slots=True)
class Message:
    """Equal transitions of one or several objects, which make one notification."""

    first: Transition
    """Transition of the first object."""
    keys: tuple[ObjectKey, ...]
    is_same: bool = True
    """True if the transitions of all objects have the same text."""

    @classmethod
    def from_transition(cls, transition: Transition) -> Message:
        return cls(transition, (transition.key,))

    def merge(self, other: Message) -> Message | None:
        """Return one message for the objects of this message and `other`, or None if the messages must stay apart."""
        if (
            not _grouping_key(other.first)
            or _grouping_key(self.first) != _grouping_key(other.first)
            or len(self.keys) >= MAX_INSTANCES_PER_MESSAGE
        ):
            return None
        keys = tuple(dict.fromkeys((*self.keys, *other.keys)))
        return replace(self, keys=keys, is_same=self.is_same and self.first.message == other.first.message)

    @property
    def object(self) -> str:
        """Return the name of the object. For several objects, return their number and the first names.

        Examples: `source/platform`; `Link.g.test/prod/a`; `5 instances: Link.g.test/prod/a, Link.g.test/prod/b,
        Link.g.test/prod/c and 2 more`.
        """
        if self.first.is_of_source:
            return f"source/{self.first.source}"
        names = join_names(self.keys, limit=MAX_NAMED_INSTANCES)
        return names if len(self.keys) == 1 else f"{len(self.keys)} instances: {names}"

    @property
    def text(self) -> str:
        return self.first.message if self.is_same else f"{self.first.message} (message of the first object)"


def group_transitions(transitions: Iterable[Transition]) -> list[Message]:
    """Return the messages for `transitions`, in the order of the first transition of each message."""
    messages: list[Message] = []
    last: dict[tuple[object, ...], int] = {}
    for transition in transitions:
        message, subject = Message.from_transition(transition), _grouping_key(transition)
        merged = messages[last[subject]].merge(message) if subject in last else None
        if merged is None:
            last[subject] = len(messages)
            messages.append(message)
        else:
            messages[last[subject]] = merged
    return messages


def _grouping_key(transition: Transition) -> tuple[object, ...]:
    """Return the values that are equal for all transitions of one message.

    A transition of a source is alone in its message. A transition that stands for further instances is also alone in
    its message. For both, return ().
    """
    if transition.is_of_source or transition.others_count:
        return ()
    return (
        transition.source,
        transition.commit,
        transition.event_reason,
        transition.reason,
        transition.state,
        transition.key.group_kind,
    )
