"""The view of live objects in a graph. `test_histories.py` plans over the view."""

from __future__ import annotations

import pytest

from gitops.decisions.live_view import LiveView
from renderer.identity import ObjectKey
from tests.support.graph_inputs import new_graph


def test_a_plan_must_not_iterate_over_all_objects() -> None:
    view = LiveView(new_graph(), None)
    with pytest.raises(TypeError, match="must not iterate over all objects"):
        list(view.objects)
    with pytest.raises(TypeError, match="must not count all objects"):
        len(view.objects)
    assert ObjectKey("", "ConfigMap", "default", "a") not in view.objects
