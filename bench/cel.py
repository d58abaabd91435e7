"""CEL engines as ratios in one run: the compiler of Levelgate, the interpreter of celpy, and Google's C++ engine.

The bench compiles expressions beforehand. A time is the time of one evaluation with fresh input. The time includes the
conversion of the input and of the result, because a caller has plain Python values and needs one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import celpy
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from renderer.cel import compile_expression, evaluate

SHAPES = {
    "field select": "schema.spec.name",
    "concatenation of 5": "schema.spec.name + '-' + schema.metadata.namespace + '.' + schema.spec.zone",
    "arithmetic": "schema.spec.replicas * 2 + schema.spec.extra - 1",
    "ternary": "schema.spec.replicas > 2 ? 'large' : 'small'",
    "has && has && bool": "has(schema.spec.ingress) && has(schema.spec.ingress.host) && schema.spec.ingress.enabled",
    "map to objects, 10 items": "schema.spec.env.map(e, {'name': e.name, 'value': e.value})",
    "filter + map": "schema.spec.env.filter(e, e.public).map(e, e.name)",
    "readyWhen": "deployment.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')"
    " && deployment.status.readyReplicas == deployment.spec.replicas"
    " && deployment.status.observedGeneration == deployment.metadata.generation"
    " && service.spec.clusterIP != ''",
    "all, 10 items": "schema.spec.env.all(e, e.name.startsWith('VAR_'))",
}
ROUNDS = 5
SECONDS = 0.1
"""Seconds for which the bench measures each engine, for each shape and round."""


def main() -> None:
    values = variables()
    print(
        f"\n{'CEL, microseconds each':<26} {'levelgate':>10} {'evaluate()':>11} {'cel-expr':>10} {'celpy':>10} {'x':>7} {'x':>7}"
    )
    ratios: list[tuple[float, float]] = []
    for label, text in SHAPES.items():
        compiled, entry, google, stock = (
            min(each(run) for _ in range(ROUNDS))
            for run in (ours(text, values), entry_point(text, values), theirs(text, values), celpys(text, values))
        )
        ratios.append((stock / entry, google / entry))
        numbers = f"{compiled:>10.2f} {entry:>11.2f} {google:>10.2f} {stock:>10.2f}"
        print(f"{label:<26} {numbers} {google / entry:>7.1f} {stock / entry:>7.0f}")
    against_stock, against_google = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(f"{'median, evaluate()':<26} {'':>43} {against_google:>8.1f} {against_stock:>7.0f}")


def each(run: Callable[[], Any]) -> float:
    """Return the time of one call in microseconds."""
    run()
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < SECONDS:
        for _ in range(20):
            run()
        calls += 20
    return elapsed / calls * 1e6


def ours(text: str, values: dict[str, Any]) -> Callable[[], Any]:
    program = compile_expression(text)
    return lambda: program.evaluate(values)


def entry_point(text: str, values: dict[str, Any]) -> Callable[[], Any]:
    return lambda: evaluate(text, values)


def theirs(text: str, values: dict[str, Any]) -> Callable[[], Any]:
    environment = cel.NewEnv(
        variables=dict.fromkeys(values, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    )
    expression = environment.compile(text)
    return lambda: expression.eval(data=values).plain_value()


def celpys(text: str, values: dict[str, Any]) -> Callable[[], Any]:
    environment = celpy.Environment(runner_class=celpy.InterpretedRunner)
    program = environment.program(environment.compile(text))
    return lambda: program.evaluate({name: celpy.json_to_cel(value) for name, value in values.items()})


def variables() -> dict[str, Any]:
    """Return an instance and two live objects, as they are in a cluster."""
    env = [{"name": f"VAR_{number}", "value": str(number), "public": number % 2 == 0} for number in range(10)]
    spec = {
        "name": "orders",
        "zone": "eu-1",
        "replicas": 3,
        "extra": 4,
        "ingress": {"host": "orders.example.com", "enabled": True},
        "env": env,
    }
    fields: dict[str, Any] = {
        f"f:{name}": {} for name in ("image", "name", "resources", "ports", "env", "args", "command")
    }
    managed = [
        {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}}
        for manager in ("levelgate", "kube-controller-manager")
    ]
    conditions = [{"type": kind, "status": "True", "reason": "Ok"} for kind in ("Progressing", "Available")]
    metadata = {"name": "orders", "namespace": "shop", "generation": 4, "labels": {"app": "orders"}}
    template = {"spec": {"containers": [{"name": "app", "image": "orders:1", "env": env}]}}
    return {
        "schema": {"metadata": metadata, "spec": spec},
        "deployment": {
            "metadata": {**metadata, "managedFields": managed},
            "spec": {"replicas": 3, "template": template},
            "status": {"readyReplicas": 3, "observedGeneration": 4, "conditions": conditions},
        },
        "service": {"metadata": {**metadata, "managedFields": managed}, "spec": {"clusterIP": "10.0.0.1"}},
    }


if __name__ == "__main__":
    main()
