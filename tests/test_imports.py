"""Owners of third-party libraries: the modules that may import each of them, held against the syntax tree of every module."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("renderer", "applier", "gitops")

OWNERS: dict[str, tuple[str, ...]] = {
    "aiohttp": (
        "gitops.cli.debug",
        "applier.kube",
        "applier.sandbox.endpoints.http",
        "gitops.external_facts",
        "gitops.forge.rest",
        "gitops.notifications.delivery",
        "gitops.server",
    ),
    "apscheduler": ("gitops.daemon.timers",),
    "celpy": ("renderer.cel.grammar",),
    "click": ("gitops.cli",),
    "cronsim": ("gitops.windows.recurrence",),
    "dateutil": ("gitops.windows.recurrence",),
    "git": ("gitops.source.git",),
    "jinja2": ("gitops.server.page",),
    "kubernetes": ("applier.kube.kubeconfig", "applier.kube.kubeconfig"),
    "lark": ("renderer.cel.grammar", "renderer.cel.parser"),
    "opentelemetry": ("gitops.tracing",),
    "prometheus_client": ("gitops.server.metrics",),
    "re2": ("renderer.cel.functions.regex", "renderer.schema.formats"),
    "rich": ("gitops.cli.progress",),
    "tzdata": ("gitops.windows.zones",),
    "watchdog": ("gitops.daemon.file_watch",),
    "yaml": ("renderer.documents",),
    "yarl": ("applier.kube.http_transport",),  # comes with aiohttp, which takes its URLs
}
"""Library to the modules and packages that may import it."""
EVERYWHERE = frozenset({"msgspec", "orjson"})
"""Libraries that any module may import."""

FENCES: dict[tuple[str, str], tuple[str, ...]] = {
    ("applier.sandbox", ""): ("gitops.sandbox", "gitops.simulate", "gitops.plan.dry_run", "gitops.cli.sandbox"),
    ("gitops.plan", "gitops.daemon"): ("gitops.daemon.commit_acceptance",),
}
"""Package of ours, and the folder whose modules may not import it (empty: any), to the modules that may all the same.

No imitation of a cluster runs in production. The daemon makes no plans for people, except where a commit must match one.
"""

DECIDING = ("decisions", "gates", "rollouts", "windows", "records", "reconcile")
"""Folders of `gitops` that work on one cluster."""

IMPORTING_CALLS = frozenset({"import_module", "find_spec", "__import__"})


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the full name of every module that is imported anywhere in a module, also by its name as a string.

    Raises ValueError where the syntax tree does not tell the name.
    """
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call | ast.For)]
    strings, calls = _strings(tree, nodes), set(IMPORTING_CALLS)
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            calls |= {alias.asname for alias in node.names if alias.name in IMPORTING_CALLS and alias.asname}
    for node in nodes:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in calls:
                yield from _named(node, strings)


def _strings(tree: ast.Module, nodes: Iterable[ast.AST]) -> dict[str, list[str]]:
    """Return the texts that each name stands for: constants of the module, and variables of loops over texts."""
    values: dict[str, list[str]] = {}
    for node in nodes:
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Tuple(elts=items) | ast.List(elts=items)):
                texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
                values[name] = texts if len(texts) == len(items) else []
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text)))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text)))
            ):
                values[name] = [text]
    return values


def _named(call: ast.Call, strings: dict[str, list[str]]) -> list[str]:
    """Return the modules that a call may import; of a text with placeholders, what stands before the first one."""
    match call.args or [keyword.value for keyword in call.keywords if keyword.arg == "name"]:
        case [ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]), *_]:
            return [text]
        case [ast.Name(id=name), *_] if strings.get(name):
            return strings[name]
    raise ValueError(f"line {call.lineno}: write the name of the imported module as a constant")


@cache
def imports() -> dict[str, set[str]]:
    """Return the modules of the three packages, each with all that it imports."""
    modules: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            importer = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            modules[importer] = set(imported(ast.parse(path.read_text(), filename=str(path))))
    return modules


@cache
def importers() -> dict[str, set[str]]:
    """Return the third-party libraries that are imported, each with its importers."""
    modules: dict[str, set[str]] = {}
    for importer, names in imports().items():
        for library in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - set(PACKAGES):
            modules.setdefault(library, set()).add(importer)
    return modules


def belongs(module: str, owner: str) -> bool:
    return module == owner or module.startswith(f"{owner}.")


def test_every_library_is_imported_by_its_owners_alone() -> None:
    """A library without an entry in `OWNERS` has no owner, and fails as well."""
    strangers = {
        library: sorted(
            module for module in modules if not any(belongs(module, owner) for owner in OWNERS.get(library, ()))
        )
        for library, modules in importers().items()
        if library not in EVERYWHERE
    }
    assert {library: modules for library, modules in strangers.items() if modules} == {}


@pytest.mark.parametrize(("library", "owners"), OWNERS.items(), ids=OWNERS)
def test_every_owner_imports_its_library(library: str, owners: tuple[str, ...]) -> None:
    """Remove an entry that this test names: nobody needs its permission."""
    modules = importers().get(library, set())
    assert [owner for owner in owners if not any(belongs(module, owner) for module in modules)] == []


@pytest.mark.parametrize(("fence", "gates"), FENCES.items(), ids=str)
def test_a_fenced_package_is_imported_by_its_gates_alone(fence: tuple[str, str], gates: tuple[str, ...]) -> None:
    """Inside of the package everything may be imported. A gate that imports nothing of it is removed from the table."""
    package, outside = fence
    strangers = {
        module
        for module, names in imports().items()
        if any(belongs(name, package) for name in names) and not belongs(module, package)
        if not outside or belongs(module, outside)
    }
    assert [module for module in sorted(strangers) if not any(belongs(module, gate) for gate in gates)] == []
    assert [gate for gate in gates if not any(belongs(module, gate) for module in strangers)] == []


def test_every_declared_dependency_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["tracing"]]
    used = {
        _normalised(distribution)
        for library, distributions in packages_distributions().items()
        if library in importers()
        for distribution in distributions
    }
    wanted = {_normalised(re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]) for requirement in declared}
    assert wanted - used == set()


def _normalised(distribution: str) -> str:
    """Source: the specification of the Python packaging authority, "Names and normalization"."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@pytest.mark.parametrize(
    "source",
    [
        "import yaml.nodes",
        "def f():\n    from yaml import nodes",
        "if TYPE_CHECKING:\n    import yaml",
        "try:\n    import yaml as y\nexcept ImportError:\n    pass",
        "import_module('yaml.nodes')",
        "importlib.util.find_spec(name='yaml')",
        "def f():\n    return __import__('yaml')",
        "from importlib import import_module as load\nload('yaml')",
        "_NAME = 'yaml.nodes'\ndef f():\n    import_module(_NAME)",
        "_NAME: Final = 'yaml.nodes'\nfind_spec(_NAME)",
        "for name in ('os', 'yaml'):\n    find_spec(name)",
        "import_module(f'yaml.{part}')",
    ],
)
def test_no_way_to_import_goes_unseen(source: str) -> None:
    assert "yaml" in {name.partition(".")[0] for name in imported(ast.parse(source))}


@pytest.mark.parametrize("source", ["import_module(name)", "import_module(f'{name}')", "find_spec('a' + 'b')"])
def test_a_name_that_cannot_be_told_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="line 1: write the name of the imported module as a constant"):
        list(imported(ast.parse(source)))


def test_nothing_that_decides_knows_a_fleet() -> None:
    """S3-23: what is rendered, decided, applied and reconciled is a single cluster's."""
    deciding = ("renderer", "applier", *(f"gitops.{name}" for name in DECIDING))
    strangers = {
        importer
        for importer, names in imports().items()
        if any(belongs(importer, package) for package in deciding)
        and any(belongs(name, "gitops.fleet") or belongs(name, "gitops.daemon") for name in names)
    }
    assert strangers == set()


def test_no_cluster_travels_in_a_context() -> None:
    """S3-11: a cluster is a parameter or part of a key; nothing says from outside which one is meant."""
    assert {importer for importer, names in imports().items() if "contextvars" in names} == set()


def test_one_module_says_whom_an_event_concerns() -> None:
    """S4-12: events reach roots through one index, which `explain --event` asks as the daemon does."""
    index = "gitops.reconcile.incremental.interests"
    askers = {importer for importer, names in imports().items() if f"{index}.roots_to_reconcile" in names}
    assert askers == {"gitops.daemon.event_router", "gitops.explain.event_effects"}
