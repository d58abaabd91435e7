"""Output of `levelgate plan`: the part of a plan that a person requests, in each output form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from gitops.cli import EXIT_CHANGES, program_version
from gitops.cli.plan_text import text
from gitops.cli.terminal import echo, print_document
from gitops.plan.report import Report, filter_report
from gitops.records.references import Ref
from gitops.text import TimeFormat
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class PlanView:
    """Part of a plan that a person requests, and its output form."""

    refs: tuple[tuple[str, Ref], ...]
    """References as typed and as parsed. An empty tuple stands for the whole plan."""
    namespace: str
    """Namespace of the references, or an empty string for any namespace."""
    output: str
    times: TimeFormat
    color: bool | None
    """True to print colours, False to print none, or None to let the terminal decide."""

    @property
    def is_full(self) -> bool:
        """Return whether the plan shows the fields of new objects too, because the person names objects."""
        return bool(self.refs)

    def narrow(self, report: Report) -> Report:
        """Return `report`, restricted to the changes of the objects in `refs`."""
        return filter_report(report, [ref for _, ref in self.refs], self.namespace)

    def unchanged_refs(self, reports: Iterable[Report]) -> Iterator[str]:
        """Yield the references, as typed, to objects that no report in `reports` changes."""
        known_reports = list(reports)
        for typed_ref, ref in self.refs:
            if not any(filter_report(report, [ref], self.namespace).changes for report in known_reports):
                yield typed_ref

    @property
    def place_text(self) -> str:
        """Return the place of the references as text, such as ` in prod`.

        If `namespace` is empty, return an empty string.
        """
        return f" in {self.namespace}" if self.namespace else ""

    def format_header(self, title: str, report_time_text: str) -> str:
        """Return the two lines above a plan."""
        return f"{title}\n{report_time_text}. This plan writes nothing."


def show_report(report: Report, title: str, view: PlanView, *, path: str) -> int:
    """Print the plan of one cluster and return the exit code: 1 for problems, 2 for changes.

    Args:
        path: directory of the source in its repository, to which SARIF refers.
    """
    for typed_ref in view.unchanged_refs([report]):
        missing = f"the object does not exist{view.place_text}"
        echo(f"{typed_ref}: the plan does not change this object, or {missing}; check the name", err=True)
    _print_report(view.narrow(report), title, view, path=path)
    if report.problem_count:
        return 1
    return EXIT_CHANGES if report.has_changes else 0


def _print_report(report: Report, title: str, view: PlanView, *, path: str) -> None:
    # Only the usual form, text, is imported at the top, because the import of all forms would delay this form.
    match view.output:
        case "json":
            from gitops.plan.report_json import as_json

            print_document(as_json(report), "json", is_sorted=True)
        case "markdown":
            from gitops.plan.report_markdown import format_comment

            click.echo(format_comment(report, version=program_version()))
        case "junit":
            from gitops.plan.report_ci import as_junit

            click.echo(as_junit(report))
        case "sarif":
            from gitops.plan.report_ci import as_sarif

            print_document(as_sarif(report, program_version(), path=path), "json")
        case _:
            header = view.format_header(title, view.times.format_full(report.at))
            lines = text(report, view.times, full=view.is_full)
            click.echo("\n".join([header, *lines]), color=view.color)
