"""What selectors of rules can name in a source, and what is said of a name that is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitops.windows.selectable import SelectableObjects, describe_missing_labels, find_missing_names, required_labels
from gitops.windows.window import LOCAL
from renderer.catalog.catalog import load
from renderer.label_selector import LabelSelector
from renderer.render.render import render

INSTANCES = ({"stage": "prod", "tier": "web"}, {"stage": "test"})


def config_map(namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}}


def held(*manifests: dict[str, Any]) -> SelectableObjects:
    catalog = load({f"{number}.json": json.dumps(one).encode() for number, one in enumerate(manifests)})
    return SelectableObjects.from_rendering(catalog, render([catalog]), LOCAL)


@pytest.mark.parametrize(
    ("entries", "is_certain", "said"),
    [
        (["prod", "p*", "*"], True, []),
        (["prdo"], True, [(0, "nothing is in 'prdo'; did you mean 'prod'?")]),
        (["prdo"], False, [(0, "nothing is in 'prdo'; did you mean 'prod'?")]),
        (["prod", "elsewhere"], True, [(1, "nothing is in 'elsewhere'")]),
        (["prod", "elsewhere", "x-*"], False, []),
        (["x-*"], True, [(0, "nothing is in 'x-*'")]),
        (None, True, []),
    ],
)
def test_missing_names(entries: list[str] | None, is_certain: bool, said: list[tuple[int, str]]) -> None:
    """Where not all names are known, only a name that is near to a known one is taken for misspelled."""
    assert list(find_missing_names(entries, {"prod", "test"}, "nothing is in", is_certain=is_certain)) == said


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("stage=prod", ""),
        ("stage=prod,tier!=web", ""),
        ("!stage", ""),
        ("", ""),
        ("stage in (prdo,x)", "no instance of the source has the label stage in (prdo,x); did you mean 'prod'?"),
        ("stagge", "no instance of the source has the label stagge; did you mean 'stage'?"),
        ("stage=test,tier=web", "no instance of the source has all of the labels stage=test,tier=web"),
    ],
)
def test_missing_labels(selector: str, said: str) -> None:
    """What excludes everything is meant to; the rest names the label that nobody has."""
    assert describe_missing_labels(LabelSelector.parse(selector), INSTANCES, is_certain=True) == said


def test_required_labels_are_those_that_some_instance_must_have() -> None:
    assert str(required_labels(LabelSelector.parse("a=b,c!=d,!e,f"))) == "a=b,f"


def test_what_a_source_holds() -> None:
    """A Namespace is a name even where nothing is in it; an object of a kind that nobody describes may be an instance of another source."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "soon"}}
    own = held(config_map("prod"), namespace)
    assert own.namespaces == {"prod", "soon"}
    assert (own.knows_objects, own.is_whole, own.is_empty) == (True, True, False)
    foreign = {"apiVersion": "g.test/v1", "kind": "App", "metadata": {"name": "a", "namespace": "prod"}}
    assert not held(foreign).knows_objects
    assert held().is_empty
