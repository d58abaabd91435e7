"""What holds for all objects, without a server to compare with."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from applier.sandbox.merge import (
    DEDUCED,
    ApplyConflicts,
    FieldManager,
    TypeMismatchError,
    apply,
    track_update,
    type_of_schema,
)
from renderer import builtin_kinds
from tests.support.conformance import merge_schema as things

Json = dict[str, Any]

THING = type_of_schema(things.SCHEMA, crd=True, definitions=builtin_kinds.load_builtin_schemas().definitions)
VERSION = f"{things.GROUP}/v1"
objects = st.builds(
    lambda metadata, spec: {
        "apiVersion": VERSION,
        "kind": "Thing",
        "metadata": {"name": "x", **metadata},
        "spec": spec,
    },
    things.metadata,
    things.specs,
)
managers = st.sampled_from(["m1", "m2"])
times = st.sampled_from(["2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"])


def written(history: list[tuple[str, Json]]) -> Json | None:
    live = None
    for manager, intent in history:
        live = apply(live, intent, FieldManager(manager, THING, VERSION, "2030-01-01T00:00:00Z"), force=True)
    return live


histories = st.lists(st.tuples(managers, objects), max_size=3)


@settings(derandomize=True, database=None, deadline=None, max_examples=80)
@given(histories, managers, objects)
def test_nothing_that_is_given_is_changed(history: list[tuple[str, Json]], manager: str, intent: Json) -> None:
    live = written(history)
    before = copy.deepcopy((live, intent))
    writer = FieldManager(manager, THING, VERSION, "2030-01-01T00:00:09Z")
    apply(live, intent, writer, force=True)
    track_update(live, intent, writer)
    assert (live, intent) == before


@settings(derandomize=True, database=None, deadline=None, max_examples=80)
@given(histories, managers, objects)
def test_applying_again_changes_nothing(history: list[tuple[str, Json]], manager: str, intent: Json) -> None:
    """A map that lost its last part is null at first, for a schema to refuse; that is why it is applied before."""
    once = apply(written(history), intent, FieldManager(manager, THING, VERSION, "2030-01-01T00:00:01Z"), force=True)
    twice = apply(once, intent, FieldManager(manager, THING, VERSION, "2030-01-01T00:00:02Z"))
    assert apply(twice, intent, FieldManager(manager, THING, VERSION, "2030-01-01T00:00:03Z")) == twice


@settings(derandomize=True, database=None, deadline=None, max_examples=80)
@given(histories, objects)
def test_with_force_everything_that_was_sent_is_there(history: list[tuple[str, Json]], intent: Json) -> None:
    """Unless it is a null where the live object has a map or a list: there is none of that here."""
    after = apply(written(history), intent, FieldManager("m9", THING, VERSION, "2030-01-01T00:00:01Z"), force=True)
    for name in ("text", "count", "size", "atomicList", "atomicMap"):
        if name in intent["spec"]:
            assert after["spec"][name] == intent["spec"][name]


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(things.words, st.text(max_size=3)), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(derandomize=True, database=None, deadline=None, max_examples=150)
@given(objects, st.dictionaries(st.sampled_from(list(things.SPEC["properties"])), anything, max_size=3), anything)
def test_no_intent_and_no_ownership_that_a_client_sends_does_harm(live: Json, spec: Json, entries: Any) -> None:
    writer = FieldManager("m1", THING, VERSION, "2030-01-01T00:00:00Z")
    stored = apply(None, live, writer)
    sent = {**stored, "spec": spec, "metadata": {**stored["metadata"], "managedFields": entries}}
    orjson.dumps(track_update(stored, sent, writer))
    for type_ in (THING, DEDUCED):
        with suppress(ApplyConflicts, TypeMismatchError):
            apply(stored, {**live, "spec": spec}, FieldManager("m2", type_, VERSION, "2030-01-01T00:00:00Z"))
