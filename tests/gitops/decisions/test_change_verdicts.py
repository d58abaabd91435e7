"""Verdicts on the changes of a plan, for a report that names everything that bars them."""

from __future__ import annotations

from applier.causes import Reason
from applier.plan.model import Operation
from gitops.decisions.change_verdicts import ChangeKey, ChangeVerdict, change_verdicts
from renderer.identity import ObjectKey
from tests.support.git.commits import previewed
from tests.support.properties.repositories import config_map, definition, instance

GROUP = "g.test"
X = ObjectKey(GROUP, "Link", "default", "x")
CLOSED = """
apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {name: never}
spec:
  kind: Deny
  timeZone: UTC
  schedule: {cron: "0 1 * * *"}
  duration: 23h
"""


def files(*nodes: str, text: str = "one", **more: str) -> dict[str, str]:
    link = definition("Link", [config_map(name) for name in nodes], spec={"text": "string"})
    return {"link.json": link, "x.json": instance("Link", "x", text=text), **more}


def test_each_change_has_a_verdict_and_what_stays_has_none() -> None:
    found = previewed(files("a", "b"), files("a", text="two")).due.state
    updated, deleted = ObjectKey("", "ConfigMap", "default", "x-a"), ObjectKey("", "ConfigMap", "default", "x-b")
    assert found.verdicts[X] == {
        ChangeKey(updated, Operation.UPDATE): ChangeVerdict((), None),
        ChangeKey(deleted, Operation.PRUNE): ChangeVerdict((), None),
    }
    assert found.verdicts[X] == change_verdicts(found.graph, X)
    same = previewed(files("a"), files("a")).due.state
    assert not any(same.verdicts.values())


def test_all_causes_of_a_change_are_named() -> None:
    """A hold of a person and a closed window: a plan names both, and not only the first that bars the change."""
    held = files("a", text="two", **{"never.yaml": CLOSED})
    held["x.json"] = held["x.json"].replace(
        '"name": "x"', '"name": "x", "annotations": {"levelgate.dev/hold": "INC-7"}'
    )
    found = previewed(files("a", **{"never.yaml": CLOSED}), held).due.state
    (verdict,) = found.verdicts[X].values()
    assert [cause.reason for cause in verdict.causes] == [Reason.HELD, Reason.WINDOW_CLOSED]
