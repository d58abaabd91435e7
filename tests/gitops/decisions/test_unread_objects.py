"""Objects that have to be read before a set is planned."""

from __future__ import annotations

from gitops.decisions import live
from gitops.decisions.unread_objects import UNREAD_OBJECTS, UNREAD_SOURCE_OBJECTS
from renderer.identity import ObjectKey
from tests.support.compiled_definitions import resource, source
from tests.support.graph_inputs import OneInstance


def test_an_object_has_to_be_read_until_a_read_has_shown_it_or_its_absence() -> None:
    shop = OneInstance(source(resource("web"), resource("db")))
    shop.commit(name="shop")
    web, db = (ObjectKey("", "ConfigMap", "default", f"shop-{name}") for name in ("web", "db"))

    def unread() -> list[frozenset[ObjectKey] | None]:
        return [answer.value for answer in shop.graph.changed(UNREAD_OBJECTS)]

    assert unread() == [frozenset({web, db})]
    with shop.graph.transaction() as transaction:
        live.set_absent(transaction, [db])
    assert unread() == [frozenset({web})]
    with shop.graph.transaction() as transaction:
        metadata = {"name": web.name, "namespace": "default", "uid": "u", "resourceVersion": "1"}
        live.set_objects(transaction, [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}])
    assert unread() == [frozenset()]
    assert unread() == []


def test_the_instances_of_a_source_have_to_be_read_before_its_set_is_planned() -> None:
    shop = OneInstance(source(resource("web")))
    shop.commit(name="shop")
    (answer,) = shop.graph.changed(UNREAD_SOURCE_OBJECTS)
    assert answer.key == "platform"
    assert answer.value
    assert ObjectKey("kro.run", "App", "default", "shop") in answer.value
    with shop.graph.transaction() as transaction:
        live.set_absent(transaction, answer.value)
    assert [answer.value for answer in shop.graph.changed(UNREAD_SOURCE_OBJECTS)] == [frozenset()]
