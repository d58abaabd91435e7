"""Random CEL expressions by type, and their values in a form that different engines share."""

from __future__ import annotations

import math
import os
import re
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from renderer.cel import Optional, compile_expression
from renderer.errors import ExpressionError

FUZZ = int(os.environ.get("LEVELGATE_FUZZ", "0"))
"""How many times as many examples."""
SETTINGS = settings(
    derandomize=not FUZZ,
    max_examples=400 * (FUZZ or 1),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class EvaluationFailure:
    """Any error. Engines word errors differently, so all compare equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EvaluationFailure)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Failed()"


FAILED = EvaluationFailure()
VARIABLES: dict[str, Any] = {
    "m": {"a": 1, "b": "x", "c": [1, 2], "d": None, "e": True, "f": 1.5},
    "l": [3, 1, 2],
    "s": "a.b.c",
    "n": 2,
    "t": True,
}
FORMS = {
    "int": "1|0|-1|7|9223372036854775807|-9223372036854775808|n|m.a|l[0]|size($text)|size($list)|size($bytes)|int($double)"
    "|int($uint)|int($text)|($int + $int)|($int - $int)|($int * $int)|($int / $int)|($int % $int)|-($int)"
    "|($bool ? $int : $int)|$time.getFullYear()|$time.getMonth()|$time.getDayOfWeek()|$time.getDayOfYear()"
    "|$time.getHours($zone)|$time.getMinutes($zone)|$time.getMilliseconds()|$span.getHours()|$span.getMinutes()"
    "|$span.getSeconds()|$span.getMilliseconds()|int($time)|$text.indexOf($text)|$text.lastIndexOf($text)"
    "|$optional.orValue($int)|$list[$small]|math.abs($int)|math.sign($int)|math.bitAnd($int, $int)|math.bitOr($int, $int)"
    "|math.bitXor($int, $int)|math.bitNot($int)|math.bitShiftLeft($int, $small)|math.bitShiftRight($int, $small)"
    "|math.greatest($int, $number)|math.least($number, $int, $number)|cel.bind(b, $int, b + b)|[$int, $int][$small]",
    "number": "$int|$uint|$double",
    "small": "0|1|2|3|-1|5",
    "uint": "0u|1u|3u|18446744073709551615u|uint($int)|uint($double)|uint($text)|($uint + $uint)|($uint - $uint)"
    "|($uint * $uint)|($uint / $uint)|($uint % $uint)|math.bitNot($uint)",
    "double": "0.0|-0.0|1.5|-2.5|1e300|1e-7|0.1|123456789.0|double($int)|double($uint)|double($text)|($double + $double)"
    "|($double * $double)|($double / $double)|($double - $double)|-($double)|math.ceil($double)|math.floor($double)"
    "|math.round($double)|math.trunc($double)|math.abs($double)|math.sqrt($number)",
    "text": "''|'a'|'abcabc'|'é😀x'|s|'1'|'-5'|'1.5'|'a,b,,c'|' x\\t'|string($int)|string($uint)|string($double)|string($bool)"
    "|string($time)|string($span)|string($bytes)|($text + $text)|$text.charAt($small)|$text.lowerAscii()|$text.upperAscii()"
    "|$text.trim()|$text.reverse()|$text.replace($text, $text)|$text.replace($text, $text, $small)|$text.substring($small)"
    "|$texts.join()|$texts.join($text)|strings.quote($text)|base64.encode($bytes)|'%s'.format([$plain])"
    "|'%d|%x|%o|%b|%X'.format([$int, $int, $int, $int, $int])|'%.2f|%e'.format([$double, $double])|'%x'.format([$text])"
    "|'%X'.format([$bytes])|'%b'.format([$bool])|$texts[$small]",
    "texts": "['x', 'y']|[$text, $text]|$text.split(',')|$text.split(',', $small)",
    "bytes": "b''|b'a\\xff'|bytes($text)|base64.decode('aGk=')|($bytes + $bytes)",
    "bool": "true|false|t|($number < $number)|($number <= $number)|($number == $number)|($number != $number)"
    "|($text < $text)|($text == $text)|($span < $span)|($time >= $time)|($span == $span)|($bytes < $bytes)|($any == $any)"
    "|($any != $any)|($bool && $bool)|($bool \x7c\x7c $bool)|!($bool)|$any in $list|$text in m|has(m.a)|has(m.c.x)"
    "|$text.startsWith($text)|$text.endsWith($text)|$text.contains($text)|$text.matches('a+')|$list.all(x, $bool)"
    "|$list.exists(x, $bool)|$list.exists_one(x, $bool)|$list.exists(x, x == $any)|$list.all(x, x > $number)|bool($text)"
    "|$optional.hasValue()|math.isNaN($double)|math.isInf($double)|math.isFinite($double)|($list == $list)|($map == $map)"
    "|type($any) == type($any)",
    "time": "timestamp(0)|timestamp('2009-02-13T23:31:30Z')|timestamp('1969-12-31T23:59:59+02:00')|timestamp($int)"
    "|($time + $span)|($time - $span)|timestamp($time)|timestamp('2024-02-29T12:00:00-08:00')",
    "span": "duration('0')|duration('90m')|duration('-1s')|duration('1h2m3s')|($span + $span)|($span - $span)|($time - $time)",
    "zone": "'UTC'|'+02:00'|'-03:30'|'America/St_Johns'|'Asia/Kathmandu'|'05:45'",
    "optional": "optional.of($int)|optional.none()|m.?a|m.?zzz|$optional.or($optional)|$list[?$small]|m[?'a']"
    "|optional.ofNonZeroValue($plain)|$optional.optMap(o, o + 1)|$optional.optFlatMap(o, m.?a)|m.?c.?x",
    "list": "[]|[1, 2]|l|[1, 'a', 2.5]|[$any, $any]|($list + $list)|$list.map(x, $any)|$list.map(x, x)|$list.filter(x, $bool)"
    "|$list.map(x, $bool, x)|[?$optional, 1]|m.c|$list.filter(x, x != $any)",
    "map": "{}|{'a': $any}|m|{1: $any}|{true: 1, 'b': $any}|{?'o': $optional}|{1u: 2}",
    "plain": "$int|$uint|$text|$bool|null",
    "any": "$int|$uint|$double|$text|$bool|$bytes|null|$time|$span|$list|$map",
}
"""Expressions by the type of their value; `$int` stands for any of type int."""


def ours(text: str, *, exactly: bool = False, variables: dict[str, Any] = VARIABLES) -> Any:
    """Evaluate an expression with Levelgate's engine; an error becomes `EvaluationFailure`."""
    try:
        program = compile_expression(text)
        return comparable(program.evaluate_exactly(variables) if exactly else program.evaluate(variables))
    except ExpressionError as error:
        if "cannot be evaluated" in error.message:
            raise
        return EvaluationFailure()


@st.composite
def typed(draw: st.DrawFn, kind: str, depth: int) -> str:
    """Draw an expression of this type. Most have a value, unlike a blind combination of operators."""
    forms = [form.replace("\x7c", "|") for form in FORMS[kind].split("|")]
    leaves = [form for form in forms if "$" not in form]
    form = draw(st.sampled_from(leaves if depth <= 0 and leaves else forms))
    return re.sub(r"\$([a-z]+)", lambda found: draw(typed(found[1], depth - 1)), form)


def comparable(value: Any) -> Any:
    """Return a value that compares like a CEL value of the same type.

    The C++ engine's Python form does not tell int from uint.
    """
    match value:
        case bool() | None | str() | datetime() | timedelta():
            return (type(value).__name__, value)
        case float():
            return ("double", "NaN" if math.isnan(value) else value)
        case int():
            return ("int", int(value))
        case bytes() | bytearray():
            return ("bytes", bytes(value))
        case list() | tuple():
            return [comparable(item) for item in value]
        case dict():
            return {key: comparable(item) for key, item in value.items()}
        case Optional():
            return ("optional", value.present, comparable(value.value))
    return ("type", str(getattr(value, "name", value)).removeprefix("<").split()[0])


TYPED: st.SearchStrategy[str] = st.tuples(
    st.sampled_from(["int", "uint", "double", "text", "bool", "list"]), st.integers(1, 3)
).flatmap(lambda chosen: typed(*chosen))
