"""Gates that read the commit which brought a revision."""

from __future__ import annotations

import pytest

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import link
from tests.support.scenarios.gates import config_map, definition

GATE = "${'Ticket' in target.trailers && target.author == 'Ada' && target.message.startsWith('Change') && target.commit != ''}"


def read_text(platform: CommandPlatform) -> str:
    return platform.kubectl(
        "get", "configmap", "one-gated", "-n", platform.namespace, "-o", "jsonpath={.data.text}", "--ignore-not-found"
    )


@pytest.mark.both_servers
def test_a_gate_opens_for_the_trailer_of_the_commit_of_a_revision(platform: CommandPlatform) -> None:
    """S1-5: `target` is the newest revision, told by the commit that brought it, after a restart too."""
    instance = link(platform.group, platform.namespace)

    def commit(text: str, message: str) -> None:
        gated = config_map("gated", text=text, propagateWhen=[GATE])
        platform.repository.commit(
            {"def.json": definition(platform.group, gated), "one.json": instance}, message=message
        )

    commit("first", "Change the text\n\nBecause.\n\nTicket: CHG-1")
    platform.run_once()
    assert read_text(platform) == "first"

    commit("second", "Change the text")
    platform.run_once()
    assert read_text(platform) == "first"

    commit("third", "Change the text\n\nBecause.\n\nTicket: CHG-2\nReviewed-by: Bob")
    platform.run_once()
    assert read_text(platform) == "third"
