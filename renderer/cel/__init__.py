"""CEL, the language inside `${...}`: compiles and evaluates expressions over plain JSON values.

    program = compile_expression("schema.spec.name + '-db'")
    program.evaluate({"schema": {"spec": {"name": "orders"}}})      # 'orders-db'

The language is the CEL language definition with cel-go's and Kubernetes' libraries and kro's own, as kro sets it
up. Evaluation is pure and bounded: no clock, no randomness, no input but the variables, and a budget for work and
size.

Stages, one module each: `grammar`, `parser` and `macro_expansion` (text to tree), `analysis` (names, paths, calls),
`codegen` (tree to fast Python), `exact_evaluator` (errors with their cause), `program` (both together, cached), `to_json`
(results to JSON). Lark is imported when the first expression is compiled.

`evaluate` is for callers who have an expression and values. The module `type_check` finds mistakes of type before there
are values, against the types that schemas declare. Import it from there, since it needs all stages.
"""

from __future__ import annotations

from renderer.cel.budget import Meter
from renderer.cel.errors import BudgetExceeded, NoSuchKey
from renderer.cel.evaluate import evaluate
from renderer.cel.program import Program, compile_expression
from renderer.cel.to_json import to_json
from renderer.cel.values import NONE, OMIT, Optional, TypeValue, UInt, type_name

__all__ = [
    "NONE",
    "OMIT",
    "BudgetExceeded",
    "Meter",
    "NoSuchKey",
    "Optional",
    "Program",
    "TypeValue",
    "UInt",
    "compile_expression",
    "evaluate",
    "to_json",
    "type_name",
]
