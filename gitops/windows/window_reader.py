"""Reader of `PropagationWindow` objects in Git.

The reader accepts or rejects a window as a whole. The reader reports all mistakes in a window together, each with its
line and a valid alternative. The result does not depend on the current time. A window that has ended is valid. The
reader rejects a window that can never open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

from applier.plan.model import Operation
from gitops.windows import time_syntax, zones
from gitops.windows.problem_collector import FieldProblems, parse_field
from gitops.windows.rule_reader import ParsedRules, parse_rules
from gitops.windows.schedule_reader import ScheduleReader
from gitops.windows.window import WINDOW_OPERATIONS, Drain, Window, WindowKind, WindowSelector
from renderer import schema
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem
from renderer.kinds import OWN_API_VERSION, WINDOW
from renderer.label_selector import LABEL_SELECTOR_SCHEMA, LabelSelector
from renderer.schema.validation import enum_form, object_form

T = TypeVar("T")

_TEXT: Final = {"type": "string"}
_NAMES: Final = {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[A-Za-z0-9._:@/*-]+$"}}


_SELECTOR: Final = object_form(
    **dict.fromkeys(("clusters", "namespaces", "rgds", "nodes", "kinds"), _NAMES),
    instances=LABEL_SELECTOR_SCHEMA,
)
SPEC: Final = object_form(
    "kind",
    "timeZone",
    "schedule",
    kind=enum_form(WindowKind),
    timeZone=_TEXT,
    schedule=object_form(
        cron=_TEXT,
        rrule=_TEXT,
        dtstart=_TEXT,
        once={"type": "array", "minItems": 1, "items": object_form("start", "end", start=_TEXT, end=_TEXT)},
        calendar=_TEXT,
    ),
    duration=_TEXT,
    until=_TEXT,
    exdates={"type": "array", "items": _TEXT},
    effective=object_form(**{"from": _TEXT, "to": _TEXT}),
    selector=_SELECTOR,
    verbs={"type": "array", "minItems": 1, "uniqueItems": True, "items": enum_form(WINDOW_OPERATIONS)},
    cutoff=_TEXT,
    drain=enum_form(("Instance", "Rollout", "Level", "Unit", "None")),
    overrunLimit=_TEXT,
    breakGlass=enum_form(("Allowed", "Forbidden")),
    byName={"type": "boolean"},
    description=_TEXT,
    ticket=_TEXT,
)
"""OpenAPI v3 schema for the `spec` of a window."""


def read_windows(catalog: Catalog) -> ParsedRules[Window]:
    """Return all windows that `catalog` declares, and the problems with them."""
    return parse_rules(
        catalog.rules, WINDOW, "window", lambda rule: _WindowReader(rule, catalog.calendars).read_window()
    )


class _WindowReader:
    """Reader of one window, with the problems that the reader has found."""

    def __init__(self, declared: DeclaredObject, calendars: Mapping[str, bytes]) -> None:
        self.declared = declared
        self.calendars = calendars
        self.field_problems = FieldProblems(declared)
        self.spec: dict[str, Any] = {}

    def read_window(self) -> Window | list[Problem]:
        """Return the window, or all problems with it."""
        self._check_form()
        time_zone = self._read_field("timeZone", time_syntax.parse_zone, self.spec.get("timeZone"))
        cutoff = self._read_field("cutoff", time_syntax.parse_duration, self.spec.get("cutoff")) or timedelta()
        overrun = self._read_field("overrunLimit", time_syntax.parse_duration, self.spec.get("overrunLimit"))
        instances = self._read_field(
            "selector.instances", LabelSelector.from_object, self.spec.get("selector", {}).get("instances")
        )
        times = ScheduleReader(self.spec, self.field_problems, self.calendars, time_zone or zones.load_zone("UTC"))
        timeline = times.read_timeline(cutoff)
        if self.field_problems.problems or time_zone is None or timeline is None:
            return self.field_problems.problems
        spec = self.spec
        selector = {name: tuple(names) for name, names in spec.get("selector", {}).items() if name != "instances"}
        return Window(
            name=self.declared.manifest["metadata"]["name"],
            kind=WindowKind(spec["kind"]),
            zone=time_zone,
            timeline=timeline,
            selector=WindowSelector(**selector, instances=instances),
            operations=frozenset(map(Operation, spec.get("verbs", ("create", "update", "prune")))),
            cutoff=cutoff,
            drain=Drain[spec.get("drain", "Instance").upper()],
            overrun_limit=timedelta(hours=1) if overrun is None else overrun,
            forbids_break_glass=spec.get("breakGlass") == "Forbidden",
            by_name=spec.get("byName", False),
            description=spec.get("description", ""),
            ticket=spec.get("ticket", ""),
            origin=self.declared.origin,
        )

    def _check_form(self) -> None:
        """Check the manifest against the schema.

        Drop each invalid field from `spec`, so that reading can continue.
        """
        manifest = self.declared.manifest
        if manifest["apiVersion"] != OWN_API_VERSION:
            self.field_problems.add_problem(
                "apiVersion", f"{manifest['apiVersion']!r} is not known; write {OWN_API_VERSION}"
            )
        for name in sorted(manifest.keys() - {"apiVersion", "kind", "metadata", "spec"}):
            self.field_problems.add_problem(name, "unknown field; write the fields of a window under spec")
        written_spec = manifest.get("spec")
        self.spec = (
            {name: value for name, value in written_spec.items() if value is not None}
            if isinstance(written_spec, dict)
            else {}
        )
        for mistake in schema.validate(SPEC, self.spec):
            self.field_problems.add_problem(f"spec.{mistake.path}", mistake.message)
            self.spec.pop(re.split(r"[.\[]", mistake.path)[0], None)

    def _read_field(self, path: str, parse: Callable[[Any], T], value: Any) -> T | None:
        """Return the result of `parse` for `value`.

        If `value` is None, return None. If `value` is wrong, add a problem and return None.

        Args:
            path: path of the field below `spec`.
            value: value of the field.
        """
        if value is None:
            return None
        return self.field_problems.try_parse(partial(parse_field, f"spec.{path}", parse, value))
