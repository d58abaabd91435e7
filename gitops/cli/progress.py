"""Lines of progress: for people on a terminal, with full times elsewhere, or as JSON.

Lines are appended and never rewritten. On a terminal a summary below them is redrawn while a command runs.
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
from gitops.rollouts.state import RolloutState, WaveProgress
from gitops.text import place, title, visible
from renderer.identity import SOURCE_PREFIX, GroupKind, ObjectKey
from renderer.render.model import RenderedApplySet

if TYPE_CHECKING:
    from rich.live import Live

_BAR = 20
_CONTINUED = f"\n{'':22}"
"""A line that goes on stands where no time does, so that nobody's text looks like another line."""


class ProgressPrinter:
    """Every line is written once and at once, to stdout; columns are time, set, level, what. A context: the summary lives inside it."""

    def __init__(self, clock: Clock, *, json: bool = False, verbose: bool = False) -> None:
        self._clock = clock
        self._json = json
        self._verbose = verbose
        self._short = sys.stdout.isatty() and not json
        self._live: Live | None = None
        self._last: ReconcileResult | None = None
        self._revisions: dict[str, str] = {}
        self._failed: dict[tuple[ObjectKey, ObjectKey], tuple[str, int]] = {}

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

    def passed(self, found: ReconcileResult) -> None:
        """Tell what has happened since the pass before, and redraw the lines below."""
        self._revisions = revisions_of(found.sources)
        before, self._last = self._last, found
        if self._failed:
            restless = {account.plan.rendered.parent for account in found.ledger.restless()}
            self._failed = {place: told for place, told in self._failed.items() if place[0] in restless}
        for one in news(before, found):
            self._news(one)
        self.summary(found)

    def summary(self, found: ReconcileResult) -> None:
        """Redraw the lines below: how many sets are settled, and how far each rollout is that is under way."""
        if self._live is None:
            return
        from rich.text import Text

        lines = [f"{'-' * 78}", standing(StateCounts.of_all(found.ledger))]
        lines += [line for name, state in sorted(found.propagation.states.items()) if (line := under_way(name, state))]
        self._live.update(Text("\n".join(lines)), refresh=True)

    def _news(self, one: News) -> None:
        match one:
            case InstanceSettled(instance=key):
                fields = {**self._origin(key), "set": str(key), "action": "settled", "reason": str(Reason.SETTLED)}
                self._line(f"{title(key):<24} settled", fields)
            case WaveSettled(rollout=rollout, wave=wave, following=following):
                then = f"; wave {following} starts" if following else ""
                text = f"wave {wave.name} settled, {wave.settled} of {wave.total}{then}"
                self._line(f"{rollout:<24} {text}", {"rollout": rollout, "message": text})
            case RolloutHalted(rollout=rollout, target=target, why=why):
                text = f"{target} HALTED: {why}"
                self._line(f"{rollout:<24} {text}", {"rollout": rollout, "message": text})
            case WindowOverridden(rollout=rollout, decision=made):
                text = f"break-glass of {made.by}: {made.subject}; {made.why}"
                self._line(f"{rollout:<24} {text}", {"rollout": rollout, "by": made.by, "message": text})
            case ProblemFound(source=source, problem=problem):
                self.problem(problem, source)
            case (
                InstancesHeld(instances=keys, node=node, cause=cause)
                | InstancesFailed(instances=keys, node=node, cause=cause)
            ):
                who = _name(keys[0]) if len(keys) == 1 else f"{len(keys)} {keys[0].kind}"
                word = "HELD" if isinstance(one, InstancesHeld) else str(cause.reason)
                what = f"{node} {word}" if node else word
                held = {"sets": [str(key) for key in keys], "node": node, "reason": str(cause.reason)}
                told = {**self._origin(keys[0]), **held, "message": cause.message}
                self._line(f"{who:<24} {what}: {cause.message}", told)

    def header(self, text: str) -> None:
        self._line(text, {"message": text}, timed=False)

    def notice(self, source: str, text: str) -> None:
        self._line(f"{source:<24} {text}", {"source": source, "message": text})

    def problem(self, text: str, source: str = "") -> None:
        self._line(f"{source or 'problem':<24} {text}", {**({"source": source} if source else {}), "problem": text})

    def result(self, result: Result) -> None:
        """One action, done or failed. A failure is told in full when its message is another one than the last time, and after that counted."""
        times = self._times(result)
        if result.error is None and result.is_bookkeeping and not self._verbose:
            return
        level = "" if result.level is None else f"level {result.level}"
        name = result.node if result.node and "/" not in result.node else f"{result.key.kind}/{place(result.key)}"
        why = str(result.error) if times == 1 else f"as before, {times} times in a row"
        what = f"{name} NOT {result.action}: {why}" if times else f"{name} {result.action}"
        fields = {
            "source": result.source,
            "revision": result.revision,
            "set": str(result.set),
            "object": str(result.key),
            "action": result.action,
            "level": result.level,
            "node": result.node,
        }
        if result.error is not None:
            fields |= {"error": str(result.error)} if times == 1 else {"times": times}
            fields["reason"] = str(Cause.by_failure(result.error).reason)
        self._line(f"{_name(result.set):<24} {level:<8} {what}", fields)

    def _times(self, result: Result) -> int:
        """How often in a row the same has kept an action on this object from being done; 0: it has been done."""
        place = result.set, result.key
        if result.error is None:
            self._failed.pop(place, None)
            return 0
        why, (before, times) = f"{result.action}: {result.error}", self._failed.get(place, ("", 0))
        self._failed[place] = why, times + 1 if why == before else 1
        return self._failed[place][1]

    def _origin(self, key: ObjectKey) -> dict[str, str]:
        """Where a set comes from: its source, and the commit that this is at."""
        account = self._last.ledger.accounts.get(key) if self._last else None
        source = account.plan.rendered.source if account else ""
        return {"source": source, "revision": self._revisions.get(source, "")}

    def blocked(self, rendered: RenderedApplySet, node: str, cause: Cause) -> None:
        what = f"{node} " if node else ""
        text = f"{_name(rendered.parent):<24} {what}{cause.reason}: {cause.message}"
        self._line(
            text,
            {
                "source": rendered.source,
                "set": str(rendered.parent),
                "node": node,
                "reason": str(cause.reason),
                "message": cause.message,
            },
        )

    def _line(self, text: str, fields: dict[str, Any], *, timed: bool = True) -> None:
        now, text = self._clock.now(), visible(text).replace("\n", _CONTINUED if timed else "\n")
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


def standing(tally: StateCounts) -> str:
    """`[##########..........] 5/10 settled, 4 held, 1 wait, 0 failed`"""
    total = tally.settled + tally.held + tally.waiting + tally.failed
    bar = "#" * round(_BAR * tally.settled / total) if total else ""
    rest = f"{tally.held} held, {tally.waiting} wait, {tally.failed} failed"
    return f"[{bar:.<{_BAR}}] {tally.settled}/{total} settled, {rest}"


def under_way(name: str, state: RolloutState) -> str:
    """`webapp.kro.run r13  canary [##] 2/2  prod [###>....] 3/8 settled, 1 moving, 4 wait`; empty once all have settled."""
    waves = [wave for wave in state.waves if wave.total]
    if all(wave.settled == wave.total for wave in waves):
        return ""
    targets = ", ".join(sorted(set(map(str, state.targets.values()))))
    told = [f"{wave.name} [{_bar(wave)}] {wave.settled}/{wave.total}" for wave in waves]
    counts = {
        "moving": sum(wave.moving for wave in waves),
        "held": sum(wave.held for wave in waves),
        "failed": sum(wave.failed for wave in waves),
        "wait": sum(wave.waiting for wave in waves),
    }
    rest = "".join(f", {number} {word}" for word, number in counts.items() if number)
    return f"{name} {targets}  {'  '.join(told)} settled{rest}"


def _bar(wave: WaveProgress) -> str:
    """One sign for each instance, or for so many of them: `#` settled, `>` moving, `!` failed or held."""
    share = max(1, -(-wave.total // _BAR))
    bar = (
        "#" * (wave.settled // share)
        + ">" * (-(-wave.moving // share))
        + "!" * (-(-(wave.failed + wave.held) // share))
    )
    return f"{bar:.<{-(-wave.total // share)}}"


def _name(parent: ObjectKey) -> str:
    return parent.name.removeprefix(SOURCE_PREFIX) if parent.group_kind == GroupKind("", "ConfigMap") else title(parent)
