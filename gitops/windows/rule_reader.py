"""Reader for the rules of one kind in a commit: windows, policies, and other objects of Levelgate's own kinds."""

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
    """Rules of one kind in a commit."""

    rules: Mapping[str, T]
    """Valid rules by name."""
    broken: Mapping[str, SourceLocation]
    """First location by name of rules that are invalid or declared twice; their accepted version stays in force."""
    problems: tuple[Problem, ...]


def parse_rules(
    documents: Iterable[DeclaredObject], kind: str, noun: str, parse: Callable[[DeclaredObject], T | list[Problem]]
) -> ParsedRules[T]:
    """Read all rules of a kind.

    Rules that share a name are all broken, because otherwise a stray file could replace a rule and open a window.

    Args:
        noun: name of the kind in messages.
    """
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
    """Yield a problem at each declaration of a name that is declared more than once."""
    places = join_names((declared.origin for declared in group), separator=" and ")
    message = f"{title} is declared at {places}; what was accepted of it stays in force until only one of them is left"
    for declared in group:
        yield Problem(declared.origin.file, declared.line_of("metadata.name"), "metadata.name", message)
