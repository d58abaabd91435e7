"""Lines of progress: for people on a terminal, with full times elsewhere, or as JSON.

Lines are appended and never rewritten. On a terminal a summary below them is redrawn while a command runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

import orjson

from applier.execute import Result
from applier.reasons import Blocked
from gitops.cli.text import place, title
from gitops.clock import Clock
from gitops.tally import Tally
from renderer.identity import GroupKind, ObjectKey
from renderer.model import RenderedSet
from renderer.render import SOURCE_PREFIX

if TYPE_CHECKING:
    from rich.live import Live

_BOOKKEEPING = frozenset({"covered", "shrunk", "kept", "recorded", "status", "stored", "dropped"})


class Progress:
    """Every line is written once and at once, to stdout; columns are time, set, level, what. A context: the summary lives inside it."""

    def __init__(self, clock: Clock, *, json: bool = False, verbose: bool = False) -> None:
        self._clock = clock
        self._json = json
        self._verbose = verbose
        self._short = sys.stdout.isatty() and not json
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._short:
            from rich.live import Live

            self._live = Live("", transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def summary(self, tally: Tally) -> None:
        """Redraw the lines below: how many sets are settled, and how many are not."""
        if self._live is None:
            return
        from rich.text import Text

        done, total = tally.settled, tally.settled + tally.held + tally.waiting + tally.failed
        bar = "#" * round(20 * done / total) if total else ""
        self._live.update(
            Text(f"{'-' * 78}\n[{bar:.<20}] {done}/{total} settled, {tally.waiting} wait, {tally.failed} failed"),
            refresh=True,
        )

    def header(self, text: str) -> None:
        self._line(text, {"message": text}, timed=False)

    def notice(self, source: str, text: str) -> None:
        self._line(f"{source:<24} {text}", {"source": source, "message": text})

    def problem(self, text: str) -> None:
        self._line(f"problem                  {text}", {"problem": text})

    def result(self, result: Result) -> None:
        """One action, done or failed."""
        if result.error is None and result.action in _BOOKKEEPING and not self._verbose:
            return
        level = "" if result.level is None else f"level {result.level}"
        name = result.node if result.node and "/" not in result.node else f"{result.key.kind}/{place(result.key)}"
        what = f"{name} {result.action}" if result.error is None else f"{name} NOT {result.action}: {result.error}"
        fields = {
            "set": str(result.set),
            "object": str(result.key),
            "action": result.action,
            "level": result.level,
            "node": result.node,
        }
        if result.error is not None:
            fields["error"] = str(result.error)
        self._line(f"{_name(result.set):<24} {level:<8} {what}", fields)

    def blocked(self, rendered: RenderedSet, node: str, cause: Blocked) -> None:
        what = f"{node} " if node else ""
        text = f"{_name(rendered.parent):<24} {what}{cause.reason}: {cause.message}"
        self._line(
            text, {"set": str(rendered.parent), "node": node, "reason": str(cause.reason), "message": cause.message}
        )

    def _line(self, text: str, fields: dict[str, Any], *, timed: bool = True) -> None:
        now = self._clock.now()
        if self._json:
            line = orjson.dumps({"time": now.strftime("%Y-%m-%dT%H:%M:%SZ"), **fields}).decode()
        elif timed:
            line = f"{now.astimezone().strftime('%H:%M:%S') if self._short else now.strftime('%Y-%m-%dT%H:%M:%SZ')}  {text}"
        else:
            line = text
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, flush=True)


def _name(parent: ObjectKey) -> str:
    return parent.name.removeprefix(SOURCE_PREFIX) if parent.group_kind == GroupKind("", "ConfigMap") else title(parent)
