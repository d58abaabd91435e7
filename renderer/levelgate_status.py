"""What the status of an instance says under the one key that is ours, read back. Its schema is in `renderer.definition.crd`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class LevelgateStatus:
    """The fields as they are stored; what is not told is empty. `target`, `applied` and `settled` are each a definition revision with a commit,
    `blocked` the rows of what it waits for, `progress` how far it is on the way to its target, `asked` since when each word of a person is said.
    """

    source: str = ""
    target: Mapping[str, Any] = field(default_factory=dict)
    applied: Mapping[str, Any] = field(default_factory=dict)
    settled: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    blocked: Sequence[Mapping[str, Any]] = ()
    rollout: Mapping[str, str] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    synced: str = ""

    @classmethod
    def from_instance(cls, instance: Mapping[str, Any] | None) -> LevelgateStatus:
        """None: an instance that is not there, of which nothing is told."""
        return cls.from_status((instance or {}).get("status"))

    @classmethod
    def from_status(cls, status: Mapping[str, Any] | None) -> LevelgateStatus:
        stored_fields = (status or {}).get("levelgate") or {}
        return cls(**{name: stored_fields[name] for name in cls.__slots__ if stored_fields.get(name)})
