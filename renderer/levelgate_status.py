"""The fields that Levelgate writes under one key of an instance's status.

The schema of the fields is in `renderer.definition.crd`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from renderer.frozen import dataclass

LEVELGATE_KEY: Final = "levelgate"
"""The key in an instance's status under which Levelgate writes its fields."""


@dataclass(frozen=True, slots=True)
class RevisionAtCommit:
    """A revision of a definition, and the commit that made the revision the target of an instance."""

    revision: int = 0
    """Number of the revision, or 0 if no revision is known."""
    commit: str = ""
    content: str = field(default="", compare=False)
    """Digest of the rendered content."""

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
        """Return a text such as `r13 (9c1d2e7)`."""
        return f"r{self.revision} ({self.commit[:7]})" if self.commit else f"r{self.revision}"


@dataclass(frozen=True, slots=True)
class LevelgateStatus:
    """Levelgate's fields in the status of an instance, in stored order. The status contains no empty fields."""

    source: str = ""
    target: Mapping[str, Any] = field(default_factory=dict)
    """The stored form of a `RevisionAtCommit`. `applied` and `settled` have the same form."""
    applied: Mapping[str, Any] = field(default_factory=dict)
    settled: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    blocked: Sequence[Mapping[str, Any]] = ()
    """One entry for each cause that the instance waits for."""
    asked: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The text and the time of the request for each directive in force, by directive."""
    rollout: Mapping[str, str] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    """Progress of the instance towards its target."""
    synced: str = ""
    begun: str = ""
    """Start time (RFC 3339) of a change in progress. If the members alone show the change, the text is empty."""

    @classmethod
    def from_instance(cls, instance: Mapping[str, Any] | None) -> LevelgateStatus:
        """Return the fields of `instance`. If `instance` is None because no instance exists, all fields are empty."""
        return cls.from_status((instance or {}).get("status"))

    @classmethod
    def from_status(cls, status: Mapping[str, Any] | None) -> LevelgateStatus:
        """Return Levelgate's fields in `status`, the whole status of an instance.

        The function ignores fields that only another version of Levelgate knows.
        """
        stored_fields = (status or {}).get(LEVELGATE_KEY) or {}
        return cls(**{name: stored_fields[name] for name in cls.__slots__ if stored_fields.get(name)})

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}
