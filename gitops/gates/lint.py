"""What is wrong with gates beyond their definition: names that nothing has, and times that never come together."""

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
    """Windows and external facts that gates ask for and that nobody declares. `externals` is None where it is not known which there are."""
    for gate in (gate for definition in definitions for gate in definition.gates):
        for name in sorted(gate.windows - set(windows)):
            yield _problem(gate, f"window {name!r} does not exist{suggestion_or_names(name, windows)}")
        if externals is None:
            continue
        for name in sorted(gate.externals - set(externals)):
            hint = suggestion_or_names(name, externals) or "; declare it under `externals` in levelgate.yaml"
            yield _problem(gate, f"external fact {name!r} is not declared{hint}")


def find_unsatisfiable_gates(
    definitions: Mapping[str, Definition], windows: Mapping[str, Window], targets: Iterable[WindowTarget], now: datetime
) -> Iterator[Problem]:
    """Gates, by the name of their definition, that ask for windows which are never open together, or never while one is that governs the target."""
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
        note = f", and those that govern it: {', '.join(allows)}" if allows else ""
        gate = next(gate for gate in target_gates if gate.needed_windows)
        yield _problem(gate, f"requires {' and '.join(needed)}{note}; these are never open together")


def gates_by_target(definitions: Mapping[str, Definition]) -> Callable[[WindowTarget], tuple[Gate, ...]]:
    """The gates of a target; the definitions are by their names."""
    gates = {name: _gates_by_node(definition) for name, definition in definitions.items()}
    return lambda target: gates.get(target.rgd, {}).get(target.node, ())


def _gates_by_node(definition: Definition) -> dict[str, tuple[Gate, ...]]:
    """The gates of each resource by its id; those across instances under the empty id."""
    return {"": definition.propagate_when or (), **{node.id: node.propagate_when or () for node in definition.nodes}}


def _problem(gate: Gate, message: str) -> Problem:
    return Problem(gate.origin.file, gate.origin.line, gate.path, f"${{{gate.text}}}: {message}")
