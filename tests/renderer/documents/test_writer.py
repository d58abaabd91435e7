"""Written YAML is read back by Kubernetes as the same values."""

import pytest

from renderer.documents import load
from renderer.documents.writer import dump


@pytest.mark.parametrize(
    "text", ["no", "0644", "1e3", "", "~", "a: b", "line\nline\n", "plain", "2026-01-31", "é", "y"]
)
def test_a_text_stays_a_text(text: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": text}}
    (document,), problems = load("a.yaml", dump([manifest]).encode())
    assert problems == []
    assert document.value == manifest


def test_keys_keep_their_order_and_shared_parts_are_written_out() -> None:
    shared = {"z": 1, "a": 2}
    assert dump([{"b": shared, "a": shared}]) == "---\nb:\n  z: 1\n  a: 2\na:\n  z: 1\n  a: 2\n"
