"""Whatever stands in a file, the language answers with problems: never a traceback, never without an end.

The whole path is gone: files, catalog, rendering, lint, and what is generated from definitions.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderer.catalog.catalog import load
from renderer.cel import budget
from renderer.export.example import build_example
from renderer.export.lint import LintFinding
from renderer.render.model import Rendering
from renderer.schema import validate
from tests.support.effort import bounded
from tests.support.properties.examples import examples
from tests.support.properties.language import INNER, INSTANCE, RICH, TEXT, bomb, doubled, go_through
from tests.support.properties.oddities import ODD, bent, places
from tests.support.properties.repositories import config_map, definition, instance, widget

CALLS = 20_000_000
"""What one set of files may take, however hostile: what costs most takes a quarter of it."""
MEMORY = 400 << 20


def gone_through(files: Mapping[str, bytes]) -> tuple[Rendering, list[LintFinding]]:
    """Everything that is made from files, with so much work and memory that nobody complains of it."""
    with bounded(calls=CALLS, memory=MEMORY):
        return go_through(files)


def test_what_is_bent_below_is_fine_as_it_is() -> None:
    bundle, findings = gone_through({"a.yaml": TEXT.encode()})
    assert [str(one) for one in findings if one.severity == "error"] == []
    assert len(bundle.instances) == 2


BENDS = [(index, path) for index, value in enumerate([RICH, INNER, INSTANCE]) for path in places(value)]
WORDS = [
    *ODD,
    *("${schema.spec}", "${many}", "${n}", "${each.x}", "${omit()}", "${found[0].data.x}", "${web.status.x}", "a|b"),
    *("string | default", "[]integer | default=[1]", "Name", "map[string]Name", "integer | enum=1,2", ["${many[9]}"]),
    *(
        [{"n": "${many.map(m, m.metadata.name)}"}],
        [{"n": "${lists.range(2000)}"}],
        {"${a}": "${b}"},
        10**30,
        float("1e308"),
    ),
]


@examples(300)
@given(st.lists(st.tuples(st.sampled_from(BENDS), st.sampled_from([..., *WORDS])), min_size=1, max_size=3))
def test_odd_values_anywhere_in_a_definition_are_problems(bends: list[tuple[tuple[int, tuple[Any, ...]], Any]]) -> None:
    values = [RICH, INNER, INSTANCE]
    for (index, path), odd in bends:
        if path in places(values[index]):
            values[index] = bent(values[index], path, odd)
    files = {f"{index}.json": json.dumps(value).encode() for index, value in enumerate(values)}
    gone_through(files)


@examples(150)
@given(st.integers(0, 2**32))
def test_files_that_were_damaged_are_problems(seed: int) -> None:
    """Pieces of the text are cut out, doubled, exchanged, or replaced by signs that mean something in YAML or CEL."""
    dice, text = random.Random(seed), TEXT
    for _ in range(dice.randint(1, 6)):
        start = dice.randrange(len(text))
        end = min(len(text), start + dice.choice([1, 1, 3, 20, 200]))
        piece = dice.choice(
            ["", text[start:end] * 2, *"${}[]|:&*!#'\"\n\t-", "${", "}}", ": ", "- ", "\u2028", "*a", "&a "]
        )
        text = text[:start] + piece + text[end:]
    gone_through({"a.yaml": text.encode()})


@examples(100)
@given(st.binary(max_size=200))
def test_bytes_are_problems(data: bytes) -> None:
    gone_through({"a.yaml": data, "b.yaml": TEXT.encode()})


@pytest.mark.parametrize(
    "text",
    [
        bomb(9),
        "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: " + "[" * 5000 + "]" * 5000,
        "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: " + "{a: " * 3000 + "}" * 3000,
        "apiVersion: v1\nkind: List\nitems:\n" + "- {}\n" * 50_000,
        "a: &a {b: *a}",
        "<<: [&a {b: 1}, *a]\n" * 500,
    ],
    ids=["alias bomb", "deep list", "deep map", "long list", "an alias to itself", "merge keys"],
)
def test_files_that_would_grow_are_refused(text: str) -> None:
    _, findings = gone_through({"a.yaml": text.encode()})
    assert findings


CUBIC = "lists.range(2000).all(a, " * 3 + "a >= 0" + ")" * 3
NUMBERS = [{"n": "${lists.range(1000)}"}]


def chained(value: Any, step: str) -> list[dict[str, Any]]:
    """Nodes, each of which makes more of what the one before it has."""
    found = [widget("n0")]
    found[0]["template"]["data"] = {"value": value}
    for index in range(1, 40):
        found.append(widget(f"n{index}"))
        found[index]["template"]["data"] = {"value": step.replace("LAST", f"n{index - 1}.data.value")}
    return found


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"leaf": "${schema.spec.text}"}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("resources", "schema"),
    [
        ([{**config_map("a"), "template": {**config_map("a")["template"], "data": nested(70)}}], {}),
        ([{**config_map("a"), "template": {**config_map("a")["template"], "data": nested(95)}}], {}),
        ([config_map(f"n{index}") for index in range(2000)], {}),
        ([config_map(f"n{index}", *([f"n{index - 1}"] if index else [])) for index in range(800)], {}),
        (
            [config_map("a")],
            {"types": {f"T{n}": {f"f{m}": f"T{n + 1}" for m in range(9)} for n in range(9)} | {"T9": "string"}},
        ),
        ([config_map("a")], {"spec": {"text": "string", **{f"f{n}": "string" for n in range(5000)}}}),
        ([config_map("a")], {"spec": {"text": "string", "on": "[]" * 40 + "string"}}),
        ([config_map("a")], {"spec": {"text": "string", "deep": nested(90)}}),
        ([config_map("a", includeWhen=["${" + "(" * 500 + "true" + ")" * 500 + "}"])], {}),
        ([config_map("a", includeWhen=["${" + " && ".join(["schema.spec.on"] * 3000) + "}"])], {}),
        ([config_map("a", name="${'a'.matches('(a+)+$') ? 'x' : 'y'}")], {}),
        ([config_map("a", name="${" + doubled(40) + "}")], {}),
        ([config_map("a", includeWhen=[f"${{{CUBIC}}}"])], {}),
        (chained("a" * 16, "${LAST + LAST}"), {}),
        (chained(["a"], "${LAST + LAST}"), {}),
        (chained(["a"], "${[LAST, LAST]}"), {}),
    ],
    ids=[
        *("deep template", "too deep template", "many resources", "long chain", "types that explode", "many fields"),
        *("deep type", "deep schema", "deep expression", "long expression", "backtracking", "doubling", "cubic loop"),
        *("text doubled by nodes", "list doubled by nodes", "lists nested by nodes"),
    ],
)
def test_definitions_that_would_grow_end(resources: list[dict[str, Any]], schema: dict[str, Any]) -> None:
    files = {"d.json": definition("Link", resources, **schema), "x.json": instance("Link", "x")}
    gone_through({name: text.encode() for name, text in files.items()})


@pytest.mark.parametrize(
    ("resources", "schema"),
    [
        ([config_map("many", name=f"${{string({CUBIC})}}-${{string(n)}}", forEach=NUMBERS)], {}),
        ([config_map(f"a{index}", name=f"${{string({CUBIC})}}-{index}") for index in range(500)], {}),
        ([config_map("a", includeWhen=[f"${{{CUBIC} || {index} > 0}}" for index in range(500)])], {}),
        (
            [config_map("a")],
            {"status": {f"s{index}": f"${{schema.metadata.name + string({CUBIC})}}" for index in range(500)}},
        ),
        ([config_map(f"c{index}", name=f"c{index}-${{string(n)}}", forEach=NUMBERS) for index in range(500)], {}),
        ([config_map("many", name="${" + doubled(20) + "}-${string(n)}", forEach=NUMBERS)], {}),
    ],
    ids=[
        *("loop in each item", "loop in each resource", "conditions", "status", "many items", "long text in each item"),
    ],
)
def test_expressions_that_would_work_for_long_end(
    monkeypatch: pytest.MonkeyPatch, resources: list[dict[str, Any]], schema: dict[str, Any]
) -> None:
    """Each keeps to its own budget; it is that of the instance that ends them all, here a tenth of it."""
    monkeypatch.setattr(budget, "INSTANCE_UNITS", budget.INSTANCE_UNITS // 10)
    files = {"d.json": definition("Link", resources, **schema), "x.json": instance("Link", "x")}
    gone_through({name: text.encode() for name, text in files.items()})


@examples(30)
@given(st.permutations([RICH, INNER, INSTANCE, json.loads(instance("Link", "y")), json.loads(instance("Inner", "z"))]))
def test_the_order_of_files_does_not_matter(values: list[dict[str, Any]]) -> None:
    def found(listed: list[dict[str, Any]]) -> tuple[Any, ...]:
        files = {f"{one['kind']}-{one['metadata']['name']}.json": json.dumps(one).encode() for one in listed}
        bundle, findings = gone_through(files)
        return [
            (key, [(node.id, node.level, node.manifest) for node in one.nodes]) for key, one in bundle.instances.items()
        ], findings

    assert found(values) == found(sorted(values, key=json.dumps))


@examples(60)
@given(st.sampled_from([RICH, INNER]))
def test_examples_fit_their_schemas(value: dict[str, Any]) -> None:
    (one,) = load({"a.json": json.dumps(value).encode()}).definitions.values()
    assert validate(one.spec_schema, build_example(one)["spec"]) == []
