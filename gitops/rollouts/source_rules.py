"""The windows and policies of one source that are in force: those of its newest commit, and where that cannot be read those before.

Broken input never opens anything. A rule that does not validate, or stands in a file that cannot be read, keeps its last accepted version; where
there is none, nothing new is started in the source. So what was accepted is stored, and that something is missing in it, and outlives a restart
with an empty cache; it is also what the plans of other sources know.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from gitops.rollouts.policy import DEFAULT, Policy
from gitops.rollouts.policy_reader import policies_of
from gitops.windows.reader import windows_of
from gitops.windows.verdict import WindowSet as WindowRules
from gitops.windows.window import Window
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject, FileContent
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import Manifest
from renderer.kinds import POLICY, WINDOW

_MAY_HOLD_RULES: Final = re.compile(rb"levelgate\.dev/v\d|Propagation(Window|Policy)")
"""Annotations of ours stand in files without rules as well, so the prefix alone says nothing."""

Stored = Mapping[str, Any]
"""Accepted rules as JSON: `rules` with their files and lines, `calendars` in base64, and why the source is `closed`, where it is."""


@dataclass(frozen=True, slots=True)
class SourceRules:
    """`closed`: why nothing of this source may be started, because one of its rules cannot be read; empty where all can. `accepted` is what is in
    force, to be stored.
    """

    source: str
    windows: Mapping[str, Window]
    policies: tuple[Policy, ...] = ()
    closed: str = ""
    problems: tuple[Problem, ...] = ()
    accepted: Stored = field(default_factory=dict)

    @property
    def default_policy(self) -> Policy:
        """The policy that selects nothing in particular; it says how the windows of the source are read."""
        return next((one for one in self.policies if not one.selector.rgds and not one.selector.instances), DEFAULT)

    def for_windows(self, break_glass: datetime | None) -> WindowRules:
        """As `judge` takes it."""
        said = self.default_policy.windows
        return WindowRules(
            tuple(self.windows.values()),
            self.source,
            said.default_when_no_window,
            said.expired_allow,
            break_glass,
        )


def in_force(catalog: Catalog, stored: Stored) -> SourceRules:
    """The rules of a commit, and of what was `stored` before those that it cannot say. Its problems are those of the commit."""
    written = windows_of(catalog), policies_of(catalog)
    problems = tuple(sorted((*written[0].problems, *written[1].problems)))
    named = zip((WINDOW, POLICY), (written[0].broken, written[1].broken), strict=True)
    broken = {(kind, name): origin for kind, origins in named for name, origin in origins.items()}
    before = {_name(rule): rule for rule in _declared(stored)}
    kept = {
        name: rule
        for name, rule in before.items()
        if name in broken
        or (name not in set(map(_name, catalog.rules)) and catalog.protection.protects(rule.origin.file))
    }
    sound = [rule for rule in catalog.rules if _name(rule) not in broken]
    effective = replace(
        catalog,
        rules=(*sound, *kept.values()),
        contents={**catalog.contents, **_calendars(stored, _named(kept.values()) - _named(sound))},
    )
    windows, policies = windows_of(effective), policies_of(effective)
    lost = {f"{name} ({origin})" for (kind, name), origin in broken.items() if (kind, name) not in kept}
    lost |= {name for (_, name), rule in kept.items() if name in windows.broken or name in policies.broken}
    lost |= set(_hidden(catalog, {rule.origin.file for rule in kept.values()}))
    closed = f"{', '.join(sorted(lost))} cannot be read, so nothing new is started in this source; correct it"
    return SourceRules(
        catalog.source,
        {window.name: window for window in windows.windows},
        policies.policies,
        closed if lost else "",
        problems,
        {**_stored(effective), **({"closed": closed} if lost else {})},
    )


def restored(source: str, stored: Stored) -> SourceRules:
    """Accepted rules as they were stored, whatever a commit says."""
    rules = tuple(_declared(stored))
    catalog = Catalog(source, rules=rules, contents=_calendars(stored, _named(rules)))
    windows, policies = windows_of(catalog), policies_of(catalog)
    named = {window.name: window for window in windows.windows}
    return SourceRules(source, named, policies.policies, stored.get("closed", ""), accepted=stored)


def unread(source: str, stored: Stored) -> SourceRules:
    """The rules of a source that has not been read since the start: those accepted before. Without any, nobody knows whether there are some."""
    if stored:
        return restored(source, stored)
    closed = f"source {source}, whose windows and policies govern all sources, has not been read yet"
    return SourceRules(source, {}, closed=f"{closed}, so nothing new is started")


def _calendars(stored: Stored, named: Collection[str]) -> dict[str, FileContent]:
    """The calendar files of these names as they were when they were accepted."""
    return {
        file: FileContent(base64.b64decode(data))
        for file, data in (stored.get("calendars") or {}).items()
        if file.rpartition("/")[2] in named
    }


def _named(rules: Iterable[DeclaredObject]) -> set[str]:
    """The names, without folders, of the calendar files that these rules read."""
    return {name.rpartition("/")[2] for rule in rules if (name := _calendar(rule.manifest))}


def _hidden(catalog: Catalog, known: set[str]) -> Iterator[str]:
    """Files that cannot be read, may hold a rule, and held none that was accepted."""
    for file in sorted(catalog.unreadable - known):
        if _MAY_HOLD_RULES.search(catalog.contents[file].data):
            yield file


def _name(rule: DeclaredObject) -> tuple[str, str]:
    return rule.group_kind.kind, rule.manifest["metadata"]["name"]


def _declared(stored: Stored) -> Iterator[DeclaredObject]:
    for one in stored.get("rules") or ():
        origin = SourceLocation(one["file"], one["line"])
        yield DeclaredObject(one["manifest"], origin, partial(_line, origin))


def _line(origin: SourceLocation, _path: str) -> int:
    """Places inside a stored rule are not kept."""
    return origin.line


def _stored(effective: Catalog) -> Stored:
    if not effective.rules:
        return {}
    named = _named(effective.rules)
    return {
        "rules": [
            {"file": rule.origin.file, "line": rule.origin.line, "manifest": rule.manifest}
            for rule in sorted(effective.rules, key=_name)
        ],
        "calendars": {
            file: base64.b64encode(data).decode()
            for file, data in sorted(effective.calendars.items())
            if file.rpartition("/")[2] in named
        },
    }


def _calendar(manifest: Manifest) -> str:
    schedule = (manifest.get("spec") or {}).get("schedule") or {}
    return str(schedule.get("calendar") or "")
