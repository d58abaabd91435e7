"""Compiled expressions, and their cache.

Evaluation has two speeds. Generated Python runs first and stops at the first exception. After an exception the exact
evaluator runs. The exact evaluator either returns a value, as for `error || true`, or raises an error that contains the
cause. CEL has no side effects, so evaluating twice is safe.

The first use of each stage imports the stage, so that commands that evaluate nothing start faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, final

from renderer.cel.budget import Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.errors import ExpressionError

if TYPE_CHECKING:
    from renderer.cel.analysis import ExpressionFacts
    from renderer.cel.codegen import CodeBuilder
    from renderer.cel.syntax_tree import SyntaxNode


@final
class Program:
    """A parsed expression that a caller can evaluate.

    A program of `compile_expression` calls only existing functions.

    Attributes:
        names: The variables of the expression.
        reads: Paths such as `("deployment", "status", "conditions", "[0]", "type")`, as in `ExpressionFacts`.
        optional_reads: Paths whose data may be missing, as in `ExpressionFacts`.
        calls: Full names of functions (`json.marshal`, `omit`) and plain names of methods (`orValue`).
        mistake: The error of the first call that fails for all data, as in `ExpressionFacts`.
    """

    __slots__ = ("_fast", "calls", "mistake", "names", "optional_reads", "reads", "text", "tree")

    def __init__(self, text: str, tree: SyntaxNode, facts: ExpressionFacts) -> None:
        self.text = text
        self.tree = tree
        self.names, self.reads, self.optional_reads = facts.names, facts.reads, facts.optional_reads
        self.calls, self.mistake = facts.calls, facts.mistake
        self._fast: Callable[[Mapping[str, Any], Meter], Any] | None = None

    def evaluate(self, variables: Mapping[str, Any], meter: Meter | None = None) -> Any:
        """Return the value of the expression.

        The value has a type that the module `values` lists. The value may share lists and maps with `variables`.

        Args:
            meter: Meter of the object or instance that contains the expression.

        Raises: ExpressionError, often its subclass NoSuchKey or BudgetExceeded.
        """
        try:
            return (self._fast or self._generate())(variables, meter or Meter())
        except BudgetError as fault:
            raise fault.as_error(self.text) from None
        except Exception:
            return self.evaluate_exactly(variables, meter and meter.renew())

    def evaluate_exactly(self, variables: Mapping[str, Any], meter: Meter | None = None) -> Any:
        """Return the same value as `evaluate`, computed by the exact evaluator alone.

        If an error is likely, this method is faster than `evaluate`.

        Raises: ExpressionError if the evaluation fails.
        """
        from renderer.cel.exact_evaluator import evaluate_exactly

        try:
            return evaluate_exactly(self.text, self.tree, variables, meter or Meter())
        except EvaluationError as fault:
            raise fault.as_error(self.text) from None
        except RecursionError:
            raise ExpressionError(
                self.text, "the expression or its data are nested too deeply; use fewer levels"
            ) from None
        except UnicodeEncodeError:
            raise ExpressionError(
                self.text, "a text contains half of a surrogate pair, which is not a character; correct the text"
            ) from None
        except MemoryError:
            raise ExpressionError(
                self.text, "the expression needs too much memory; use smaller lists, maps or texts"
            ) from None
        except Exception as error:
            raise ExpressionError(self.text, f"cannot be evaluated: {type(error).__name__}: {error}") from error

    def _generate(self) -> Callable[[Mapping[str, Any], Meter], Any]:
        from renderer.cel.codegen import CodeBuilder

        source = CodeBuilder()
        self._fast = source.compile_function(f" return {emit_source(self, source)}")
        return self._fast

    def __repr__(self) -> str:
        return f"Program({self.text!r})"


def emit_source(program: Program, source: CodeBuilder) -> str:
    """Return Python source for the value of `program`, as part of a function that `source` compiles."""
    from renderer.cel.codegen import MAX_DEPTH
    from renderer.cel.exact_evaluator import evaluate_exactly

    if program.tree.depth <= MAX_DEPTH and program.mistake is None:
        return source.emit_expression(program.tree)
    text, tree = program.text, program.tree
    return f"{source.add_constant(lambda variables, meter: evaluate_exactly(text, tree, variables, meter))}(v, m)"


def compile_expression(text: str) -> Program:
    """Return the program of the expression `text`. Raises: ExpressionError with the column of the mistake.

    The function caches programs and mistakes by text.

    Args:
        text: The expression without `${` and `}`.
    """
    program = parse_program(text)
    if program.mistake:
        raise program.mistake.as_error(text)
    return program


def parse_program(text: str) -> Program:
    """Return the program of `text` as `compile_expression` does, but accept calls of unknown functions.

    The evaluation of a call of an unknown function fails. Raises: ExpressionError if `text` does not parse.
    """
    result = _parse_cached(text)
    if isinstance(result, Program):
        return result
    raise result.as_error(text)


@lru_cache(maxsize=16_384)
def _parse_cached(text: str) -> Program | EvaluationError:
    from renderer.cel.analysis import analyse
    from renderer.cel.parser import parse

    try:
        tree = parse(text)
    except EvaluationError as fault:
        return fault.with_traceback(None)
    return Program(text, tree, analyse(tree))
