"""What a commit is to a pass: above all, when it may delete nothing."""

from __future__ import annotations

import pytest

from applier.read.observe import FEW
from gitops.reconcile.sources import state_of
from gitops.source import SourceSnapshot, SourceTarget
from gitops.source.snapshot import File
from tests.support.properties.checked_platform import CheckedPlatform

PLAIN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n"
WINDOW = """
apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {name: never}
spec: {kind: Deny, timeZone: UTC, schedule: {cron: "0 9 * * *"}, duration: 1h}
"""


@pytest.mark.parametrize(
    ("files", "path_exists", "held"),
    [
        ({}, False, "does not exist in commit c0ffee0"),
        ({}, True, "commit c0ffee0 holds no object at all"),
        ({"a.yaml": "# moved to another repository"}, True, "commit c0ffee0 holds no object at all"),
        ({"window.yaml": WINDOW}, True, "commit c0ffee0 holds no object at all"),
        ({"a.yaml": PLAIN}, True, ""),
        ({"a.yaml": "{"}, True, ""),
    ],
    ids=["no path", "no file", "comments", "rules alone", "an object", "a file that cannot be read"],
)
def test_a_commit_that_wants_nothing_deletes_nothing(files: dict[str, str], path_exists: bool, held: str) -> None:
    """Rule 12, threat 24. What cannot be read protects its own."""
    found = {name: File(name, text.encode()) for name, text in files.items()}
    snapshot = SourceSnapshot("c0ffee0".ljust(40, "0"), "", found, (), path_exists, "subject", "Ada", "subject", None)
    hold = state_of("platform", SourceTarget("/platform"), snapshot).hold
    assert held in hold
    assert bool(hold) is bool(held)


def test_passes_over_many_sources_come_to_rest() -> None:
    """Rule 6: each knows what was recorded of its sources, however many there are."""
    with CheckedPlatform() as platform:
        for number in range(FEW + 1):
            platform.commit({"a.yaml": PLAIN.replace("name: a", f"name: a{number}")}, source=f"s{number}")
        platform.settle(passes=5)
