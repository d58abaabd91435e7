"""`propagateWhen`: what a gate may say, what it asks for, and every mistake with what would be valid (KREP-006; docs/rollouts.md)."""

from __future__ import annotations

from typing import Any

import pytest

from renderer.definition.compile import DefinitionErrors
from renderer.definition.gates import Gate
from tests.support.compiled_definitions import compiled, mistakes, resource, source
from tests.support.gated_definitions import chain, definition, text, workers


def across(expression: str) -> Gate:
    """A gate across the instances of App."""
    (gate,) = definition(across=[f"${{{expression}}}"]).gates
    return gate


def refused(expression: str) -> str:
    """What is wrong with a gate across the instances of App."""
    (found,) = mistakes(text(across=[f"${{{expression}}}"]))
    assert found.startswith(f"platform/db.yaml:14: spec.propagateWhen[0]: ${{{expression}}}: "), found
    return found.partition("}: ")[2]


# ---- scopes


def test_s1_1_s1_3_gates_stand_on_a_definition_and_on_a_resource() -> None:
    found = definition(*chain("a.ready()", "schema.spec.size > 1"), across=["${app.spec.size > 1}"])
    assert [(gate.path, gate.origin.line, gate.text) for gate in found.gates] == [
        ("spec.propagateWhen[0]", 14, "app.spec.size > 1"),
        ("spec.resources[1].propagateWhen[0]", 34, "a.ready()"),
        ("spec.resources[1].propagateWhen[1]", 35, "schema.spec.size > 1"),
    ]
    assert found.gates[0].origin.file == "platform/db.yaml"


def test_s1_6_an_empty_list_is_not_the_same_as_none() -> None:
    found = definition(resource("a", propagateWhen=[]), resource("b"), across=[])
    assert (found.propagate_when, [node.propagate_when for node in found.nodes]) == ((), [(), None])
    assert definition().propagate_when is None


@pytest.mark.parametrize(
    "expression",
    [
        "each.spec.size > 1",
        "app.metadata.labels['tier'] == 'canary'",
        "app.status.conditions.size() > 0",
        "apps.all(x, x.ready() && x.updated())",
        "apps.filter(x, x.ready())[0].settled()",
        "schema.spec.size > 1",
        "now > timestamp('2026-01-01T00:00:00Z')",
        "target.revision > 3 && target.commit != '' && target.message.contains('x') && target.author != ''",
        "target.trailers['Ticket'] == 'CHG-1'",
        "inWindow('dba') || external('budget')",
        "app.revision() > 2",
        "linearlyReady(each, apps, '25%') && exponentiallyReady(app, apps, 3)",
        "inFlight(apps) < 3 && settled(apps) > 1 && failed(apps) == 0",
        "cel.bind(ours, apps, ours.exists(x, x.settled()))",
        "apps.sortBy(x, x.metadata.name)[0].ready()",
    ],
)
def test_s1_36_what_a_gate_across_instances_may_read(expression: str) -> None:
    assert across(expression).text == expression


def test_s1_36_a_single_resource_reads_what_is_before_it() -> None:
    (gate,) = definition(*chain("a.ready() && a.data.name == schema.spec.name && inWindow('dba')")).gates
    assert (gate.names, gate.waits_for) == (frozenset({"a", "schema"}), frozenset({"a"}))


def test_s1_36_a_collection_reads_its_items_its_iterators_and_what_is_before_it() -> None:
    (gate,) = definition(
        resource("a"), workers("a.settled() && zone != 'x' && each.ready() && linearlyReady(each, workers)")
    ).gates
    assert (gate.names, gate.waits_for) == (frozenset({"a", "zone", "each"}), frozenset({"a"}))


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        ("c.ready()", "c is not a resource that this resource depends on; choose from a, now, schema, target"),
        ("c.metadata.name == 'x'", "c is not a resource that this resource depends on"),
        ("b.ready()", "b is this resource itself"),
        ("each.ready()", "'each' is not a variable of this gate"),
        (
            "linearlyReady(b, b)",
            "linearlyReady() needs a collection, and the resource is not a collection; remove the call",
        ),
        ("inFlight(a) < 1", "inFlight() needs a collection, and the resource is not a collection; remove the call"),
        ("app.ready()", "'app' is not a variable of this gate"),
        ("schema.spec.sze == 1", "no field 'sze' in schema.spec; did you mean 'size'?"),
        ("schema.ready()", "works on an item of a collection or on a resource; choose from a"),
    ],
)
def test_s1_36_s1_37_what_a_resource_may_not_read(gate: str, told: str) -> None:
    (found,) = mistakes(text(*chain(gate)))
    assert "platform/db.yaml:33: spec.resources[1].propagateWhen[0]: ${" in found
    assert told in found


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("nosuch.x == 1", "'nosuch' is not a variable of this gate; choose from app, apps, each, now, schema, target"),
        ("a.ready()", "'a' is not a variable of this gate"),
        ("apps.all(x, y.ready())", "'y' is not a variable of this gate"),
        ("app.spec.sze > 1", "no field 'sze' in app.spec; did you mean 'size'?"),
        ("target.revison == 1", "no field 'revison' in target; did you mean 'revision'?"),
        ("apps.ready()", "ready() works on one item; for all items write apps.all(x, x.ready())"),
        ("app.spec.ready()", "ready() works on an item of a collection"),
        ("apps.map(x, x.spec).all(x, x.ready())", "ready() works on an item of a collection"),
        ("app.ready(1)", "ready() takes no arguments"),
        ("app.redy()", "unknown method redy(); did you mean 'ready'?"),
        ("inWidow('x')", "unknown function inWidow(); did you mean 'inWindow'?"),
        ("sze(apps) > 1", "unknown function sze(); did you mean 'size'?"),
        ("inWindow(app.spec.name)", 'inWindow() takes the name of one window as a text, as in inWindow("name")'),
        ("inWindow('')", "inWindow() takes the name of one window as a text"),
        ("external('a', 'b')", "external() takes the name of one external fact as a text"),
        ("settled(apps)", "is an integer, where a boolean is needed"),
        ("now", "is a timestamp, where a boolean is needed"),
        ("omit()", "omit() is not allowed in this field"),
        ("runtime.newCondition({type: 'A', status: 'True'})", "runtime.newCondition() works in status.conditions only"),
        ("app.spec.", "the expression ends too early"),
    ],
)
def test_s1_37_what_a_gate_across_instances_may_not_say(expression: str, told: str) -> None:
    assert told in refused(expression)


@pytest.mark.parametrize(
    ("gates", "told"),
    [
        (["yes"], "is not an expression; write the value as ${...}"),
        ([True], "is not an expression; write the value as ${...}"),
        (["${true} "], "is not an expression"),
        ("${true}", "must be a list of expressions; [] means no gate"),
    ],
)
def test_what_is_no_list_of_gates(gates: Any, told: str) -> None:
    (found,) = mistakes(source(resource("a", propagateWhen=gates)))
    assert told in found


def test_mistakes_of_gates_and_of_others_are_told_together() -> None:
    assert len(mistakes(text(*chain("nosuch.x", "inWidow('x')"), resource("z", data="${nosuch}")))) == 3


def test_what_is_only_read_has_no_gate() -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    node = {"id": "found", "externalRef": reference, "propagateWhen": ["${true}"]}
    (found,) = mistakes(text(resource("a"), node))
    assert "propagateWhen: cannot be combined with externalRef" in found


def test_gates_see_no_data_of_secrets() -> None:
    secret = resource("a")
    secret["template"] |= {"kind": "Secret"}
    (found,) = mistakes(text(secret, *chain("a.data.password == 'x'")[1:]))
    assert "gates cannot read the data of Secrets; read other fields of the Secret a" in found
    assert definition(secret, *chain("a.metadata.name == 'x'")[1:]).gates


def test_a_kind_whose_name_is_taken_is_called_each() -> None:
    """`target` is what the instance would move to, also where the kind is Target."""
    written = text(across=["${target.revision > 1 && each.spec.size > 1}"]).replace("kind: App", "kind: Target")
    (gate,) = compiled(written).gates
    assert gate.scope.items == {"each"}


# ---- rates


@pytest.mark.parametrize(
    ("expression", "rate"),
    [
        ("linearlyReady(each, apps)", "linear 1"),
        ("linearlyReady(each, apps, 3)", "linear 3"),
        ("linearlyReady(app, apps, '25%')", "linear 25%"),
        ("exponentiallyReady(each, apps)", "exponential 2"),
        ("exponentiallyReady(each, apps, 5)", "exponential 5"),
    ],
)
def test_s1_9_s1_17_s1_18_rates_and_their_defaults(expression: str, rate: str) -> None:
    gate = across(expression)
    assert (str(gate.pace_call), gate.sets_pace) == (rate, True)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("linearlyReady(each, apps, 0)", 'n must be a whole number of at least 1, or a share from "1%" to "100%"'),
        ("linearlyReady(each, apps, -1)", "n must be a whole number of at least 1"),
        ("linearlyReady(each, apps, '0%')", "n must be a whole number of at least 1"),
        ("linearlyReady(each, apps, '101%')", "n must be a whole number of at least 1"),
        ("linearlyReady(each, apps, 1.5)", "n must be a whole number of at least 1"),
        ("linearlyReady(each, apps, true)", "n must be a whole number of at least 1"),
        ("linearlyReady(each, apps, app.spec.size)", "n must be a whole number of at least 1"),
        ("exponentiallyReady(each, apps, 1)", "the factor must be a whole number of at least 2"),
        ("exponentiallyReady(each, apps, '50%')", "the factor must be a whole number of at least 2"),
        ("exponentiallyReady(each, apps, 2, 2)", "exponentiallyReady() takes two or three arguments, not 4"),
        ("linearlyReady(apps, each)", "write linearlyReady(each, apps)"),
        ("linearlyReady(each)", "write linearlyReady(each, apps)"),
        ("apps.all(x, linearlyReady(x, apps))", "write linearlyReady(each, apps)"),
        ("apps.all(each, linearlyReady(each, apps))", "write linearlyReady(each, apps)"),
        ("inFlight(app) < 1", "inFlight() works only on the collection of the gate; write inFlight(apps)"),
        (
            "settled(apps.filter(x, x.ready())) < 1",
            "settled() works only on the collection of the gate; write settled(apps)",
        ),
    ],
)
def test_s1_17_s1_18_rates_that_cannot_be(expression: str, told: str) -> None:
    assert told in refused(expression)


# ---- what a gate asks for


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("linearlyReady(each, apps)", True),
        ("exponentiallyReady(each, apps) || app.spec.size > 1", True),
        ("inFlight(apps) < 3", True),
        ("settled(apps) > 3", True),
        ("failed(apps) == 0", False),
        ("app.settled()", False),
        ("inWindow('dba')", False),
    ],
)
def test_which_gates_set_the_pace(expression: str, expected: bool) -> None:
    assert across(expression).sets_pace is expected


def test_only_a_rate_alone_is_a_shape() -> None:
    assert across("linearlyReady(each, apps) && inWindow('dba')").pace_call is None
    assert across("!linearlyReady(each, apps)").pace_call is None


def test_what_a_gate_asks_for_is_known() -> None:
    gate = across("inWindow('a') && (inWindow('b') || !inWindow('c')) && external('e') && external('f')")
    assert (gate.windows, gate.needed_windows) == (frozenset({"a", "b", "c"}), frozenset({"a"}))
    assert gate.externals == {"e", "f"}
    assert across("inWindow('a')").needed_windows == {"a"}
    assert across("!inWindow('a')").needed_windows == set()


def test_a_name_of_a_window_in_a_text_is_no_window() -> None:
    assert across("app.spec.name == 'inWindow(\"a\")'").windows == set()


def test_s1_13_a_gate_that_reads_the_time_says_so() -> None:
    assert across("now.getHours() < 5").reads_time
    assert not across("inWindow('dba')").reads_time
    assert not across("apps.all(now, now.ready())").reads_time, "a variable of its own"


def test_s1_14_what_does_not_mention_the_item_is_found() -> None:
    """Once for each pass, not once for each item: as large a part as possible, and nothing that varies."""
    gate = across("app.spec.size > 1 || apps.filter(x, x.ready()).size() * 2 >= apps.size()")
    assert [program.tree.at for program in gate.fixed_programs.values()] == [gate.text.index("apps.filter")]
    assert "apps" not in gate.reduced_program.names
    assert len(across("apps.exists(x, x.spec.name == app.spec.name && apps.size() > 3)").fixed_programs) == 1
    assert across("apps.exists(x, x.spec.name == app.spec.name)").fixed_programs == {}
    assert across("inWindow('a') && apps.size() > 3").is_fixed


def test_s1_14_counters_need_no_list() -> None:
    assert not across("inFlight(apps) < 3 && linearlyReady(each, apps)").reads_collection
    assert across("apps.size() > 3").reads_collection


def test_a_definition_with_a_wrong_gate_does_not_build() -> None:
    with pytest.raises(DefinitionErrors):
        definition(across=["${nosuch}"])
