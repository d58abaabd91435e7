"""Templates: JSON values whose strings contain `${...}`.

A string that is exactly one `${...}` is `standalone`: the value of the expression replaces the string, with the value's
type. Any other string with expressions is `mixed`: the template inserts the values of the expressions, which must be
strings, into the text. Map keys are never expressions. A template never reads values of variables as templates.

The module compiles a template into one Python function that builds the finished value. If the function raises an
exception, the module evaluates the expressions separately, to find each failed expression with its place and its error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

from renderer.cel import OMIT, Meter, Optional, Program, compile_expression, to_json, type_name
from renderer.cel.to_json import encode_bytes
from renderer.errors import ExpressionError, RendererError
from renderer.frozen import dataclass
from renderer.template.expressions import scan

if TYPE_CHECKING:
    from renderer.cel.template_codegen import Composer

Path = tuple[str | int, ...]
MAX_DEPTH: Final = 80
"""Maximum nesting depth of maps and lists in a template."""


class TemplateError(RendererError):
    """An expression in a template that fails to compile or to evaluate.

    Attributes:
        path: Place of the expression, such as `spec.containers[0].image`.
        errors: All errors of the template in order, starting with this error.
    """

    def __init__(self, path: str, error: ExpressionError, errors: tuple[TemplateError, ...] = ()) -> None:
        self.path = path
        self.error = error
        self.errors: tuple[TemplateError, ...] = (self, *errors)
        super().__init__(f"{path}: {error}" if path else str(error))


@dataclass(frozen=True, slots=True)
class _Hole:
    """The compiled form of a template's string with expressions."""

    path: Path
    source_text: str
    parts: tuple[str | Program, ...]
    """Texts and programs, in order. A single program makes the hole standalone."""
    binary: bool = False
    """True if the template writes bytes as base64 text."""

    @property
    def programs(self) -> Iterator[Program]:
        return (part for part in self.parts if isinstance(part, Program))

    @property
    def is_standalone(self) -> bool:
        return len(self.parts) == 1

    def evaluate(self, variables: Mapping[str, Any], meter: Meter) -> Any:
        """Return the JSON value of the hole, or OMIT if the expression drops the field.

        Raises: ExpressionError if an expression fails.
        """
        meter.renew()
        if not self.is_standalone:
            return "".join(
                part if isinstance(part, str) else _evaluate_text(part, variables, meter) for part in self.parts
            )
        program = next(self.programs)
        value = program.evaluate(variables, meter)
        if value is OMIT:
            return value
        return to_json(encode_bytes(value) if self.binary else value, expression=program.text, meter=meter)


def _evaluate_text(program: Program, variables: Mapping[str, Any], meter: Meter) -> str:
    value = program.evaluate(variables, meter)
    if type(value) is str:
        return value
    if value is OMIT:
        raise ExpressionError(program.text, "omit() drops a whole field; do not use omit() inside a text")
    hint = f"{program.text}.orValue('')" if type(value) is Optional else f"string({program.text})"
    raise ExpressionError(program.text, f"expected string inside a text, got {type_name(value)}; use {hint}")


@final
class Template:
    """A JSON value with `${...}`, compiled to a function by `compile_template`."""

    __slots__ = ("_build", "_holes", "source")

    def __init__(
        self, source: Any, holes: Mapping[Path, _Hole], build: Callable[[Mapping[str, Any], Meter], Any]
    ) -> None:
        self.source = source
        self._holes = holes
        self._build = build

    @property
    def expressions(self) -> tuple[tuple[str, Program], ...]:
        """Return the programs of all expressions, each with the path of its string, in the order of the template."""
        return tuple((format_path(hole.path), program) for hole in self._holes.values() for program in hole.programs)

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(program.names for _, program in self.expressions))

    def with_encoding(self, is_binary: Callable[[Path], bool]) -> Template:
        """Return a template that writes bytes as base64 text at the places for which `is_binary` is true.

        At any other place, bytes are an error.
        """
        binary_holes = {path: replace(hole, binary=True) for path, hole in self._holes.items() if is_binary(path)}
        if not binary_holes:
            return self
        holes = {**self._holes, **binary_holes}
        return Template(self.source, holes, _compile_builder(self.source, holes))

    def blank(self, value: Any) -> Any:
        """Return a copy of `value` with null at each place where the template has a string with expressions.

        Args:
            value: A value with the shape of the template.
        """
        return _fill(value, (), dict.fromkeys(self._holes))

    def _try_build(self, variables: Mapping[str, Any], instance_meter: Meter) -> Any:
        """Return the finished value from the generated function, or OMIT if an expression fails."""
        meter = instance_meter.of_object()
        try:
            return self._build(variables, meter)
        except Exception:
            return OMIT
        finally:
            instance_meter.charge(meter)

    def evaluate_partially(
        self, variables: Mapping[str, Any], is_pending: Callable[[ExpressionError], bool], meter: Meter | None = None
    ) -> tuple[Any, list[tuple[str, ExpressionError]]]:
        """Return the value with the results of all expressions that succeed, and the pending errors with their paths.

        A string with a pending error stays unchanged.

        Args:
            is_pending: Function that returns whether an error is pending.
            meter: The meter of the instance that contains the value.

        Raises: TemplateError with all errors that are not pending.
        """
        instance_meter = meter or Meter.of_instance()
        built = self._try_build(variables, instance_meter)
        if built is not OMIT:
            return built, []
        waiting: list[tuple[str, ExpressionError]] = []
        errors: list[TemplateError] = []
        values: dict[Path, Any] = {}
        for path, result in self._evaluate_holes(variables, instance_meter):
            values[path] = result
            if isinstance(result, ExpressionError):
                values[path] = self._holes[path].source_text
                if is_pending(result):
                    waiting.append((format_path(path), result))
                else:
                    errors.append(TemplateError(format_path(path), result))
        if () in values and values[()] is OMIT:
            errors.append(
                TemplateError(
                    "",
                    ExpressionError(
                        str(self.source), "omit() has no field to drop; write omit() as the value of a field"
                    ),
                )
            )
        if errors:
            raise TemplateError(errors[0].path, errors[0].error, tuple(errors[1:])) from None
        return _fill(self.source, (), values), waiting

    def evaluate_known(self, variables: Mapping[str, Any], meter: Meter | None = None) -> Any:
        """Return the value without the strings whose expressions fail.

        Args:
            meter: The meter of the instance that contains the value.
        """
        instance_meter = meter or Meter.of_instance()
        built = self._try_build(variables, instance_meter)
        if built is not OMIT:
            return built
        results = self._evaluate_holes(variables, instance_meter)
        values = {path: OMIT if isinstance(value, ExpressionError) else value for path, value in results}
        value = _fill(self.source, (), values)
        return {} if value is OMIT else value

    def _evaluate_holes(self, variables: Mapping[str, Any], instance_meter: Meter) -> Iterator[tuple[Path, Any]]:
        """Yield the path of each string with expressions, with the value or the error of the string."""
        meter = instance_meter.of_object()
        for path, hole in self._holes.items():
            try:
                yield path, hole.evaluate(variables, meter)
            except ExpressionError as error:
                yield path, error
        instance_meter.charge(meter)


def compile_template(value: Any) -> Template:
    """Return the compiled template of the JSON value `value`. Raises: TemplateError with all mistakes."""
    holes: dict[Path, _Hole] = {}
    errors: list[TemplateError] = []
    for path, text in find_strings(value):
        try:
            parts = tuple(
                part if isinstance(part, str) else compile_expression(part.text.strip()) for part in scan(text)
            )
        except ExpressionError as error:
            errors.append(TemplateError(format_path(path), error))
            continue
        if any(isinstance(part, Program) for part in parts):
            holes[path] = _Hole(path, text, parts)
    if errors:
        raise TemplateError(errors[0].path, errors[0].error, tuple(errors[1:]))
    return Template(value, holes, _compile_builder(value, holes))


def format_path(path: Path) -> str:
    """Return `path` as text, such as `spec.containers[0].image`.

    Keys that are not plain words have quotes: `metadata.labels["app.kubernetes.io/name"]`.
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w-]+", step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def find_strings(value: Any, path: Path = (), *, include_all: bool = False) -> Iterator[tuple[Path, str]]:
    """Yield the strings in `value` that may contain expressions, with their paths.

    Args:
        include_all: True to yield all strings.

    Raises: TemplateError if the nesting of `value` is deeper than MAX_DEPTH.
    """
    if len(path) > MAX_DEPTH:
        raise TemplateError(
            format_path(path[:8]) + "...",
            ExpressionError("", f"the template is nested deeper than {MAX_DEPTH} levels; use fewer levels"),
        )
    match value:
        case str():
            if include_all or "${" in value:
                yield path, value
        case dict():
            for key, item in value.items():
                yield from find_strings(item, (*path, str(key)), include_all=include_all)
        case list():
            for index, item in enumerate(value):
                yield from find_strings(item, (*path, index), include_all=include_all)


def find_keys_with_expressions(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of keys that look like expressions. Levelgate never evaluates keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        if isinstance(step, str) and "${" in step:
            yield (*path, step)
        yield from find_keys_with_expressions(item, (*path, step))


def _fill(value: Any, path: Path, values: Mapping[Path, Any]) -> Any:
    """Return a new copy of a template with `values` in its holes."""
    match value:
        case str():
            return values.get(path, value)
        case dict():
            items = ((key, _fill(item, (*path, str(key)), values)) for key, item in value.items())
            return {key: item for key, item in items if item is not OMIT}
        case list():
            elements = (_fill(item, (*path, index), values) for index, item in enumerate(value))
            return [item for item in elements if item is not OMIT]
    return value


def _compile_builder(value: Any, holes: Mapping[Path, _Hole]) -> Callable[[Mapping[str, Any], Meter], Any]:
    """Return the function that builds the finished value. The function spends units of an object's meter."""
    from renderer.cel.template_codegen import Composer

    composer = Composer()
    return composer.compile_function(_emit_value(value, (), holes, composer))


def _emit_value(value: Any, path: Path, holes: Mapping[Path, _Hole], composer: Composer) -> str:
    """Return Python source that builds a new copy of a value."""
    if path in holes:
        return composer.add_hole(holes[path].parts, binary=holes[path].binary)
    match value:
        case dict():
            return f"{{{', '.join(_emit_entry(key, item, path, holes, composer) for key, item in value.items())}}}"
        case list():
            items = (_emit_element(item, (*path, index), holes, composer) for index, item in enumerate(value))
            return f"[{', '.join(items)}]"
        case str() | int() | None:
            return repr(value)
        case float() if math.isfinite(value):
            return repr(value)
    return composer.add_constant(value)


def _emit_entry(key: Any, item: Any, path: Path, holes: Mapping[Path, _Hole], composer: Composer) -> str:
    place = (*path, str(key))
    return composer.emit_entry(key, _emit_value(item, place, holes, composer), may_omit=_may_omit(place, holes))


def _emit_element(item: Any, place: Path, holes: Mapping[Path, _Hole], composer: Composer) -> str:
    return composer.emit_element(_emit_value(item, place, holes, composer), may_omit=_may_omit(place, holes))


def _may_omit(path: Path, holes: Mapping[Path, _Hole]) -> bool:
    return path in holes and any("omit" in program.calls for program in holes[path].programs)
