"""Definitions that others wrote: every one of a folder builds and renders.

The folder is named by the environment variable LEVELGATE_EXAMPLES: a checkout of kro's `examples`, say. A definition that does not load must
say where and why, with a line; nothing may end with anything but problems.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from renderer.catalog import load
from renderer.render import render

EXAMPLES = os.environ.get("LEVELGATE_EXAMPLES", "")


def _folders() -> list[Path]:
    root = Path(EXAMPLES)
    return sorted({path.parent for path in root.rglob("*.yaml")}) if EXAMPLES else []


@pytest.mark.skipif(not EXAMPLES, reason="LEVELGATE_EXAMPLES names no folder of definitions")
@pytest.mark.parametrize("folder", _folders(), ids=lambda folder: str(folder.relative_to(EXAMPLES)))
def test_definitions_of_others_build_and_render(folder: Path) -> None:
    files = {path.name: path.read_bytes() for path in folder.glob("*.yaml")}
    catalog = load(files, source="examples")
    bundle = render([catalog])
    assert all(problem.line > 0 and problem.message for problem in bundle.problems)
    for definition in catalog.definitions.values():
        assert definition.crd["metadata"]["name"]
    wrong = [
        f"{node.id}: {node.error}" for rendered in bundle.instances.values() for node in rendered.nodes if node.error
    ]
    assert wrong == []
