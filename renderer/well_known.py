"""Labels and annotations with a meaning to Levelgate, and the rules for labels and annotations in Git.

People write keys of `levelgate.dev/`. Only Levelgate writes keys of `internal.levelgate.dev/`. KEP-3659 defines
`applyset.kubernetes.io/`.
"""

from __future__ import annotations

import re
from typing import Any

PART_OF = "applyset.kubernetes.io/part-of"
PARENT_ID = "applyset.kubernetes.io/id"
TOOLING = "applyset.kubernetes.io/tooling"
GROUP_KINDS = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES = "applyset.kubernetes.io/additional-namespaces"
IS_PARENT_TYPE = "applyset.kubernetes.io/is-parent-type"

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which the client-side apply of kubectl stores a copy of the whole manifest."""

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
AGGREGATE = "levelgate.dev/aggregate-to"
APPROVED_COMMIT = "levelgate.dev/approved-commit"
HOLD = "levelgate.dev/hold"
HOLD_UNTIL = "levelgate.dev/hold-until"
SUSPEND = "levelgate.dev/suspend"
SUSPEND_UNTIL = "levelgate.dev/suspend-until"
BREAK_GLASS_REASON = "levelgate.dev/break-glass-reason"
BREAK_GLASS_UNTIL = "levelgate.dev/break-glass-until"
BREAK_GLASS_SCOPE = "levelgate.dev/break-glass-scope"
BREAK_GLASS_BY = "levelgate.dev/break-glass-by"
PIN = "levelgate.dev/pin"
PIN_UNTIL = "levelgate.dev/pin-until"
PIN_REASON = "levelgate.dev/pin-reason"
PIN_BY = "levelgate.dev/pin-by"
PRIORITY = "levelgate.dev/priority"
SYNC_REQUESTED_AT = "levelgate.dev/sync-requested-at"
HALT = "levelgate.dev/halt"
RESUME = "levelgate.dev/resume"
APPROVE = "levelgate.dev/approve"
APPROVE_REASON = "levelgate.dev/approve-reason"
REQUESTED_BY = "levelgate.dev/requested-by"
KRO_RECONCILE = "kro.run/reconcile"
ALLOW_BREAKING = "kro.run/allow-breaking-changes"
MANAGED_BY = "app.kubernetes.io/managed-by"
DEPENDS_ON = "config.kubernetes.io/depends-on"

LEVEL = "internal.levelgate.dev/level"
DEPS = "internal.levelgate.dev/deps"
SELF = "internal.levelgate.dev/self"
NODE_ID = "internal.levelgate.dev/node"
HASH = "internal.levelgate.dev/hash"
PARENT_UID = "internal.levelgate.dev/parent-uid"
SOURCE_FILE = "internal.levelgate.dev/file"
TARGET = "internal.levelgate.dev/target"
PROPOSED = "internal.levelgate.dev/proposed"
EPOCH = "internal.levelgate.dev/epoch"
COMPLETED = "internal.levelgate.dev/completed"
RECORD = "internal.levelgate.dev/record"
RECORD_OF = "internal.levelgate.dev/of"
RECORD_SOURCE = "internal.levelgate.dev/source"
PACK_INDEX = "internal.levelgate.dev/index"
"""Index of a pack: the applied snapshots that the pack holds."""
PACK_GENERATION = "internal.levelgate.dev/generation"
COMMIT_AUTHOR = "internal.levelgate.dev/author"
COMMIT_MESSAGE = "internal.levelgate.dev/message"
"""Message of the commit that introduced a revision, on the record of the revision."""
UNREADABLE = "internal.levelgate.dev/unreadable"

FINALIZER = PRUNE
"""The finalizer of instances. The text of the finalizer equals the annotation `PRUNE`."""

WRITTEN_BY_PEOPLE = frozenset(
    f"levelgate.dev/{word}"
    for word in (
        "wait-for health prune reconcile replace conflicts deletion-policy sync-requested-at priority hold hold-until "
        "suspend suspend-until halt break-glass-reason break-glass-until break-glass-scope"
    ).split()
)
INHERITED_BY_CRDS = (PRUNE, CONFLICTS, SUSPEND, SUSPEND_UNTIL, BREAK_GLASS_REASON, BREAK_GLASS_UNTIL)
"""Annotations that a definition passes to its CRD."""

_VALUES = {
    WAIT_FOR: ("none", "exists", "ready", "healthy"),
    HEALTH: ("ignore",),
    PRUNE: ("disabled", "allowed"),
    RECONCILE: ("disabled",),
    REPLACE: ("allowed",),
    CONFLICTS: ("heal", "report", "force"),
    DELETION_POLICY: ("delete", "orphan"),
    BREAK_GLASS_SCOPE: ("windows",),
}
"""The valid values of each key with a fixed set of words. Any other word would silently have no effect."""

_IN_ANY_CASE = frozenset({CONFLICTS})
"""Keys whose words also appear, capitalised, in the configuration."""

_FORMS = {
    **dict.fromkeys((HOLD, SUSPEND, HALT, BREAK_GLASS_REASON), (re.compile(r"(?s).*\S.*"), "must give the reason")),
    **dict.fromkeys(
        (HOLD_UNTIL, SUSPEND_UNTIL, BREAK_GLASS_UNTIL),
        (
            re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)", re.ASCII),
            "must be a time with its zone, such as 2026-11-23T08:00:00Z",
        ),
    ),
    PRIORITY: (re.compile(r"-?\d{1,9}", re.ASCII), "must be a whole number; a higher number goes first"),
}


def find_refused_keys(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the keys that Git must not contain, and the keys with an invalid value, as (path, message)."""
    metadata = manifest.get("metadata") or {}
    annotations = metadata.get("annotations")
    given = annotations if isinstance(annotations, dict) else {}
    misplaced = [
        (
            f"metadata.annotations[{key}]",
            f"has no effect without {other}; add the missing annotation, or remove this annotation",
        )
        for key, other in ((BREAK_GLASS_REASON, BREAK_GLASS_UNTIL), (BREAK_GLASS_UNTIL, BREAK_GLASS_REASON))
        if key in given and other not in given
    ]
    if HALT in given and manifest.get("kind") != "ResourceGraphDefinition":
        message = f"stops the rollout of a definition; to keep one instance unchanged, use {HOLD}"
        misplaced.append((f"metadata.annotations[{HALT}]", message))
    return misplaced + [
        (f"metadata.{place}[{key}]", reason)
        for place in ("labels", "annotations")
        if isinstance(metadata.get(place), dict)
        for key, value in metadata[place].items()
        if (reason := _describe_refusal(key) or describe_bad_value(key, value))
    ]


def _describe_refusal(key: str) -> str:
    prefix = key.partition("/")[0]
    if prefix in {"internal.levelgate.dev", "applyset.kubernetes.io"}:
        return f"only Levelgate writes keys of {prefix}/; remove the key from Git"
    if prefix == "levelgate.dev" and key not in WRITTEN_BY_PEOPLE:
        return f"no such key; choose from {', '.join(sorted(WRITTEN_BY_PEOPLE))}"
    return ""


def describe_bad_value(key: str, value: object) -> str:
    """Return a text that describes the valid values of `key`, or an empty text if `value` is valid.

    For a key without a rule, every value is valid.
    """
    words = _VALUES.get(key, ())
    word = value.lower() if key in _IN_ANY_CASE and isinstance(value, str) else value
    if words and word not in words:
        return f"must be {' or '.join(words)}"
    form, advice = _FORMS.get(key, (None, ""))
    return advice if form and not (isinstance(value, str) and form.fullmatch(value)) else ""
