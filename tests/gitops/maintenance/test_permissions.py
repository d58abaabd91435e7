"""What `levelgate check` asks whether it may: also what no object shows yet."""

from __future__ import annotations

from applier.cluster import ResourceAttributes
from applier.read.leftovers import survey
from gitops.maintenance.cluster_facts import needed_permissions
from tests.support.link_platform import GROUP, LinkPlatform


def test_kinds_of_definitions_are_asked_for_before_there_is_an_instance() -> None:
    """Whoever may make CRDs and not what they define finds out here, and not by seven instances that fail."""
    with LinkPlatform(names=()) as fleet:
        fleet.deploy()
        asked = needed_permissions(fleet.call(survey(fleet.cluster)))
    mine = [one for one in asked if one.group == GROUP]
    verbs = ("create", "delete", "get", "list", "patch", "watch")
    assert mine == sorted(
        [
            *(ResourceAttributes(GROUP, "links", verb=verb) for verb in verbs),
            ResourceAttributes(GROUP, "links", subresource="status", verb="patch"),
        ]
    )
