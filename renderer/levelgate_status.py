"""The part of an instance's status under the one key that is ours, written and read. Its schema is in `renderer.definition.crd`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from renderer.frozen import dataclass

LEVELGATE_KEY: Final = "levelgate"
"""The key of a status under which these fields stand."""


@dataclass(frozen=True, slots=True)
class RevisionAtCommit:
    """A definition revision (0: none), and the commit that it was rendered from, shortened; `content` is a digest of what was rendered."""

    revision: int = 0
    commit: str = ""
    content: str = field(default="", compare=False)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> RevisionAtCommit:
        revision = stored.get("revision")
        return cls(
            revision if isinstance(revision, int) else 0, stored.get("commit") or "", stored.get("content") or ""
        )

    def to_dict(self) -> dict[str, Any]:
        content = {"content": self.content} if self.content else {}
        return {"revision": self.revision, **content, "commit": self.commit}

    def __str__(self) -> str:
        """`r13 (9c1d2e7)`"""
        return f"r{self.revision} ({self.commit[:7]})" if self.commit else f"r{self.revision}"


@dataclass(frozen=True, slots=True)
class LevelgateStatus:
    """The fields as they are stored, in this order; what is not told is empty, and not stored.

    `target`, `applied` and `settled` are each a `RevisionAtCommit`, `blocked` the rows of what the instance waits for,
    `asked` since when each directive of a person stands, `progress` how far the instance has come towards its target,
    `begun` since when (RFC 3339) the change is under way whose start its members alone do not tell.
    """

    source: str = ""
    target: Mapping[str, Any] = field(default_factory=dict)
    applied: Mapping[str, Any] = field(default_factory=dict)
    settled: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    blocked: Sequence[Mapping[str, Any]] = ()
    asked: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rollout: Mapping[str, str] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    synced: str = ""
    begun: str = ""

    @classmethod
    def from_instance(cls, instance: Mapping[str, Any] | None) -> LevelgateStatus:
        """Return what an instance tells; of one that is not there (None), nothing."""
        return cls.from_status((instance or {}).get("status"))

    @classmethod
    def from_status(cls, status: Mapping[str, Any] | None) -> LevelgateStatus:
        """Inverse of `to_dict`, for the whole status; fields that another version wrote are passed over."""
        stored_fields = (status or {}).get(LEVELGATE_KEY) or {}
        return cls(**{name: stored_fields[name] for name in cls.__slots__ if stored_fields.get(name)})

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}
