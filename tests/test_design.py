"""What a reader can rely on to find the intent: rules with the tests that show them, and parts that were built and can be read one after another."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.documentation import defined, named_in

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(path for package in ("gitops", "applier", "renderer") for path in (ROOT / package).rglob("*.py"))
STEPS = (
    "applier.applyset.inventory",
    "applier.applyset.member",
    "applier.plan.prune_candidate",
    "applier.plan.prune_decision",
    "applier.plan",
    "applier.execute.executor",
    "gitops.decisions",
)
"""In the order in which they were built (S0-24): what is in a set and in which order, pruning, applying, gates."""

HOLD_FUNCTIONS = {
    # Services: they act, or give access to what others do.
    "DecisionReads",
    "FleetEnvironment",
    "NodeStateReader",
    "PrunePlanner",
    "ResourceRenderer",
    # Work that waits for its turn.
    "PendingAction",
    "RecordUpdate",
    # The column of a table of the sandbox, a constant.
    "TableColumn",
    # Answers of one reconciliation. The graph of decisions replaces each by data.
    "ChangePermissions",
    "ReconcileResult",
}
"""Frozen classes with a function in a field."""


def imports(path: Path) -> set[str]:
    """Modules that one imports anywhere, with what is taken from them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_no_two_classes_have_one_name() -> None:
    """A reader who meets a name, and a search for it, find one class. Nested classes count; private ones do not."""
    definitions = Counter(name for path in MODULES for name in public_classes(path))
    ambiguous = sorted(name for name, modules in definitions.items() if modules > 1)
    assert ambiguous == [], "another module has a class of this name: choose another one"


def public_classes(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_values_hold_data_and_no_functions() -> None:
    """A value can then be compared, shown, and kept without what made it. Annotations with aliases count too."""
    trees = [ast.parse(path.read_text()) for path in MODULES]
    function_types = function_type_names(trees)
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and is_frozen(node)]
    found = {
        node.name
        for node in classes
        for field in node.body
        if isinstance(field, ast.AnnAssign) and names_in(field.annotation) & function_types
    }
    assert found == HOLD_FUNCTIONS


def is_frozen(node: ast.ClassDef) -> bool:
    """Return whether a class is a named tuple or a frozen dataclass."""
    decorators = map(ast.unparse, node.decorator_list)
    return any(ast.unparse(base) == "NamedTuple" for base in node.bases) or any(
        "dataclass(" in decorator and "frozen=True" in decorator for decorator in decorators
    )


def function_type_names(trees: Sequence[ast.Module]) -> set[str]:
    """Return `Callable` and the names of all type aliases that contain it."""
    aliases: dict[str, set[str]] = {}
    for statement in (statement for tree in trees for statement in tree.body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp() | ast.Name() as value):
                aliases[name] = names_in(value)
    found = {"Callable"}
    for _ in aliases:
        found |= {name for name, parts in aliases.items() if parts & found}
    return found


def names_in(tree: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def belongs(module: str, step: str) -> bool:
    return module == step or module.startswith(f"{step}.")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    """S0-22."""
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_every_rule_of_the_contract_is_named_by_a_test() -> None:
    """S0-22, S0-23: docs/semantics.md states the order, row by row, and somebody who changes it finds the tests of each row."""
    contract = (ROOT / "docs/semantics.md").read_text()
    rules = set(re.findall(r"\bS\d-\d+\b", contract))
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(rules) > 20
    assert sorted(rule for rule in rules if not re.search(rf"\b{rule}\b", tests)) == []


def test_every_row_of_the_fault_table_names_tests_that_exist() -> None:
    """docs/faults.md; and each invariant is in it."""
    page = (ROOT / "docs/faults.md").read_text()
    assert [(str(file), name) for file, name in named_in(page) if name and name not in defined(file)] == []
    rows = re.findall(r"^\| (?!fault |question |promise |\| checked)(.*)$", page, re.MULTILINE)
    assert len(rows) > 50
    assert [row for row in rows if not any(True for _ in named_in(row))] == []
    assert {row.partition(" ")[0] for row in rows} >= {f"I{number}" for number in range(1, 13)}


@pytest.mark.parametrize(
    "name",
    ["reading", "writing", "people", "admission", "kinds", "busy", "restart", "replicas", "kills", "fleet_kills"],
)
def test_every_fault_that_is_tried_is_in_the_fault_table(name: str) -> None:
    """docs/faults.md."""
    told = {test for _, test in named_in((ROOT / "docs/faults.md").read_text())}
    tried = {test for test in defined(ROOT / f"tests/faults/test_{name}.py") if test.startswith("test_")}
    assert tried
    assert tried - told == set()


def test_the_changelog_tells_changes_of_the_order_apart() -> None:
    """S0-23."""
    assert "\n### Behaviour\n" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("step", STEPS)
def test_no_part_needs_one_that_was_built_on_it(step: str) -> None:
    """S0-24, S0-27: each can be read, shipped and tested without those after it."""
    earlier, later = STEPS[: STEPS.index(step)], STEPS[STEPS.index(step) + 1 :]
    own = [path for path in MODULES if belongs(_module(path), step)]
    assert own
    imported = {name for path in own for name in imports(path) if not any(belongs(name, other) for other in earlier)}
    assert {name for name in imported if any(belongs(name, other) for other in later)} == set()


@pytest.mark.parametrize("path", sorted((ROOT / "bench").glob("[!_]*.py")), ids=lambda path: path.stem)
def test_every_part_of_the_bench_finds_what_it_measures(path: Path) -> None:
    """Figures are measured by hand: what moved in the code would be noticed when they are wanted."""
    assert importlib.import_module(f"bench.{path.stem}").main


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
