"""Windows and policies of a commit, read one after the other: the two kinds of rules that sources declare in Git."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParsedRules(Generic[T]):
    """The windows, or the policies, of a commit, by name. `broken` are those that cannot be read: what was accepted of them before stays in force."""

    rules: Mapping[str, T]
    broken: Mapping[str, SourceLocation]
    problems: tuple[Problem, ...]


def parse_rules(
    catalog: Catalog, kind: str, noun: str, parse: Callable[[DeclaredObject], T | list[Problem]]
) -> ParsedRules[T]:
    """Read all rules of a kind; of two with one name the first counts, in the order of files."""
    rules: dict[str, T] = {}
    origins: dict[str, SourceLocation] = {}
    broken: dict[str, SourceLocation] = {}
    problems: list[Problem] = []
    for declared in catalog.rules:
        if declared.group_kind.kind != kind:
            continue
        name, parsed = declared.manifest["metadata"]["name"], parse(declared)
        if isinstance(parsed, list):
            broken[name] = declared.origin
            problems += parsed
        elif name in rules:
            message = f"{noun} {name!r} is also defined at {origins[name]}; rename one of the two"
            line = declared.line_of("metadata.name")
            problems.append(Problem(declared.origin.file, line, "metadata.name", message))
        else:
            rules[name], origins[name] = parsed, declared.origin
    return ParsedRules(rules, broken, tuple(sorted(problems)))
