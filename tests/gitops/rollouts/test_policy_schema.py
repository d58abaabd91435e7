"""Forms of the fields of a `PropagationPolicy`: which values the schema accepts, and what it says of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import pytest

from gitops.rollouts.policy import Policy
from gitops.rollouts.policy_schema import SPEC
from renderer.schema.validation import validate


def mistakes(spec: Any) -> list[str]:
    return [f"{mistake.path}: {mistake.message}" for mistake in validate(SPEC, spec)]


def at(path: str, value: Any) -> dict[str, Any]:
    """Return a spec with `value` at `path`, in which a number is the index 0 of a list."""
    for step in reversed(path.split(".")):
        value = [value] if step == "0" else {step: value}
    found: dict[str, Any] = value
    return found


def closed_forms(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the schema of each object in `schema` whose fields the schema lists."""
    if "properties" in schema:
        yield path, schema
        for name, part in schema["properties"].items():
            yield from closed_forms(part, f"{path}.{name}" if path else name)
    if schema.get("type") == "array":
        yield from closed_forms(schema["items"], f"{path}.0")


def words_in(schema: Any) -> Iterator[Any]:
    """Yield every key and every value of `schema` that contains no further values."""
    if isinstance(schema, Mapping):
        yield from schema
        schema = schema.values()
    elif not isinstance(schema, list):
        yield schema
        return
    for part in schema:
        yield from words_in(part)


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_the_fields_of_the_spec_are_those_of_a_policy() -> None:
    """The name and the place in Git stand outside of the spec."""
    assert SPEC["properties"].keys() == {camel_case(part.name) for part in fields(Policy)} - {"name", "origin"}


def test_the_schema_is_plain_json() -> None:
    """The definition of the kind and the editor's schema contain it; a member of an enum is no plain text."""
    assert {type(word) for word in words_in(SPEC)} <= {str, int, bool}


def test_a_spec_without_fields_is_accepted() -> None:
    assert mistakes({}) == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("governs", "Revisions, All"),
        ("barrier", "Path, Level, All"),
        ("mode", "Batch, Sliding"),
        ("onHalt", "Stop, ProposeRevert, RollBack"),
        ("order", "Stable, ShufflePerRevision"),
        ("newInstances", "LastCompleted, Latest"),
        ("onNewRevision", "Supersede, Finish, Pipeline"),
        ("windows.defaultWhenNoWindow", "Open, Closed"),
        ("windows.expiredAllow", "Open, Closed"),
    ],
)
def test_a_choice_accepts_exactly_its_words(path: str, words: str) -> None:
    for word in words.split(", "):
        assert mistakes(at(path, word)) == []
    assert mistakes(at(path, "q")) == [f"{path}: 'q' is not one of {words}"]
    assert mistakes(at(path, words.partition(",")[0].lower())) != [], "the case of the letters counts"


def test_the_severity_of_a_violated_availability_is_a_choice() -> None:
    available = {"atLeast": "4h", "per": "1d"}
    for word in ("Warn", "Reject"):
        assert mistakes(at("windows.availability", {**available, "onViolation": word})) == []
    assert mistakes(at("windows.availability", {**available, "onViolation": "q"})) == [
        "windows.availability.onViolation: 'q' is not one of Warn, Reject"
    ]


@pytest.mark.parametrize(
    ("path", "minimum"),
    [
        ("maxFlaps", 0),
        ("pipelineMax", 1),
        ("shape.exponential.factor", 2),
        ("rollback.shape.exponential.factor", 2),
        ("approvals.0.after.settled", 1),
    ],
)
def test_a_number_has_a_minimum_and_no_maximum(path: str, minimum: int) -> None:
    assert mistakes(at(path, minimum)) == mistakes(at(path, 10**9)) == []
    shown = path.replace(".0", "[0]")
    assert mistakes(at(path, minimum - 1)) == [f"{shown}: {minimum - 1} is below the minimum {minimum}"]
    assert mistakes(at(path, str(minimum))) == [
        f"{shown}: '{minimum}' is not a whole number; write it without quotes",
    ]


AMOUNTS = ("maxFailures", "minAvailable", "shape.linear.n", "rollback.shape.linear.n")


@pytest.mark.parametrize("path", AMOUNTS)
@pytest.mark.parametrize("value", [0, -1, 3, "25%", "ten", ""])
def test_an_amount_is_a_whole_number_or_any_text(path: str, value: int | str) -> None:
    """The reader of policies decides which texts are percentages, and which numbers are too small."""
    assert mistakes(at(path, value)) == []


@pytest.mark.parametrize("path", AMOUNTS)
@pytest.mark.parametrize(("value", "shown"), [(1.5, "1.5"), (True, "true"), ([1], "[1]")])
def test_an_amount_is_nothing_else(path: str, value: object, shown: str) -> None:
    assert mistakes(at(path, value)) == [f"{path}: {shown} is neither a whole number nor text"]


@pytest.mark.parametrize("path", ["bake", "progressDeadline", "maxHold"])
def test_a_duration_is_text(path: str) -> None:
    """The reader of policies decides which texts are durations."""
    assert mistakes(at(path, "5m")) == mistakes(at(path, "soon")) == []
    assert mistakes(at(path, 300)) == [f"{path}: 300 is not text; put it in quotes"]
    assert mistakes(at(path, None)) == [f"{path}: null, where text is expected; remove the field or write a value"]


@pytest.mark.parametrize("path", ["rollback.skipBake", "rollback.ignoreApprovals"])
def test_a_flag_is_true_or_false(path: str) -> None:
    assert mistakes(at(path, True)) == mistakes(at(path, False)) == []
    assert mistakes(at(path, "true")) == [f"{path}: 'true' is not true or false; write it without quotes"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (at("waves.0", {}), "waves[0].name: is required and not given"),
        (at("approvals.0", {"by": ["leads"]}), "approvals[0].after: is required and not given"),
        (at("windows.availability", {"per": "1d"}), "windows.availability.atLeast: is required and not given"),
        (at("windows.availability", {"atLeast": "1h"}), "windows.availability.per: is required and not given"),
    ],
)
def test_a_part_that_means_nothing_without_a_field_requires_it(spec: dict[str, Any], expected: str) -> None:
    assert mistakes(spec) == [expected]


def test_no_other_field_is_required() -> None:
    """Everything else has a default; the requirements of a label selector are those of Kubernetes."""
    required = {path: schema["required"] for path, schema in closed_forms(SPEC) if schema.get("required")}
    assert {path: names for path, names in required.items() if "matchExpressions" not in path} == {
        "waves.0": ["name"],
        "approvals.0": ["after"],
        "windows.availability": ["atLeast", "per"],
    }


@pytest.mark.parametrize("path", dict(closed_forms(SPEC)))
def test_no_part_accepts_a_field_that_it_does_not_list(path: str) -> None:
    """The API server would drop the field silently, and the policy would do something else than its author means."""
    shown = f"{path.replace('.0', '[0]')}.nonsense".removeprefix(".")
    found = mistakes(at(f"{path}.nonsense".removeprefix("."), 1))
    assert [text for text in found if text.startswith(f"{shown}: no field 'nonsense'; the fields are ")]


def test_a_misspelt_field_is_suggested() -> None:
    assert mistakes({"maxFailure": 1}) == ["maxFailure: no field 'maxFailure'; did you mean 'maxFailures'?"]


def test_a_selector_names_at_least_one_definition() -> None:
    """Without `rgds` the selector selects all definitions; an empty list would look like none."""
    assert mistakes({"selector": {}}) == []
    assert mistakes({"selector": {"rgds": ["web*"]}}) == []
    assert mistakes({"selector": {"rgds": []}}) == ["selector.rgds: has 0 items, but must have at least 1"]


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        (at("selector.rgds", [""]), "selector.rgds[0]"),
        (at("waves.0", {"name": "a", "windows": [""]}), "waves[0].windows[0]"),
        (at("approvals.0", {"after": {}, "by": ["leads", ""]}), "approvals[0].by[1]"),
    ],
)
def test_a_name_in_a_list_is_not_empty(spec: dict[str, Any], place: str) -> None:
    assert mistakes(spec) == [f"{place}: has 0 characters, but must have at least 1"]


@pytest.mark.parametrize("spec", [at("waves", []), at("approvals", []), at("waves.0", {"name": "a", "windows": []})])
def test_other_lists_may_be_empty(spec: dict[str, Any]) -> None:
    assert mistakes(spec) == []


def test_all_mistakes_are_reported_in_the_order_of_the_spec() -> None:
    assert mistakes({"mode": "q", "bake": 1, "waves": [{"name": "a"}, {"name": 7}]}) == [
        "mode: 'q' is not one of Batch, Sliding",
        "bake: 1 is not text; put it in quotes",
        "waves[1].name: 7 is not text; put it in quotes",
    ]
