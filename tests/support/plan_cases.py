"""The cases in `tests/cases/plans`: two commits each, and the plan of the second."""

from __future__ import annotations

from pathlib import Path

from tests.support.git.commits import sample

CASES = Path(__file__).parents[1] / "cases" / "plans"


def files(folder: Path) -> dict[str, str]:
    """Return the YAML files below a folder by their path."""
    return {str(file.relative_to(folder)): file.read_text() for file in sorted(folder.rglob("*.yaml"))}


def commits(case: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return base and head of a case. Without a folder of its own, either is `sample-repo`."""
    base = files(case / "base") if (case / "base").is_dir() else sample()
    head = {**base, **files(case / "head")} if (case / "head").is_dir() else sample()
    return base, {file: text for file, text in head.items() if text}
