"""CEL, the language inside `${...}`: compiles and evaluates expressions over plain JSON values.

    program = compile_expression("schema.spec.name + '-db'")
    program.evaluate({"schema": {"spec": {"name": "orders"}}})      # 'orders-db'

The language is the CEL language definition with cel-go's and Kubernetes' libraries and kro's own, as kro sets it
up. Evaluation is pure and bounded: no clock, no randomness, no input but the variables, and a budget for work and
size.

Stages, one module each: grammar, parser and expand (text to tree), analysis (names, paths, calls), generate (tree to
fast Python), explain (the exact evaluator), program (both together, cached), conversion (results to JSON). Lark is
imported when the first expression is compiled.

`entry.evaluate` is for callers who have an expression and values. `check.check` finds mistakes of type before there are
values, against `types` that schemas declare; it is imported from there, since it needs all stages.
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
