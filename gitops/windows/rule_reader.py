"""Objects of Levelgate's own kinds in a commit, such as windows and policies, read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.phrasing import join_names

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParsedRules(Generic[T]):
    """The windows, or the policies, say, of a commit, by name.

    `broken` are those that cannot be read, or that several files declare: what was accepted of them before stays in force.
    """

    rules: Mapping[str, T]
    broken: Mapping[str, SourceLocation]
    problems: tuple[Problem, ...]


def parse_rules(
    documents: Iterable[DeclaredObject], kind: str, noun: str, parse: Callable[[DeclaredObject], T | list[Problem]]
) -> ParsedRules[T]:
    """Read all rules of a kind among these. Of those with one name none counts, or a stray file could open a window."""
    rules: dict[str, T] = {}
    broken: dict[str, SourceLocation] = {}
    problems: list[Problem] = []
    groups: dict[str, list[DeclaredObject]] = {}
    for declared in documents:
        if declared.group_kind.kind == kind:
            groups.setdefault(declared.manifest["metadata"]["name"], []).append(declared)
    for name, group in groups.items():
        for declared in group:
            parsed = parse(declared)
            if len(group) > 1 or isinstance(parsed, list):
                broken.setdefault(name, declared.origin)
                problems += parsed if isinstance(parsed, list) else ()
            else:
                rules[name] = parsed
        if len(group) > 1:
            problems += _duplicate_problems(f"{noun} {name!r}", group)
    return ParsedRules(rules, broken, tuple(sorted(problems)))


def _duplicate_problems(title: str, group: Sequence[DeclaredObject]) -> Iterator[Problem]:
    places = join_names((declared.origin for declared in group), separator=" and ")
    message = f"{title} is declared at {places}; what was accepted of it stays in force until only one of them is left"
    for declared in group:
        yield Problem(declared.origin.file, declared.line_of("metadata.name"), "metadata.name", message)
