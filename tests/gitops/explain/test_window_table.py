"""Selectors and next changes of windows, in words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitops.explain.window_table import describe_next_change, describe_selector
from gitops.text import TimeFormat
from gitops.windows.window import Window
from gitops.windows.window_reader import read_windows
from renderer.catalog.catalog import load

TIMES = TimeFormat(utc=True)
FRIDAY = datetime(2026, 11, 20, 12, tzinfo=UTC)


def window(spec: str) -> Window:
    text = "apiVersion: levelgate.dev/v1alpha1\nkind: PropagationWindow\nmetadata: {name: w}\nspec:\n"
    body = "".join(f"  {line}\n" for line in ["timeZone: UTC", *spec.splitlines()])
    (found,) = read_windows(load({"w.yaml": f"{text}{body}".encode()})).rules.values()
    return found


WORKDAYS = "kind: Allow\nschedule: {cron: '0 9 * * 1-5'}\nuntil: '17:00'"


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("", "everything"),
        ("\nselector: {namespaces: [prod]}", "prod"),
        ("\nselector: {namespaces: [prod], clusters: [eu]}", "clusters eu; prod"),
        ("\nverbs: [heal]", "everything (heal only)"),
    ],
)
def test_a_selector_in_words(selector: str, words: str) -> None:
    assert describe_selector(window(WORKDAYS + selector)) == words


def test_the_next_change_is_the_last_start_while_there_is_a_cutoff() -> None:
    assert describe_next_change(window(WORKDAYS), TIMES, FRIDAY).startswith("closes 17:00")
    assert describe_next_change(window(f"{WORKDAYS}\ncutoff: 30m"), TIMES, FRIDAY).startswith("last start 16:30")
    assert "2026-11-23 09:00" in describe_next_change(window(WORKDAYS), TIMES, FRIDAY.replace(hour=18))
