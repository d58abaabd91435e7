"""Lines of progress: for people on a terminal, with full times elsewhere, or as JSON.

The printer appends lines and never rewrites them. While a command runs on a terminal, the printer redraws a summary
below the lines.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

import orjson

from applier.causes import Cause, Reason
from applier.execute.results import Result
from gitops.clock import Clock
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.notable_changes import (
    InstanceSettled,
    InstancesFailed,
    InstancesHeld,
    News,
    ProblemFound,
    RolloutHalted,
    WaveSettled,
    WindowOverridden,
    news,
)
from gitops.reconcile.sources import revisions_of
from gitops.reconcile.tally import StateCounts
from gitops.records.display_state import DisplayState
from gitops.rollouts.state import RolloutState, WaveProgress
from gitops.text import escape_terminal, parent_title, title
from gitops.timestamps import timestamp
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet

if TYPE_CHECKING:
    from rich.live import Live

_BAR_WIDTH = 20
_CONTINUATION = f"\n{'':22}"
"""Start of a continued line. The column of times is empty, so that a message cannot imitate another line.
"""


class ProgressPrinter:
    """Printer of progress to stdout. The columns are time, set, level and message.

    As a context manager, the printer keeps the summary on a terminal. In a fleet, each member cluster has its own
    printer. A member's printer puts the cluster's name before each line, and writes through `parent`, the hub's
    printer.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        json: bool = False,
        verbose: bool = False,
        cluster: str = "",
        parent: ProgressPrinter | None = None,
    ) -> None:
        self._clock = clock
        self._cluster, self._parent = cluster, parent
        self._json = json
        self._verbose = verbose
        self._is_terminal = sys.stdout.isatty() and not json
        self._live: Live | None = None
        self._last_result: ReconcileResult | None = None
        self._revisions: dict[str, str] = {}
        self._failure_counts: dict[tuple[ObjectKey, ObjectKey], tuple[str, int]] = {}

    def __enter__(self) -> Self:
        if self._is_terminal:
            from rich.live import Live

            self._live = Live("", transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def for_cluster(self, cluster: str) -> ProgressPrinter:
        """Return the printer of a member cluster."""
        return ProgressPrinter(self._clock, json=self._json, verbose=self._verbose, cluster=cluster, parent=self)

    def report_pass(self, reconcile_result: ReconcileResult) -> None:
        """Print the changes since the last reconciliation, and redraw the summary."""
        self._revisions = revisions_of(reconcile_result.sources)
        previous_result, self._last_result = self._last_result, reconcile_result
        if self._failure_counts:
            unsettled_parents = {account.plan.rendered.parent for account in reconcile_result.ledger.restless()}
            self._failure_counts = {
                place: failure for place, failure in self._failure_counts.items() if place[0] in unsettled_parents
            }
        for news_item in news(previous_result, reconcile_result):
            self._print_news(news_item)
        self.redraw_summary(reconcile_result)

    def redraw_summary(self, reconcile_result: ReconcileResult) -> None:
        """Redraw the summary: the number of settled sets, and the progress of each rollout that is not settled."""
        if self._live is None:
            return
        from rich.text import Text

        lines = [f"{'-' * 78}", format_counts(StateCounts.of_all(reconcile_result.ledger))]
        lines += [
            line
            for name, state in sorted(reconcile_result.propagation.states.items())
            if (line := format_rollout(name, state))
        ]
        self._live.update(Text("\n".join(lines)), refresh=True)

    def _print_news(self, news_item: News) -> None:
        match news_item:
            case InstanceSettled(instance=key):
                fields = {
                    **self._origin_fields(key),
                    "set": str(key),
                    "action": "settled",
                    "reason": str(Reason.SETTLED),
                }
                self._print_line(f"{title(key):<24} settled", fields)
            case WaveSettled(rollout=rollout, wave=wave, following=following):
                next_wave_text = f"; wave {following} starts" if following else ""
                text = f"wave {wave.name} settled, {wave.settled} of {wave.total}{next_wave_text}"
                self._print_line(f"{rollout:<24} {text}", {"rollout": rollout, "message": text})
            case RolloutHalted(rollout=rollout, target=target, why=why):
                text = f"{target} HALTED: {why}"
                self._print_line(f"{rollout:<24} {text}", {"rollout": rollout, "message": text})
            case WindowOverridden(rollout=rollout, decision=made):
                text = f"break-glass of {made.by}: {made.subject}; {made.why}"
                self._print_line(f"{rollout:<24} {text}", {"rollout": rollout, "by": made.by, "message": text})
            case ProblemFound(source=source, problem=problem):
                self.print_problem(problem, source)
            case (
                InstancesHeld(instances=keys, node=node, cause=cause)
                | InstancesFailed(instances=keys, node=node, cause=cause)
            ):
                subject_text = parent_title(keys[0]) if len(keys) == 1 else f"{len(keys)} {keys[0].kind}"
                word = "HELD" if isinstance(news_item, InstancesHeld) else str(cause.reason)
                state_text = f"{node} {word}" if node else word
                event_fields = {
                    **self._origin_fields(keys[0]),
                    "sets": [str(key) for key in keys],
                    "node": node,
                    "reason": str(cause.reason),
                    "message": cause.message,
                }
                self._print_line(f"{subject_text:<24} {state_text}: {cause.message}", event_fields)

    def print_header(self, text: str) -> None:
        self._print_line(text, {"message": text}, timed=False)

    def print_notice(self, source: str, text: str) -> None:
        self._print_line(f"{source:<24} {text}", {"source": source, "message": text})

    def print_problem(self, text: str, source: str = "") -> None:
        self._print_line(
            f"{source or 'problem':<24} {text}", {**({"source": source} if source else {}), "problem": text}
        )

    def print_result(self, result: Result) -> None:
        """Print the result of one action.

        At the first failure, print the full message. If the failure repeats with the same message, print only the
        count.
        """
        times = self._count_failure(result)
        if result.error is None and result.is_bookkeeping and not self._verbose:
            return
        level = "" if result.level is None else f"level {result.level}"
        name = (
            result.node if result.node and "/" not in result.node else f"{result.key.kind}/{result.key.qualified_name}"
        )
        error_text = str(result.error) if times == 1 else f"as before, {times} times in a row"
        action_text = f"{name} NOT {result.action}: {error_text}" if times else f"{name} {result.action}"
        fields = {
            "source": result.source,
            "revision": result.commit,
            "set": str(result.set),
            "object": str(result.key),
            "action": result.action,
            "level": result.level,
            "node": result.node,
        }
        if result.error is not None:
            fields |= {"error": str(result.error)} if times == 1 else {"times": times}
            fields["reason"] = str(Cause.from_error(result.error).reason)
        self._print_line(f"{parent_title(result.set):<24} {level:<8} {action_text}", fields)

    def _count_failure(self, result: Result) -> int:
        """Return how often in a row this action has failed with the same message. After a success, return 0."""
        failure_key = result.set, result.key
        if result.error is None:
            self._failure_counts.pop(failure_key, None)
            return 0
        failure_text = f"{result.action}: {result.error}"
        previous_failure, times = self._failure_counts.get(failure_key, ("", 0))
        times = times + 1 if failure_text == previous_failure else 1
        self._failure_counts[failure_key] = failure_text, times
        return times

    def _origin_fields(self, key: ObjectKey) -> dict[str, str]:
        """Return the JSON fields that name the source of the set `key`, and the commit of that source."""
        account = self._last_result.ledger.accounts.get(key) if self._last_result else None
        source = account.plan.rendered.source if account else ""
        return {"source": source, "revision": self._revisions.get(source, "")}

    def print_blocked(self, rendered: RenderedApplySet, cause: Cause) -> None:
        node_text = f"{cause.node} " if cause.node else ""
        text = f"{parent_title(rendered.parent):<24} {node_text}{cause.reason}: {cause.message}"
        self._print_line(
            text,
            {
                "source": rendered.source,
                "set": str(rendered.parent),
                "node": cause.node,
                "reason": str(cause.reason),
                "message": cause.message,
            },
        )

    def _print_line(self, text: str, fields: dict[str, Any], *, timed: bool = True) -> None:
        if self._parent is not None:
            self._parent._print_line(f"{self._cluster:<12} {text}", {"cluster": self._cluster, **fields}, timed=timed)
            return
        now, text = self._clock.now(), escape_terminal(text).replace("\n", _CONTINUATION if timed else "\n")
        if self._json:
            line = orjson.dumps({"time": timestamp(now), **fields}).decode()
        elif timed:
            line = f"{now.astimezone().strftime('%H:%M:%S') if self._is_terminal else timestamp(now)}  {text}"
        else:
            line = text
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, flush=True)


def format_counts(tally: StateCounts) -> str:
    """Return a bar such as `[##########..........] 5/10 settled, 1 progressing, 4 held`."""
    total, settled = tally.total, tally.by_state.get(DisplayState.SETTLED, 0)
    bar = "#" * round(_BAR_WIDTH * settled / total) if total else ""
    unsettled = (state for state in reversed(DisplayState) if state is not DisplayState.SETTLED)
    other_counts = "".join(
        f", {number} {state.lower()}" for state in unsettled if (number := tally.by_state.get(state))
    )
    return f"[{bar:.<{_BAR_WIDTH}}] {settled}/{total} settled{other_counts}"


def format_rollout(name: str, state: RolloutState) -> str:
    """Return the progress of a rollout. If all instances are settled, return an empty string.

    Example: `webapp.kro.run r13 canary [##] 2/2 prod [###>....] 3/8 settled, 1 progressing, 4 waiting`.
    """
    waves = [wave for wave in state.waves if wave.total]
    if all(wave.settled == wave.total for wave in waves):
        return ""
    targets = ", ".join(sorted(set(map(str, state.targets.values()))))
    wave_texts = [f"{wave.name} [{_format_bar(wave)}] {wave.settled}/{wave.total}" for wave in waves]
    counts = {
        "progressing": sum(wave.moving for wave in waves),
        "held": sum(wave.held for wave in waves),
        "failed": sum(wave.failed for wave in waves),
        "waiting": sum(wave.waiting for wave in waves),
    }
    other_counts = "".join(f", {number} {word}" for word, number in counts.items() if number)
    return f"{name} {targets}  {'  '.join(wave_texts)} settled{other_counts}"


def _format_bar(wave: WaveProgress) -> str:
    """Return the bar of a wave. Each sign stands for one instance, or for several instances of a large wave.

    Signs: `#` settled, `>` progressing, `!` failed or held.
    """
    share = max(1, -(-wave.total // _BAR_WIDTH))
    bar = (
        "#" * (wave.settled // share)
        + ">" * (-(-wave.moving // share))
        + "!" * (-(-(wave.failed + wave.held) // share))
    )
    return f"{bar:.<{-(-wave.total // share)}}"
