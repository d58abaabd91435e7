"""Lint of gates beyond their definition: unknown names, and windows that are never open together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime

from applier.plan.model import Operation
from gitops.windows.lint import find_common_opening
from gitops.windows.window import Window, WindowKind, WindowTarget
from renderer.definition.compile import Definition
from renderer.definition.gates import Gate
from renderer.errors import Problem
from renderer.phrasing import suggestion_or_names


def find_unknown_names(
    definitions: Iterable[Definition], windows: Collection[str], externals: Collection[str] | None
) -> Iterator[Problem]:
    """Yield a problem for each undeclared window and external fact that a gate names.

    Args:
        externals: the names of the declared facts. If the configuration is not available, `externals` is None, and the
            function does not check facts.
    """
    for gate in (gate for definition in definitions for gate in definition.gates):
        for name in sorted(gate.windows - set(windows)):
            hint = suggestion_or_names(name, windows) or "; declare the window, or correct the gate"
            yield _problem(gate, f"window {name!r} does not exist{hint}")
        if externals is None:
            continue
        for name in sorted(gate.externals - set(externals)):
            hint = suggestion_or_names(name, externals) or "; declare it under `externals` in levelgate.yaml"
            yield _problem(gate, f"external fact {name!r} is not declared{hint}")


def find_unsatisfiable_gates(
    definitions: Mapping[str, Definition], windows: Mapping[str, Window], targets: Iterable[WindowTarget], now: datetime
) -> Iterator[Problem]:
    """Yield a problem for each target whose gates can never be open.

    If the windows of the gates are never open together within ten years, the gates can never be open. If Allow windows
    govern the target, the windows of the gates must also be open together with one of these Allow windows.

    Args:
        definitions: definitions by name.
        windows: windows by name.
    """
    gates = gates_by_target(definitions)
    reported = set()
    for target in targets:
        allows = tuple(
            candidate.name
            for candidate in windows.values()
            if candidate.kind is WindowKind.ALLOW and candidate.governs(target, Operation.UPDATE)
        )
        target_gates = gates(target)
        needed = sorted({name for gate in target_gates for name in gate.needed_windows} & windows.keys())
        if not needed or (target.rgd, target.node, allows) in reported:
            continue
        reported.add((target.rgd, target.node, allows))
        asked_windows = [windows[name] for name in needed]
        if any(
            find_common_opening([*asked_windows, *extra_windows], now)
            for extra_windows in [[windows[name]] for name in allows] or [[]]
        ):
            continue
        note = f" while {' or '.join(allows)} is open" if allows else ""
        gate = next(gate for gate in target_gates if gate.needed_windows)
        yield _problem(
            gate,
            f"requires {' and '.join(needed)}{note}, but these windows are never open together; "
            "change a window or the gate",
        )


def gates_by_target(definitions: Mapping[str, Definition]) -> Callable[[WindowTarget], tuple[Gate, ...]]:
    """Return a function that returns the gates of a target.

    Args:
        definitions: definitions by name.
    """
    gates = {name: _gates_by_node(definition) for name, definition in definitions.items()}
    return lambda target: gates.get(target.rgd, {}).get(target.node, ())


def _gates_by_node(definition: Definition) -> dict[str, tuple[Gate, ...]]:
    """Return the gates of each resource by its id. The empty id maps to the gates across instances."""
    return {"": definition.propagate_when or (), **{node.id: node.propagate_when or () for node in definition.nodes}}


def _problem(gate: Gate, message: str) -> Problem:
    return Problem(gate.origin.file, gate.origin.line, gate.path, f"${{{gate.text}}}: {message}")
