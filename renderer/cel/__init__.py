"""CEL, the language inside `${...}`: compiles and evaluates expressions over plain JSON values.

    program = compile_expression("schema.spec.name + '-db'")
    program.evaluate({"schema": {"spec": {"name": "orders"}}})      # 'orders-db'

The language is the CEL language definition with cel-go's and Kubernetes' libraries and kro's own, configured as in kro.
Evaluation is pure and bounded: it has no clock, no randomness, no input except the variables, and a budget for work and
size.

Stages, one module each:

* `grammar`, `parser`, `macro_expansion`: text to tree
* `analysis`: names, paths, calls
* `codegen`: tree to fast Python
* `exact_evaluator`: errors with their cause
* `program`: both evaluators together, cached
* `to_json`: results to JSON

Lark is imported when the first expression is compiled. Callers with an expression and values use `evaluate`. The module
`type_check` finds type mistakes before there are values, from the types that schemas declare. `type_check` needs all
stages, so this package does not export it.
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
