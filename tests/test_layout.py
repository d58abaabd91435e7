"""The layout of the tests that `tests/README.md` describes: tests, support code, and a test for every deciding module."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Set
from functools import cache
from pathlib import Path

import pytest

from tests.support.documentation import ROOT

TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"
MODULES = sorted(TESTS.rglob("*.py"))

PURE = ("renderer", "applier/applyset", "applier/plan", "gitops/gates", "gitops/rollouts", "gitops/windows")
"""Folders whose modules decide and neither read nor write: each module needs a test that imports it."""
CORE = ("renderer/render",)
"""Parts of them that belong to the decision core, whose tests compare whole decisions instead of single modules."""


@cache
def imported(path: Path) -> Set[str]:
    """Return the modules and the names that a module imports, each with its full name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(module)):
                found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_module_imports_a_test() -> None:
    """A definition that two modules need stands in `tests/support`."""
    tests = {module_name(path) for path in MODULES if path.name.startswith("test_")}
    assert {
        str(path.relative_to(ROOT)): sorted(tests & imported(path)) for path in MODULES if tests & imported(path)
    } == {}


def test_support_code_stands_in_its_folder() -> None:
    """Elsewhere below `tests` are tests and fixtures alone."""
    strangers = [path for path in MODULES if SUPPORT not in path.parents]
    assert [str(path) for path in strangers if path.name != "conftest.py" and not path.name.startswith("test_")] == []


def test_no_other_class_has_the_name_of_a_support_class() -> None:
    """A reader who meets a name of the support code, and a search for it, find one class."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if any("tests/support/" in one for one in found)} == {}


@pytest.mark.parametrize("path", sorted(SUPPORT.rglob("*.py")), ids=lambda path: str(path.relative_to(SUPPORT)))
def test_every_support_module_tells_what_it_holds(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_the_page_shows_a_real_test() -> None:
    shown = (TESTS / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert shown
    assert shown in (SUPPORT / "test_platform.py").read_text()


def deciding_modules() -> list[str]:
    """Return the modules of the pure folders that contain a function, without the decision core."""
    paths = [path for folder in PURE for path in sorted((ROOT / folder).rglob("*.py"))]
    found = [path for path in paths if not str(path.relative_to(ROOT)).startswith(CORE)]
    return [
        module_name(path)
        for path in found
        if any(isinstance(n, ast.FunctionDef) for n in ast.walk(ast.parse(path.read_text())))
    ]


def test_every_deciding_module_is_imported_by_a_test_of_its_folder() -> None:
    """A test of `renderer.cel.parser` stands below `tests/renderer`, and imports the module."""
    known: dict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        known[path.relative_to(TESTS).parts[0]] |= imported(path)
    missing = [name for name in deciding_modules() if name not in known[name.partition(".")[0]]]
    assert missing == [], "add a test that imports these modules"
