"""Faults of kro's that its users meet, and what happens here instead (docs/definitions.md, "Where kro does otherwise").

Here are those that no other test shows.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from applier.cluster import CONTENT_MANAGER
from renderer.identity import ObjectKey
from renderer.kinds import CRD
from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.repositories import GROUP, config_map, definition, instance

LINKS = ObjectKey(*CRD, "", f"links.{GROUP}")


def data(platform: CheckedPlatform, name: str) -> Any:
    return platform.cluster.objects[ObjectKey("", "ConfigMap", "default", name)]["data"]


@pytest.mark.parametrize(
    "values", ['${json.unmarshal(\'["p", "q"]\')}', "${schema.spec.any.names}", "${dyn(['p', 'q'])}"]
)
def test_a_collection_goes_through_a_list_whose_type_is_not_known(values: str) -> None:
    """Rgd 1.7: kro refuses the definition, since the static type is no list."""
    node = config_map("a", name="a-${i}", forEach=[{"i": values}])
    with CheckedPlatform() as platform:
        spec = {"text": "string | default=one", "any": "object"}
        files = {
            "l.json": definition("Link", [node], spec=spec),
            "x.json": instance("Link", "x", any={"names": ["p", "q"]}),
        }
        platform.commit(files)
        platform.settle()
        assert platform.members() == {"a-p", "a-q"}


def test_a_change_of_printer_columns_alone_reaches_the_crd() -> None:
    """Rgd 1.2: kro compares schemas only, and leaves the columns as they were."""
    column = {"name": "Text", "type": "string", "jsonPath": ".spec.text"}
    with CheckedPlatform() as platform:
        for columns in ([column], [{**column, "name": "Words"}]):
            platform.commit({"l.json": definition("Link", [config_map("a")], additionalPrinterColumns=columns)})
            platform.settle()
            assert platform.cluster.objects[LINKS]["spec"]["versions"][0]["additionalPrinterColumns"] == columns


def test_labels_of_an_instance_are_input_like_its_spec() -> None:
    """Rgd 2.4: kro wakes for a new generation only, and labels make none."""
    node = config_map("a")
    node["template"]["data"] = {"tier": "${schema.metadata.labels.tier}"}
    with CheckedPlatform() as platform:
        for tier in ("test", "prod"):
            one = json.loads(instance("Link", "x"))
            one["metadata"]["labels"] = {"tier": tier}
            platform.commit({"l.json": definition("Link", [node]), "x.json": json.dumps(one)})
            platform.settle()
            assert data(platform, "x-a") == {"tier": tier}


def test_the_name_of_an_instance_may_be_as_long_as_a_name_can_be() -> None:
    """Rgd 2.1: kro writes it into a label of every child, which ends at 63 characters."""
    name = "x" * 253
    with CheckedPlatform() as platform:
        platform.commit({"l.json": definition("Link", [config_map("a", name="a")]), "x.json": instance("Link", name)})
        platform.settle()
        assert platform.members() == {"a"}
        assert platform.cluster.objects[ObjectKey(GROUP, "Link", "default", name)]["status"]["state"] == "ACTIVE"


def test_a_deep_graph_changes_in_one_pass_and_only_what_changed_is_written() -> None:
    """Rgd 2.4: kro needs a pass for each level, and applies every object in each of them."""
    nodes = [config_map("n0")]
    for index in range(1, 8):
        node = config_map(f"n{index}")
        node["template"]["data"] = {"above": f"${{n{index - 1}.{'data.text' if index == 1 else 'data.above'}}}"}
        nodes.append(node)
    nodes.append({**config_map("apart"), "template": {**config_map("apart")["template"], "data": {"same": "x"}}})
    with CheckedPlatform() as platform:
        platform.commit({"l.json": definition("Link", nodes), "x.json": instance("Link", "x")})
        platform.settle()
        before = len(platform.cluster.writes)
        platform.commit({"l.json": definition("Link", nodes), "x.json": instance("Link", "x", text="two")})
        platform.run()
        assert data(platform, "x-n7") == {"above": "two"}
        written = [write.key.name for write in platform.cluster.writes[before:] if write.manager == CONTENT_MANAGER]
        assert [name for name in written if name.startswith("x-")] == [f"x-n{index}" for index in range(8)]


def test_one_object_by_two_of_its_versions_is_a_collision() -> None:
    """Rgd 3.5: kro compares versions too, and the two write one object in turns."""
    nodes = [
        {"id": version, "template": {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}}
        for version in ("v1", "v2")
    ]  # fmt: skip
    with CheckedPlatform() as platform:
        platform.commit({"l.json": definition("Link", nodes), "x.json": instance("Link", "x")})
        platform.settle()
        assert platform.members("HorizontalPodAutoscaler") == set()
