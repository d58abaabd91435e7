"""The macros: calls whose arguments are variables and bodies instead of values.

CEL core, cel-go's two-variable comprehensions, bindings, optional types and `sortBy`. A macro is known by its name,
by whether it is called on a target, and by how many arguments it has.
"""

from __future__ import annotations

from typing import Final

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class MacroForm:
    """How a macro is written: after `variables` names, the rest of its arguments are bodies."""

    name: str
    """Its name in the tree, one for all spellings; two-variable forms end in `2`."""
    variables: int


_ONE_VARIABLE: Final = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "existsOne": (2,),
    "map": (2, 3),
    "filter": (2,),
    "sortBy": (2,),
    "optMap": (2,),
    "optFlatMap": (2,),
}
_TWO_VARIABLES: Final = {
    "all": (3,),
    "exists": (3,),
    "exists_one": (3,),
    "existsOne": (3,),
    "transformList": (3, 4),
    "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
}


def _forms() -> dict[tuple[str, int], MacroForm]:
    forms = {}
    for variables, table in ((1, _ONE_VARIABLE), (2, _TWO_VARIABLES)):
        for name, counts in table.items():
            canonical = "exists_one" if name == "existsOne" else name
            for count in counts:
                forms[name, count] = MacroForm(canonical + ("2" if variables == 2 else ""), variables)
    return forms


METHODS: Final = _forms()
"""(name, number of arguments) -> form, for macros that are called on a target."""

NAMES: Final = frozenset(name for name, _ in METHODS) | {"has", "cel.bind"}
