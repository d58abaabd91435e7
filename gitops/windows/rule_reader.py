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
    """Valid rules, broken rules and problems of one kind in a commit."""

    rules: Mapping[str, T]
    """Valid rules by name."""
    broken: Mapping[str, SourceLocation]
    """First location of each rule that is invalid or declared more than once, by name.

    The last accepted version of a broken rule stays in force.
    """
    problems: tuple[Problem, ...]


def parse_rules(
    documents: Iterable[DeclaredObject], kind: str, noun: str, parse: Callable[[DeclaredObject], T | list[Problem]]
) -> ParsedRules[T]:
    """Return the rules of `kind` among `documents`.

    If several rules have the same name, all of these rules are broken. If one of these rules applied, a stray file
    could replace a rule and open a window.

    Args:
        kind: kind of the rules, such as `PropagationWindow`.
        noun: name of the kind in messages.
        parse: function that returns the rule in a document, or the problems with it.
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
    """Yield a problem for each declaration in `group`, whose declarations have the same name."""
    places = join_names((declared.origin for declared in group), separator=" and ")
    message = f"{title} is declared at {places}; keep one of them; until then, the accepted version stays in force"
    for declared in group:
        yield Problem(declared.origin.file, declared.line_of("metadata.name"), "metadata.name", message)
