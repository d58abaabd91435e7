"""Rules that every manifest must meet before the program reads it."""

from typing import Any

import pytest

from renderer.schema.manifest_rules import find_mistakes

CONFIG_MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_the_rules_say_nothing_of_the_content() -> None:
    assert find_mistakes({**CONFIG_MAP, "data": 1, "metadata": {"name": "a", "namespace": None, "x": 1}}) == []


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"metadata": {}}, "metadata.name"),
        ({"metadata": {"name": ""}}, "metadata.name"),
        ({"metadata": {"name": "a", "labels": {"n": 1}}}, "metadata.labels.n"),
        ({"kind": "Secret", "stringData": {"n": 1}}, "stringData.n"),
        ({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}, "spec"),
    ],
)
def test_a_mistake_has_its_path(changes: dict[str, Any], path: str) -> None:
    assert [mistake.path for mistake in find_mistakes(CONFIG_MAP | changes)] == [path]
