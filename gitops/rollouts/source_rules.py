"""The windows and policies of one source that are in force: those of its newest commit, and where that cannot be read those before.

Broken input never opens anything. A rule that does not validate, or stands in a file that cannot be read, keeps its last accepted version; where
there is none, nothing new is started in the source. So what was accepted is stored, and that something is missing in it, and outlives a restart
with an empty cache; it is also what the plans of other sources know.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from gitops.rollouts.policy import DEFAULT_POLICY, Policy
from gitops.rollouts.policy_reader import read_policies
from gitops.windows.rule_reader import ParsedRules
from gitops.windows.verdict import WindowSet
from gitops.windows.window import Window
from gitops.windows.window_reader import read_windows
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject, FileContent
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import Manifest
from renderer.kinds import POLICY, WINDOW

_RULE_PATTERN: Final = re.compile(rb"levelgate\.dev/v\d|Propagation(Window|Policy)")
"""Annotations of ours stand in files without rules as well, so the prefix alone says nothing."""

StoredRules = Mapping[str, Any]
"""Accepted rules as JSON: `rules` with their files and lines, `calendars` in base64, and why the source is `closed`, where it is."""


@dataclass(frozen=True, slots=True)
class SourceRules:
    """`closed`: why nothing of this source may be started, because one of its rules cannot be read; empty where all can. `accepted` is what is in
    force, to be stored.
    """

    source: str
    windows: Mapping[str, Window]
    policies: tuple[Policy, ...] = ()
    closed_reason: str = ""
    problems: tuple[Problem, ...] = ()
    accepted: StoredRules = field(default_factory=dict)

    @property
    def default_policy(self) -> Policy:
        """The policy that selects nothing in particular; it says how the windows of the source are read."""
        return next(
            (policy for policy in self.policies if not policy.selector.rgds and not policy.selector.instances),
            DEFAULT_POLICY,
        )

    def window_set(self, break_glass_until: datetime | None) -> WindowSet:
        """As `judge` takes it."""
        defaults = self.default_policy.windows
        return WindowSet(
            tuple(self.windows.values()),
            self.source,
            defaults.default_when_no_window,
            defaults.expired_allow,
            break_glass_until,
        )


def resolve_rules(catalog: Catalog, stored: StoredRules) -> SourceRules:
    """The rules of a commit, and of what was `stored` before those that it cannot say. Its problems are those of the commit."""
    parsed: dict[str, ParsedRules[Any]] = {WINDOW: read_windows(catalog), POLICY: read_policies(catalog)}
    problems = tuple(
        sorted((*(problem for rules in parsed.values() for problem in rules.problems), *find_unobeyed(catalog)))
    )
    broken = {(kind, name): origin for kind, rules in parsed.items() for name, origin in rules.broken.items()}
    previous = {_rule_key(rule): rule for rule in stored_documents(stored)}
    kept_rules = {
        name: rule
        for name, rule in previous.items()
        if name in broken
        or (name not in set(map(_rule_key, catalog.rules)) and catalog.protection.protects(rule.origin.file))
    }
    valid_rules = [rule for rule in catalog.rules if _rule_key(rule) not in broken]
    effective = replace(
        catalog,
        rules=(*valid_rules, *kept_rules.values()),
        contents={
            **catalog.contents,
            **_stored_calendars(stored, _calendar_names(kept_rules.values()) - _calendar_names(valid_rules)),
        },
    )
    windows, policies = read_windows(effective), read_policies(effective)
    unknown = {key: f"{key[1]} ({origin})" for key, origin in broken.items() if key not in kept_rules}
    counts = Counter(map(_rule_key, catalog.rules))
    ambiguous_rules = {text for key, text in unknown.items() if counts[key] > 1}
    unreadable_rules = set(unknown.values()) - ambiguous_rules
    unreadable_rules |= {
        name for (_, name), rule in kept_rules.items() if name in windows.broken or name in policies.broken
    }
    unreadable_rules |= set(_unreadable_rule_files(catalog, {rule.origin.file for rule in kept_rules.values()}))
    reasons = [
        f"{', '.join(sorted(names))} {why}"
        for names, why in ((unreadable_rules, "cannot be read"), (ambiguous_rules, "is declared more than once"))
        if names
    ]
    closed_reason = f"{' and '.join(reasons)}, so nothing new is started in this source; correct it" if reasons else ""
    return SourceRules(
        catalog.source,
        windows.rules,
        tuple(policies.rules.values()),
        closed_reason,
        problems,
        {**_to_stored(effective), **({"closed": closed_reason} if closed_reason else {})},
    )


def find_unobeyed(catalog: Catalog) -> Iterator[Problem]:
    """What says where objects go, in a commit that is read as it is: nobody places by it."""
    for declared in catalog.destinations:
        kind = declared.group_kind.kind
        message = f"nothing obeys this {kind}: `fleet` in levelgate.yaml makes several clusters of it; set that, or remove the {kind} from Git"
        yield Problem(declared.origin.file, declared.line_of("kind"), "kind", message)


def restore_rules(source: str, stored: StoredRules) -> SourceRules:
    """Accepted rules as they were stored, whatever a commit says."""
    rules = tuple(stored_documents(stored))
    catalog = Catalog(source, rules=rules, contents=_stored_calendars(stored, _calendar_names(rules)))
    windows, policies = read_windows(catalog), read_policies(catalog)
    return SourceRules(source, windows.rules, tuple(policies.rules.values()), stored.get("closed", ""), accepted=stored)


def unread_source_rules(source: str, stored: StoredRules) -> SourceRules:
    """The rules of a source that has not been read since the start: those accepted before. Without any, nobody knows whether there are some."""
    if stored:
        return restore_rules(source, stored)
    message = f"source {source}, whose windows and policies govern all sources, has not been read yet"
    return SourceRules(source, {}, closed_reason=f"{message}, so nothing new is started")


def _stored_calendars(stored: StoredRules, names: Collection[str]) -> dict[str, FileContent]:
    """The calendar files of these names as they were when they were accepted."""
    return {
        file: FileContent(base64.b64decode(data))
        for file, data in (stored.get("calendars") or {}).items()
        if file.rpartition("/")[2] in names
    }


def _calendar_names(rules: Iterable[DeclaredObject]) -> set[str]:
    """The names, without folders, of the calendar files that these rules read."""
    return {name.rpartition("/")[2] for rule in rules if (name := _calendar_name(rule.manifest))}


def _unreadable_rule_files(catalog: Catalog, known_files: set[str]) -> Iterator[str]:
    """Files that cannot be read, may hold a rule, and held none that was accepted."""
    for file in sorted(catalog.unreadable_files - known_files):
        if _RULE_PATTERN.search(catalog.contents[file].data):
            yield file


def _rule_key(rule: DeclaredObject) -> tuple[str, str]:
    return rule.group_kind.kind, rule.manifest["metadata"]["name"]


def stored_documents(stored: StoredRules) -> Iterator[DeclaredObject]:
    """What `store_documents` has stored."""
    for entry in stored.get("rules") or ():
        origin = SourceLocation(entry["file"], entry["line"])
        yield DeclaredObject(entry["manifest"], origin, partial(_line_of, origin))


def _line_of(origin: SourceLocation, _path: str) -> int:
    """Places inside a stored rule are not kept."""
    return origin.line


def store_documents(documents: Iterable[DeclaredObject]) -> list[dict[str, Any]]:
    """Accepted documents as JSON, with their files and lines."""
    return [
        {"file": document.origin.file, "line": document.origin.line, "manifest": document.manifest}
        for document in sorted(documents, key=_rule_key)
    ]


def _to_stored(effective: Catalog) -> StoredRules:
    if not effective.rules:
        return {}
    calendar_names = _calendar_names(effective.rules)
    return {
        "rules": store_documents(effective.rules),
        "calendars": {
            file: base64.b64encode(data).decode()
            for file, data in sorted(effective.calendars.items())
            if file.rpartition("/")[2] in calendar_names
        },
    }


def _calendar_name(manifest: Manifest) -> str:
    schedule = (manifest.get("spec") or {}).get("schedule") or {}
    return str(schedule.get("calendar") or "")
