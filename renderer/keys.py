"""Labels and annotations with a meaning, and which of them Git may carry.

`levelgate.dev/` keys are written by people, `internal.levelgate.dev/` by the program alone; KEP-3659 owns `applyset.kubernetes.io/`.
"""

from __future__ import annotations

from typing import Any

PART_OF = "applyset.kubernetes.io/part-of"
PARENT_ID = "applyset.kubernetes.io/id"
TOOLING = "applyset.kubernetes.io/tooling"
GROUP_KINDS = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES = "applyset.kubernetes.io/additional-namespaces"
IS_PARENT_TYPE = "applyset.kubernetes.io/is-parent-type"

DEFINITION = "levelgate.dev/definition"
INSTANCE = "levelgate.dev/instance"
NODE = "levelgate.dev/node"
COMMIT = "levelgate.dev/commit"
FILE = "levelgate.dev/file"
REVISION = "levelgate.dev/revision"
WAIT_FOR = "levelgate.dev/wait-for"
HEALTH = "levelgate.dev/health"
PRUNE = "levelgate.dev/prune"
RECONCILE = "levelgate.dev/reconcile"
DELETION_POLICY = "levelgate.dev/deletion-policy"
REPLACE = "levelgate.dev/replace"
CONFLICTS = "levelgate.dev/conflicts"
APPROVED = "levelgate.dev/approved-commit"
ALLOW_BREAKING = "kro.run/allow-breaking-changes"
DEPENDS_ON = "config.kubernetes.io/depends-on"

LEVEL = "internal.levelgate.dev/level"
DEPS = "internal.levelgate.dev/deps"
SELF = "internal.levelgate.dev/self"
NODE_ID = "internal.levelgate.dev/node"
HASH = "internal.levelgate.dev/hash"
PARENT_UID = "internal.levelgate.dev/parent-uid"
SOURCE_FILE = "internal.levelgate.dev/file"
RECORD = "internal.levelgate.dev/record"
RECORD_OF = "internal.levelgate.dev/of"
RECORD_SOURCE = "internal.levelgate.dev/source"

FINALIZER = PRUNE
"""The finalizer of instances has the same text as the annotation."""

_NOT_YET = frozenset(
    f"levelgate.dev/{word}"
    for word in (
        "priority hold hold-until suspend suspend-until break-glass-reason break-glass-until break-glass-scope"
    ).split()
)
WRITTEN_BY_PEOPLE = frozenset(
    f"levelgate.dev/{word}"
    for word in ("wait-for health prune reconcile replace conflicts deletion-policy sync-requested-at").split()
)
_VALUES = {REPLACE: ("allowed",), CONFLICTS: ("force", "report")}
"""Where another word would silently mean nothing."""


def refused(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Keys that Git must not carry, and words that they do not know, as (path, message); empty when the metadata is fine."""
    metadata = manifest.get("metadata") or {}
    return [
        (f"metadata.{place}[{key}]", reason)
        for place in ("labels", "annotations")
        if isinstance(metadata.get(place), dict)
        for key, value in metadata[place].items()
        if (reason := _why_refused(key) or _why_meaningless(key, value))
    ]


def _why_refused(key: str) -> str:
    prefix = key.partition("/")[0]
    if prefix in {"internal.levelgate.dev", "applyset.kubernetes.io"}:
        return f"keys of {prefix}/ are written by the program alone; remove it from Git"
    if key in _NOT_YET:
        return "is not supported yet; the object is left alone rather than written against it"
    if prefix == "levelgate.dev" and key not in WRITTEN_BY_PEOPLE:
        return f"no such key; people may write {', '.join(sorted(WRITTEN_BY_PEOPLE))}"
    return ""


def _why_meaningless(key: str, value: object) -> str:
    words = _VALUES.get(key, ())
    return "" if not words or value in words else f"must be {' or '.join(words)}"
