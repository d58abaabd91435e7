"""The function `string.format(list)` of cel-go's strings extension, version 1 and later.

Verbs:

* `%s`: any value
* `%d`: numbers, without zeros that have no effect
* `%f`, `%e`: numbers, with an optional precision (`%.3f`)
* `%b`, `%o`: binary, octal
* `%x`, `%X`: hexadecimal, of numbers, strings and bytes
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.registry import overload
from renderer.cel.text_format import positional_text, seconds_text, timestamp_text
from renderer.cel.values import TypeValue, UInt, type_name

_CLAUSE: Final = re.compile(
    r"%(?:(?P<percent>%)|(?:\.(?P<precision>[0-9]{1,4}))?(?P<verb>[a-zA-Z])|(?P<bad>.?))", re.DOTALL
)
Formatter = Callable[[Meter, Any, int], str | None]
_INTEGER_TYPES: Final = frozenset((int, UInt))
_NUMBERS: Final = frozenset((int, UInt, float))
_DEFAULT_PRECISION: Final = 6
_MAX_PRECISION: Final = 1000


@overload("string.format(list): string")
def format_text(meter: Meter, text: str, values: list[Any]) -> str:
    """Return `text` with each clause, such as `%s` or `%.2f`, replaced by the next of `values`.

    Raises: EvaluationError for an unknown clause, and for a clause whose value is missing or has an unsuitable type.
    """
    meter.read(text)
    pieces: list[str] = []
    position, used_count = 0, 0
    for clause in _CLAUSE.finditer(text):
        pieces.append(text[position : clause.start()])
        position = clause.end()
        if clause["percent"]:
            pieces.append("%")
            continue
        if used_count >= len(values):
            raise EvaluationError(
                f"format: the clause {clause[0]} (number {used_count + 1}) has no value; add a value to the list"
            )
        pieces.append(_format_clause(meter, clause, values[used_count]))
        used_count += 1
    pieces.append(text[position:])
    meter.produce(sum(map(len, pieces)))
    return "".join(pieces)


def _format_clause(meter: Meter, clause: re.Match[str], value: Any) -> str:
    verb = clause["verb"] or clause["bad"]
    formatter = _VERBS.get(verb)
    if formatter is None:
        raise EvaluationError(f"format: unknown clause {clause[0]!r}; choose from %s %d %f %e %b %o %x %X %%")
    if clause["precision"] and int(clause["precision"]) > _MAX_PRECISION:
        raise EvaluationError(
            f"format: the precision of {clause[0]} is more than {_MAX_PRECISION}; use a lower precision"
        )
    text = formatter(meter, value, int(clause["precision"] or _DEFAULT_PRECISION))
    if text is None:
        raise EvaluationError(f"format: %{verb} does not take {type_name(value)}")
    meter.produce(len(text))
    return text


def _format_any(meter: Meter, value: Any, _: int = 0) -> str | None:
    meter.spend(10)
    match value:
        case str():
            meter.produce(len(value))
            return value
        case list():
            return _join_items("[", [_format_any(meter, item) for item in value], "]")
        case dict():
            entries = sorted((_format_any(meter, key) or "", _format_any(meter, item)) for key, item in value.items())
            return _join_items("{", [item and f"{key}: {item}" for key, item in entries], "}")
    return _format_scalar(value)


def _format_scalar(value: Any) -> str | None:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _format_double(value)
        case bytes():
            return value.decode(errors="replace")
        case datetime():
            return timestamp_text(value)
        case timedelta():
            return seconds_text(value)
        case TypeValue(name=name):
            return name
    return None


def _format_double(value: float) -> str:
    return _format_non_finite(value) or positional_text(value)


def _join_items(opening: str, texts: list[str | None], closing: str) -> str | None:
    present_texts = [text for text in texts if text is not None]
    return f"{opening}{', '.join(present_texts)}{closing}" if len(present_texts) == len(texts) else None


def _format_non_finite(value: float) -> str | None:
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _format_decimal(_: Meter, value: Any, precision: int) -> str | None:
    if type(value) is float:
        return _format_double(value)
    return str(int(value)) if type(value) in _INTEGER_TYPES else None


def _number_formatter(verb: str) -> Formatter:
    def formatted(_: Meter, value: Any, precision: int) -> str | None:
        if type(value) not in _NUMBERS:
            return None
        return _format_non_finite(float(value)) or f"{float(value):.{precision}{verb}}"

    return formatted


def _format_binary(_: Meter, value: Any, precision: int) -> str | None:
    return f"{int(value):b}" if type(value) in _INTEGER_TYPES or type(value) is bool else None


def _format_octal(_: Meter, value: Any, precision: int) -> str | None:
    return f"{int(value):o}" if type(value) in _INTEGER_TYPES else None


def _format_hexadecimal(_: Meter, value: Any, precision: int) -> str | None:
    if type(value) in _INTEGER_TYPES:
        return f"{int(value):x}"
    if type(value) is str:
        return value.encode().hex()
    return value.hex() if type(value) is bytes else None


def _format_upper_hexadecimal(meter: Meter, value: Any, precision: int) -> str | None:
    text = _format_hexadecimal(meter, value, precision)
    return text.upper() if text is not None else None


_VERBS: Final[dict[str, Formatter]] = {
    "s": _format_any,
    "d": _format_decimal,
    "f": _number_formatter("f"),
    "e": _number_formatter("e"),
    "b": _format_binary,
    "o": _format_octal,
    "x": _format_hexadecimal,
    "X": _format_upper_hexadecimal,
}
