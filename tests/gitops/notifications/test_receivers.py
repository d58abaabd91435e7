"""Transitions that a receiver wants, and templates that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from applier.causes import EventReason, Reason
from gitops.notifications.receivers import (
    DEFAULT_TEMPLATE,
    GitHubStatusChannel,
    Receiver,
    Slack,
    find_template_mistake,
)
from gitops.records.transitions import Transition
from renderer.identity import ObjectKey, source_parent

TEAM = Receiver("team", Slack(Path("url")))
COMMIT = Receiver("commit", GitHubStatusChannel("acme/platform", Path("token")))


def transition(event_reason: EventReason | Reason, *, of_source: bool, commit: str = "9c1d2e7") -> Transition:
    key = source_parent("platform") if of_source else ObjectKey("g.test", "Link", "prod", "a")
    return Transition(event_reason, "", key, "v1", "u", "platform", commit)


def test_by_default_only_sources_report_that_they_have_settled() -> None:
    assert TEAM.wants(transition(EventReason.SETTLED, of_source=True))
    assert not TEAM.wants(transition(EventReason.SETTLED, of_source=False))
    chosen = Receiver("team", Slack(Path("url")), events=frozenset({str(EventReason.SETTLED)}))
    assert chosen.wants(transition(EventReason.SETTLED, of_source=False))


def test_a_receiver_of_one_source_wants_no_other() -> None:
    assert TEAM.wants(transition(Reason.APPLY_FAILED, of_source=False))
    other = Receiver("team", Slack(Path("url")), sources=frozenset({"shop"}))
    assert not other.wants(transition(Reason.APPLY_FAILED, of_source=False))


def test_a_commit_status_is_for_a_commit_and_for_warnings_of_instances() -> None:
    assert COMMIT.wants(transition(EventReason.UPDATED, of_source=True))
    assert COMMIT.wants(transition(Reason.APPLY_FAILED, of_source=False))
    assert not COMMIT.wants(transition(EventReason.UPDATED, of_source=False))
    assert not COMMIT.wants(transition(EventReason.UPDATED, of_source=True, commit=""))


@pytest.mark.parametrize(
    ("template", "mistake"),
    [
        (DEFAULT_TEMPLATE, ""),
        (" ", "is empty"),
        ("{word", "is not a template"),
        ("{secret}", "names {secret}; write only the fields {cluster}"),
        ("{object.key}", "names {object.key}"),
        ("{message:>9}", "names {message}"),
    ],
)
def test_a_template_may_name_fields_and_nothing_of_their_insides(template: str, mistake: str) -> None:
    found = find_template_mistake(template)
    assert found.startswith(mistake)
    assert bool(found) == bool(mistake)
