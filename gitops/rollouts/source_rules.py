"""Rules of a source: its windows and policies in force.

Broken input never opens a window. If a rule is invalid, or in an unreadable file, its last accepted version stays in
force. If the rule has no accepted version, the source is closed: no change starts in the source.

Levelgate stores the accepted rules in the cluster, together with the reason why the source is closed. So the rules
survive a restart with an empty cache. The plans of other sources can read the stored rules too.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
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
"""Pattern for text that suggests a rule in an unreadable file.

The prefix `levelgate.dev/` without a version would also match files with annotations of Levelgate.
"""

RuleKey = tuple[str, str]
"""Kind and name of a rule."""

StoredRules = Mapping[str, Any]
"""Accepted rules as JSON: `rules` with files and lines, `calendars` in base64, `closed` with a reason."""


@dataclass(frozen=True, slots=True)
class SourceRules:
    """Windows and policies in force for one source, and the reason why the source is closed."""

    source: str
    windows: Mapping[str, Window]
    policies: tuple[Policy, ...] = ()
    closed_reason: str = ""
    """Reason why no change of the source may start, such as an unreadable rule; empty while changes may start."""
    problems: tuple[Problem, ...] = ()
    accepted: StoredRules = field(default_factory=dict)
    """The rules in force as JSON, to store in the cluster."""

    @property
    def default_policy(self) -> Policy:
        """Return the policy without a selector, which also contains the rules for all windows of the source."""
        return next(
            (policy for policy in self.policies if not policy.selector.rgds and not policy.selector.instances),
            DEFAULT_POLICY,
        )

    def window_set(self, break_glass_until: datetime | None) -> WindowSet:
        """Return the windows of the source, and the defaults of all windows, for `gitops.windows.verdict.judge`.

        Args:
            break_glass_until: end in UTC of a break-glass for the target, or None if no break-glass is set.
        """
        defaults = self.default_policy.windows
        return WindowSet(
            tuple(self.windows.values()),
            self.source,
            defaults.default_when_no_window,
            defaults.expired_allow,
            break_glass_until,
        )


def resolve_rules(catalog: Catalog, stored: StoredRules) -> SourceRules:
    """Return the rules of the commit in `catalog`, and the problems with them.

    If the commit breaks a rule, return the version of the rule in `stored` instead.
    """
    if catalog.rule_contents is not None:
        catalog = replace(catalog, contents=catalog.rule_contents)
    parsed: dict[str, ParsedRules[Any]] = {WINDOW: read_windows(catalog), POLICY: read_policies(catalog)}
    problems = (*(problem for rules in parsed.values() for problem in rules.problems), *find_unobeyed(catalog))
    broken = {(kind, name): origin for kind, rules in parsed.items() for name, origin in rules.broken.items()}
    kept_rules = _find_kept_rules(catalog, stored, broken)
    effective = _effective_catalog(catalog, stored, broken, kept_rules)
    windows, policies = read_windows(effective), read_policies(effective)
    closed_reason = _closed_reason(catalog, broken, kept_rules, windows.broken.keys() | policies.broken.keys())
    return SourceRules(
        catalog.source,
        windows.rules,
        tuple(policies.rules.values()),
        closed_reason,
        tuple(sorted(problems)),
        {**_to_stored(effective), **({"closed": closed_reason} if closed_reason else {})},
    )


def _find_kept_rules(
    catalog: Catalog, stored: StoredRules, broken: Mapping[RuleKey, SourceLocation]
) -> dict[RuleKey, DeclaredObject]:
    """Return each rule in `stored` that stays in force because the rule is in `broken` or in an unreadable file."""
    declared_keys = set(map(_rule_key, catalog.rules))
    return {
        key: rule
        for rule in stored_documents(stored)
        if (key := _rule_key(rule)) in broken
        or (key not in declared_keys and catalog.protection.protects(rule.origin.file))
    }


def _effective_catalog(
    catalog: Catalog,
    stored: StoredRules,
    broken: Mapping[RuleKey, SourceLocation],
    kept_rules: Mapping[RuleKey, DeclaredObject],
) -> Catalog:
    """Return `catalog` with the rules in force, and with the stored calendars that only `kept_rules` read."""
    valid_rules = [rule for rule in catalog.rules if _rule_key(rule) not in broken]
    stored_names = _calendar_names(kept_rules.values()) - _calendar_names(valid_rules)
    return replace(
        catalog,
        rules=(*valid_rules, *kept_rules.values()),
        contents={**catalog.contents, **_stored_calendars(stored, stored_names)},
    )


def _closed_reason(
    catalog: Catalog,
    broken: Mapping[RuleKey, SourceLocation],
    kept_rules: Mapping[RuleKey, DeclaredObject],
    still_broken: Collection[str],
) -> str:
    """Return the reason why the source is closed, or an empty string if every rule has a version in force.

    Args:
        broken: rules that the commit breaks.
        kept_rules: stored rules that stay in force.
        still_broken: names of the rules whose version in force is unreadable too.
    """
    unknown = {key: f"{key[1]} ({origin})" for key, origin in broken.items() if key not in kept_rules}
    counts = Counter(map(_rule_key, catalog.rules))
    ambiguous_rules = {text for key, text in unknown.items() if counts[key] > 1}
    unreadable_rules = set(unknown.values()) - ambiguous_rules
    unreadable_rules |= {name for _, name in kept_rules if name in still_broken}
    unreadable_rules |= set(_unreadable_rule_files(catalog, {rule.origin.file for rule in kept_rules.values()}))
    reasons = [
        f"{', '.join(sorted(names))} {why}"
        for names, why in ((unreadable_rules, "cannot be read"), (ambiguous_rules, "is declared more than once"))
        if names
    ]
    return f"{' and '.join(reasons)}, so no change starts in this source; correct the rules" if reasons else ""


def find_unobeyed(catalog: Catalog) -> Iterator[Problem]:
    """Yield a problem for each fleet object, such as a Placement, in the `catalog` of a source without a fleet."""
    for declared in catalog.destinations:
        kind = declared.group_kind.kind
        message = (
            f"this {kind} has no effect: levelgate.yaml has no `fleet`; set `fleet`, or remove the {kind} from Git"
        )
        yield Problem(declared.origin.file, declared.line_of("kind"), "kind", message)


def restore_rules(source: str, stored: StoredRules) -> SourceRules:
    """Return the rules of `source` from `stored` alone, without a commit."""
    rules = tuple(stored_documents(stored))
    catalog = Catalog(source, rules=rules, contents=_stored_calendars(stored, _calendar_names(rules)))
    windows, policies = read_windows(catalog), read_policies(catalog)
    return SourceRules(source, windows.rules, tuple(policies.rules.values()), stored.get("closed", ""), accepted=stored)


def unread_source_rules(source: str, stored: StoredRules) -> SourceRules:
    """Return the rules in `stored` for a source that this process has not read yet.

    If `stored` is empty, the source is closed, because the source may have rules in Git.
    """
    if stored:
        return restore_rules(source, stored)
    message = f"source {source}, whose windows and policies govern all sources, has not been read yet"
    return SourceRules(source, {}, closed_reason=f"{message}, so no change starts")


def _stored_calendars(stored: StoredRules, names: Collection[str]) -> dict[str, FileContent]:
    """Return the calendar files in `stored` by path.

    Args:
        names: names of the calendar files, without folders.
    """
    return {
        file: FileContent(base64.b64decode(data))
        for file, data in (stored.get("calendars") or {}).items()
        if file.rpartition("/")[2] in names
    }


def _calendar_names(rules: Iterable[DeclaredObject]) -> set[str]:
    """Return the names, without folders, of the calendar files that `rules` read."""
    return {name.rpartition("/")[2] for rule in rules if (name := _calendar_name(rule.manifest))}


def _unreadable_rule_files(catalog: Catalog, known_files: set[str]) -> Iterator[str]:
    """Yield the unreadable files that may contain a rule, except `known_files`.

    Args:
        known_files: files whose accepted rules stay in force.
    """
    for file in sorted(catalog.unreadable_files - known_files):
        if _RULE_PATTERN.search(catalog.contents[file].data):
            yield file


def _rule_key(rule: DeclaredObject) -> RuleKey:
    return rule.group_kind.kind, rule.manifest["metadata"]["name"]


def stored_documents(stored: StoredRules) -> Iterator[DeclaredObject]:
    """Yield the rules in `stored`, with their files and lines."""
    for entry in stored.get("rules") or ():
        # The lines inside of a rule are not stored, so problems name its first line.
        yield DeclaredObject(entry["manifest"], SourceLocation(entry["file"], entry["line"]), None)


def store_documents(documents: Iterable[DeclaredObject]) -> list[dict[str, Any]]:
    """Return `documents` as JSON, with their files and lines."""
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
