"""CEL, the language inside `${...}`: compiles and evaluates expressions over plain JSON values.

    program = compile_expression("schema.spec.name + '-db'")
    program.evaluate({"schema": {"spec": {"name": "orders"}}})      # 'orders-db'

The language is CEL with the libraries of cel-go, Kubernetes and kro, configured as in kro. Evaluation is pure, because
an expression reads no clock, no random source and no input except its variables. A budget limits the work of an
evaluation and the size of its values.

Stages, one module each:

* `grammar`, `parser`, `macro_expansion`: text to tree
* `analysis`: names, paths, calls
* `codegen`: tree to fast Python
* `exact_evaluator`: errors with their cause
* `program`: both evaluators together, cached
* `to_json`: results to JSON

The compilation of the first expression imports Lark. Callers with an expression and values use `evaluate`. The module
`type_check` finds type mistakes before values exist, from the types that schemas declare. This package does not export
`type_check`, because importing `type_check` imports all stages.
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
