"""Equal transitions of many instances are one message: a commit that fails a thousand times says so once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gitops.records.transitions import Transition
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.phrasing import listed

NAMED: Final = 3
"""Instances that a text names; a webhook gets up to `LARGEST` of them."""

LARGEST: Final = 200
"""Instances of one message; more are a further one."""


@dataclass(frozen=True, slots=True)
class Message:
    """What happened alike to these objects, the first of which `first` tells; `is_same`: all in the same words."""

    first: Transition
    keys: tuple[ObjectKey, ...]
    is_same: bool = True

    @classmethod
    def of(cls, one: Transition) -> Message:
        return cls(one, (one.key,))

    def joined(self, other: Message) -> Message | None:
        """Both as one; None where they do not say the same, or what a source tells of itself."""
        if not _subject(other.first) or _subject(self.first) != _subject(other.first) or len(self.keys) >= LARGEST:
            return None
        keys = tuple(dict.fromkeys((*self.keys, *other.keys)))
        return replace(self, keys=keys, is_same=self.is_same and self.first.message == other.first.message)

    @property
    def object(self) -> str:
        """`source/platform`, `Link.g.test/prod/a`, `5 instances: Link.g.test/prod/a, Link.g.test/prod/b, Link.g.test/prod/c and 2 more`"""
        if self.first.is_of_source:
            return f"source/{self.first.source}"
        told = listed(self.keys, most=NAMED)
        return told if len(self.keys) == 1 else f"{len(self.keys)} instances: {told}"

    @property
    def text(self) -> str:
        return self.first.message if self.is_same else f"{self.first.message} (so says the first)"


def grouped(transitions: Iterable[Transition]) -> list[Message]:
    """In the order of the first of each."""
    found: list[Message] = []
    last: dict[tuple[object, ...], int] = {}
    for one in transitions:
        message, subject = Message.of(one), _subject(one)
        joined = found[last[subject]].joined(message) if subject in last else None
        if joined is None:
            last[subject] = len(found)
            found.append(message)
        else:
            found[last[subject]] = joined
    return found


def _subject(one: Transition) -> tuple[object, ...]:
    """What has to be equal; empty of what stands alone: what a source says of itself, and what speaks for others that are not told."""
    if one.is_of_source or one.others:
        return ()
    return one.source, one.commit, one.word, one.reason, one.state, one.key.group_kind
