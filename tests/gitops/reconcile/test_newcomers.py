"""A new instance of a definition that is being rolled out is made at the revision that completed last, all of it, and moves in its turn (rulings)."""

from __future__ import annotations

from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.plans import PACE, rule, run
from tests.support.properties.repositories import config_map, definition, deployment, instance


def files(revision: str, *instances: str) -> Files:
    """One at a time, and each has to stay healthy for an hour."""
    last = config_map("last", "app")
    last["template"]["data"]["revision"] = revision
    link = definition("Link", [deployment("app"), last], spec={"text": "string | default=one"})
    return {"link.json": link, "policy.json": rule("PropagationPolicy", PACE)} | {
        f"{name}.json": instance("Link", name) for name in instances
    }


def test_its_later_levels_do_not_wait_for_its_turn() -> None:
    with CheckedPlatform() as platform:
        platform.commit({**files("1", "x"), "policy.json": rule("PropagationPolicy", {**PACE, "bake": "0s"})})
        run(platform)
        platform.commit(files("2", "x", "y"))
        run(platform)
        live = {key.name: obj["data"] for key, obj in platform.cluster.objects.items() if key.kind == "ConfigMap"}
    assert (live["x-last"]["revision"], live["y-last"]["revision"]) == ("2", "1")
