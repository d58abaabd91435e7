"""The label `cluster` has a bounded number of values."""

from __future__ import annotations

from applier.cluster import ClusterName
from gitops.server.metric_readings import MAX_CLUSTER_NAMES, OTHER_CLUSTERS, ClusterLabels


def test_a_name_keeps_its_value_and_names_beyond_the_limit_share_one() -> None:
    labels = ClusterLabels()
    names = [ClusterName(f"c{number}") for number in range(MAX_CLUSTER_NAMES + 2)]
    assert [labels.label_of(name) for name in names] == [*names[:MAX_CLUSTER_NAMES], OTHER_CLUSTERS, OTHER_CLUSTERS]
    assert labels.label_of(names[0]) == names[0]
