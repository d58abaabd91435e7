"""What a graph decides, during random histories of a repository: equal to what is decided from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.reconcile import step
from gitops.reconcile.context import Context
from renderer.catalog.catalog import Catalog
from renderer.definition.kind_schemas import KindSchemas
from renderer.render import render
from renderer.render.cache import RenderCache
from renderer.render.model import Rendering
from tests.support.graph_inputs import GraphFeed
from tests.support.graph_renderings import assert_renders, assert_states
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.repositories import repositories


@dataclass
class ComparingStep:
    """Rendering of a step, compared with the decisions of a graph that follows the same knowledge."""

    feed: GraphFeed = field(default_factory=GraphFeed)

    def rendered(self, catalogs: Sequence[Catalog], known: Context, types: KindSchemas, memo: RenderCache) -> Rendering:
        whole = (*catalogs, *known.elsewhere)
        expected = render.render(whole, step._world(known, whole, types), RenderCache())
        with self.feed.following(whole, known) as transaction:
            transaction.now = known.observed.now
        assert_renders(self.feed.graph, expected)
        assert_states(self.feed.graph, expected, known.observed)
        return ORIGINAL(catalogs, known, types, memo)


ORIGINAL = step._rendered


@examples(20)
@given(history=st.lists(repositories(), min_size=2, max_size=4), instant=st.booleans())
@once
def test_the_graph_decides_what_is_decided_from_scratch(history: Sequence[Files], instant: bool) -> None:
    """Over commits, and over the rounds and passes of each, with controllers at work."""
    comparing = ComparingStep()
    with pytest.MonkeyPatch.context() as patch, CheckedPlatform(WitnessedCluster(instant=instant)) as platform:
        patch.setattr(step, "_rendered", comparing.rendered)
        for files in history:
            platform.commit(files)
            for _ in range(3):
                platform.go_on()
                platform.cluster.tick()
        assert platform.broken == []
