"""Every rule of merging and ownership once, on the real server and on the sandbox, its outcome written out.

Rules: Kubernetes documentation, "Server-Side Apply"; KEP-555.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.conformance import merge_schema as things
from tests.support.conformance.merge_servers import MergeWrite, OneObject, Outcome

Json = dict[str, Any]
New = Callable[[str], OneObject]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Thing:
    """An object of one kind on one server."""

    def __init__(self, obj: OneObject, api_version: str, kind: str) -> None:
        self._obj = obj
        self._identity = {"apiVersion": api_version, "kind": kind}

    def body(self, content: Json, metadata: Json | None = None) -> Json:
        return {
            **self._identity,
            "metadata": {"name": self._obj.name, "namespace": "default", **(metadata or {})},
            **content,
        }

    def apply(self, manager: str, content: Json, *, force: bool = False, metadata: Json | None = None) -> Outcome:
        return self._obj.write(MergeWrite("apply", manager, self.body(content, metadata), force))

    def update(self, manager: str, content: Json, *, metadata: Json | None = None) -> Outcome:
        return self._obj.write(MergeWrite("update", manager, self.body(content, metadata)))

    def patch(self, manager: str, patch: Json) -> Outcome:
        return self._obj.write(MergeWrite("patch", manager, patch))

    def apply_status(self, manager: str, content: Json) -> Outcome:
        return self._obj.write(MergeWrite("apply", manager, self.body(content), subresource="status"))

    @property
    def live(self) -> Json:
        found = self._obj.live()
        assert found is not None
        return found

    @property
    def spec(self) -> Json:
        found: Json = self.live["spec"]
        return found

    @property
    def entries(self) -> list[Json]:
        found: list[Json] = self.live["metadata"].get("managedFields", [])
        return found

    def owned(self, manager: str, operation: str = "Apply", subresource: str = "") -> Json | None:
        wanted = (manager, operation, subresource)
        found = [
            each["fieldsV1"]
            for each in self.entries
            if (each["manager"], each["operation"], each.get("subresource", "")) == wanted
        ]
        return found[0] if found else None


@pytest.fixture
def thing(one: New) -> Thing:
    return Thing(one(things.PATH), f"{things.GROUP}/v1", "Thing")


@pytest.fixture
def config_map(one: New) -> Thing:
    return Thing(one(things.CONFIG_MAPS), "v1", "ConfigMap")


@pytest.fixture
def service(one: New) -> Thing:
    return Thing(one(things.SERVICES), "v1", "Service")


@pytest.fixture
def deployment(one: New) -> Thing:
    return Thing(one(things.DEPLOYMENTS), "apps/v1", "Deployment")


def spec(**fields: Any) -> Json:
    return {"spec": fields}


def refused(outcome: Outcome) -> tuple[int, str, set[tuple[str, str]]]:
    return outcome.code, outcome.reason, set(outcome.causes)


class TestOwnership:
    def test_an_apply_owns_what_it_sends_and_not_the_identity(self, config_map: Thing) -> None:
        assert config_map.apply("m1", {"data": {"a": "1"}}, metadata={"labels": {"l": "1"}}).code == 201
        assert config_map.owned("m1") == {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}

    def test_a_created_object_is_owned_with_its_maps(self, config_map: Thing) -> None:
        """The one difference to an apply: the map itself was added, too."""
        assert config_map.update("m1", {"data": {"a": "1"}}).code == 201
        assert config_map.owned("m1", "Update") == {"f:data": {".": {}, "f:a": {}}}

    def test_the_same_intent_again_is_no_write(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1"}})
        again = config_map.apply("m1", {"data": {"a": "1"}})
        assert (again.code, again.changed) == (200, False)

    def test_equal_values_are_owned_by_both(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1"}})
        assert config_map.apply("m2", {"data": {"a": "1"}}).code == 200
        assert config_map.owned("m1") == config_map.owned("m2") == {"f:data": {"f:a": {}}}

    def test_an_owner_that_changed_nothing_has_no_time_and_so_comes_first(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1"}})
        config_map.apply("m2", {"data": {"a": "1"}})
        assert [(each["manager"], "time" in each) for each in config_map.entries] == [("m2", False), ("m1", True)]

    def test_applies_come_before_updates(self, config_map: Thing) -> None:
        config_map.update("a", {"data": {"a": "1"}})
        config_map.apply("z", {"data": {"z": "1"}})
        assert [each["operation"] for each in config_map.entries] == ["Apply", "Update"]

    def test_one_manager_may_apply_and_update(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1"}})
        config_map.patch("m1", {"data": {"a": "2", "b": "1"}})
        assert config_map.owned("m1") is None
        assert config_map.owned("m1", "Update") == {"f:data": {"f:a": {}, "f:b": {}}}

    def test_what_an_update_takes_away_is_owned_by_nobody(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1", "b": "1"}})
        config_map.patch("m2", {"data": {"a": None}})
        assert config_map.owned("m1") == {"f:data": {"f:b": {}}}
        assert config_map.owned("m2", "Update") is None

    def test_more_than_ten_updaters_are_put_together(self, config_map: Thing) -> None:
        for number in range(12):
            name = f"m{number:02}"
            content = {"data": {f"k{number:02}": "1"}}
            config_map.patch(name, content) if number else config_map.update(name, content)
        managers = {each["manager"] for each in config_map.entries}
        assert len(managers) == 10
        ancient = config_map.owned("ancient-changes", "Update")
        assert ancient is not None
        assert len(ancient["f:data"]) == 4  # Of three updaters; and the map itself.

    def test_the_order_of_fields_is_that_of_names_and_of_numbers(self, service: Thing) -> None:
        ports = [{"port": port, "name": f"p{port}"} for port in (443, 80, 9)]
        service.apply("m1", spec(ports=ports))
        owned = service.owned("m1")
        assert owned is not None
        assert list(owned["f:spec"]["f:ports"]) == [f'k:{{"port":{port},"protocol":"TCP"}}' for port in (9, 80, 443)]


class TestRemoval:
    def test_what_is_left_out_goes(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1", "b": "2"}})
        config_map.apply("m1", {"data": {"a": "1"}})
        assert config_map.live["data"] == {"a": "1"}

    def test_but_not_what_another_owns(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1", "b": "2"}})
        config_map.apply("m2", {"data": {"b": "2"}})
        config_map.apply("m1", {"data": {"a": "1"}})
        assert config_map.live["data"] == {"a": "1", "b": "2"}

    def test_nor_what_was_never_applied(self, config_map: Thing) -> None:
        config_map.update("m2", {"data": {"z": "1"}})
        config_map.apply("m1", {"data": {"a": "1"}})
        config_map.apply("m1", {"data": {"b": "1"}})
        assert config_map.live["data"] == {"b": "1", "z": "1"}

    def test_a_default_comes_back(self, thing: Thing) -> None:
        thing.apply("m1", spec(count=5, text="a"))
        thing.apply("m1", spec(text="a"))
        assert thing.spec == {"count": 3, "text": "a"}

    def test_an_item_goes_with_what_nobody_owns_in_it(self, thing: Thing) -> None:
        thing.apply("m1", spec(text="a", keyed=[{"name": "a", "opts": {"a": "x"}}, {"name": "b"}]))
        thing.apply("m1", spec(text="a", keyed=[{"name": "b"}]))
        assert thing.spec["keyed"] == [{"name": "b", "proto": "TCP"}]

    def test_an_item_stays_with_what_another_owns_in_it(self, thing: Thing) -> None:
        thing.apply("m1", spec(text="a", keyed=[{"name": "a", "port": 1}]))
        thing.apply("m2", spec(keyed=[{"name": "a", "opts": {"a": "x"}}]))
        thing.apply("m1", spec(text="a"))
        assert thing.spec["keyed"] == [{"name": "a", "proto": "TCP", "opts": {"a": "x", "b": 7}}]

    def test_null_is_a_value_where_the_schema_allows_it(self, thing: Thing) -> None:
        thing.apply("m1", spec(text="a", nullable=None))
        assert thing.spec["nullable"] is None
        assert thing.owned("m1") == {"f:spec": {"f:nullable": {}, "f:text": {}}}

    def test_an_empty_map_is_a_value(self, thing: Thing) -> None:
        thing.apply("m1", spec(text="a", map={}))
        assert thing.spec["map"] == {}
        assert thing.owned("m1") == {"f:spec": {"f:map": {}, "f:text": {}}}

    def test_an_empty_atomic_list_is_a_value(self, thing: Thing) -> None:
        thing.apply("m1", spec(atomicList=[]))
        assert thing.spec["atomicList"] == []
        assert thing.owned("m1") == {"f:spec": {"f:atomicList": {}}}

    def test_an_empty_set_is_there_but_nobodys(self, thing: Thing) -> None:
        thing.apply("m1", spec(text="a", set=[]))
        assert thing.spec["set"] == []
        assert thing.owned("m1") == {"f:spec": {"f:text": {}}}

    def test_a_map_that_holds_only_empty_sets_goes_although_it_is_applied_again(self, thing: Thing) -> None:
        """Surprising, but what the server does: an empty set is no field, and `count` is nobody's."""
        thing.apply("m1", spec())
        thing.patch("m2", spec(set=[]))
        assert thing.spec == {"count": 3, "set": []}
        assert thing.apply("m1", spec()).changed
        assert "spec" not in thing.live


class TestConflicts:
    def test_another_value(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1"}})
        outcome = config_map.apply("m2", {"data": {"a": "2"}})
        assert refused(outcome) == (409, "Conflict", {(".data.a", 'conflict with "m1"')})
        assert outcome.message == 'Apply failed with 1 conflict: conflict with "m1": .data.a'

    def test_of_an_update_the_version_is_named(self, config_map: Thing) -> None:
        config_map.update("m1", {"data": {"a": "1"}})
        outcome = config_map.apply("m2", {"data": {"a": "2"}})
        assert outcome.causes == {(".data.a", 'conflict with "m1" using v1')}

    def test_of_a_subresource_its_name(self, thing: Thing) -> None:
        thing.apply("m1", spec(text="a"))
        assert thing.apply_status("m1", {"status": {"phase": "a"}}).code == 200
        outcome = thing.apply_status("m2", {"status": {"phase": "b"}})
        assert outcome.causes == {(".status.phase", 'conflict with "m1" with subresource "status"')}

    def test_several_are_listed_by_manager(self, thing: Thing) -> None:
        thing.apply("m2", spec(keyed=[{"name": "a", "port": 1}], set=["x"]))
        thing.apply("m1", spec(text="a", maps={"a": {"x": "1"}}))
        outcome = thing.apply("m3", spec(text="b", maps={"a": {"x": "2"}}, keyed=[{"name": "a", "port": 2}]))
        assert outcome.message == (
            'Apply failed with 3 conflicts: conflicts with "m1":\n- .spec.text\n- .spec.maps.a.x\n'
            'conflicts with "m2":\n- .spec.keyed[name="a",proto="TCP"].port'
        )

    def test_force_takes_over(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1", "b": "1"}})
        assert config_map.apply("m2", {"data": {"a": "2"}}, force=True).code == 200
        assert config_map.live["data"] == {"a": "2", "b": "1"}
        assert config_map.owned("m1") == {"f:data": {"f:b": {}}}

    def test_kubectl_may_take_what_it_applied_as_a_client(self, config_map: Thing) -> None:
        before = config_map.body({"data": {"a": "1"}})
        text = str(before).replace("'", '"')
        config_map.update(
            "kubectl-client-side-apply", {"data": {"a": "1"}}, metadata={"annotations": {LAST_APPLIED: text}}
        )
        assert config_map.apply("other", {"data": {"a": "2"}}).code == 409
        assert config_map.apply("kubectl", {"data": {"a": "2"}}).code == 200
        assert config_map.live["metadata"]["annotations"][LAST_APPLIED] == (
            f'{{"apiVersion":"v1","data":{{"a":"2"}},"kind":"ConfigMap",'
            f'"metadata":{{"name":"{before["metadata"]["name"]}","namespace":"default"}}}}\n'
        )


class TestLists:
    def test_items_are_found_by_their_keys_and_their_defaults(self, service: Thing) -> None:
        service.apply("m1", spec(ports=[{"port": 80, "name": "a"}]))
        service.apply("m2", spec(ports=[{"port": 80, "protocol": "TCP", "appProtocol": "x"}]))
        assert service.spec["ports"] == [
            {"name": "a", "protocol": "TCP", "port": 80, "targetPort": 80, "appProtocol": "x"}
        ]

    def test_the_order_follows_the_newest_intent(self, thing: Thing) -> None:
        thing.apply("m1", spec(set=["a", "b", "c"]))
        thing.apply("m2", spec(set=["c", "d", "a"]))
        assert thing.spec["set"] == ["b", "c", "d", "a"]

    def test_another_order_is_a_change_but_no_conflict(self, thing: Thing) -> None:
        thing.apply("m1", spec(set=["a", "b"]))
        assert thing.apply("m2", spec(set=["b", "a"])).code == 200

    def test_an_atomic_list_is_one_value(self, thing: Thing) -> None:
        thing.apply("m1", spec(atomicList=[1, 2]))
        outcome = thing.apply("m2", spec(atomicList=[1, 2, 3]))
        assert outcome.causes == {(".spec.atomicList", 'conflict with "m1"')}

    def test_an_atomic_map_is_one_value(self, thing: Thing) -> None:
        thing.apply("m1", spec(atomicMap={"a": "1"}))
        assert thing.apply("m2", spec(atomicMap={"b": "1"})).code == 409
        thing.apply("m2", spec(atomicMap={"b": "1"}), force=True)
        assert thing.spec["atomicMap"] == {"b": "1"}

    def test_values_in_a_set_are_written_as_go_writes_json(self, thing: Thing) -> None:
        thing.apply("m1", spec(set=["<&>", "é", 'q"']))
        assert thing.owned("m1") == {
            "f:spec": {"f:set": {'v:"\\u003c\\u0026\\u003e"': {}, 'v:"q\\""': {}, 'v:"é"': {}}}
        }

    def test_what_no_schema_describes_merges_by_members_and_its_lists_are_atomic(self, thing: Thing) -> None:
        thing.apply("m1", spec(free={"a": {"x": 1}, "l": [1]}))
        thing.apply("m2", spec(free={"a": {"y": 2}}))
        assert thing.spec["free"] == {"a": {"x": 1, "y": 2}, "l": [1]}
        assert thing.apply("m2", spec(free={"l": [2]})).causes == {(".spec.free.l", 'conflict with "m1"')}

    def test_items_with_one_key_that_an_update_made_are_one_value(self, deployment: Thing) -> None:
        def content(*values: str) -> Json:
            environment = [{"name": "A", "value": value} for value in values]
            template = {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i", "env": environment}]},
            }
            return spec(selector={"matchLabels": {"app": "x"}}, template=template)

        deployment.update("m1", content("1", "2"))
        owned = deployment.owned("m1", "Update")
        assert owned is not None
        container = owned["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']
        assert container["f:env"] == {".": {}, 'k:{"name":"A"}': {}}
        assert deployment.apply("m2", content("1", "2")).code == 500
        assert deployment.apply("m2", content("3"), force=True).code == 200
        assert deployment.spec["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "3"}]


class TestFaults:
    """An intent that cannot be merged is answered with 500 and no reason, and is the client's fault all the same."""

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"zz": 1}, ".spec.zz: field not declared in schema"),
            ({"text": 1}, ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
            ({"count": "x"}, ".spec.count: expected numeric (int or float), got string"),
            ({"map": "x"}, ".spec.map: expected map, got &{x}"),
            ({"set": {"a": "b"}}, ".spec.set: expected list, got &{map[a:b]}"),
            ({"set": ["a", "a"]}, '.spec.set: duplicate entries for key [="a"]'),
            (
                {"set": [None]},
                ".spec.set: element 0: associative list without keys has an element that's an explicit null",
            ),
            (
                {"keyed": [{"name": "a"}, {"name": "a", "proto": "TCP"}]},
                '.spec.keyed: duplicate entries for key [name="a",proto="TCP"]',
            ),
            ({"keyed": [1]}, ".spec.keyed: element 0: associative list with keys may not have non-map elements"),
            (
                {"keyed": [{"name": "a", "opts": {"b": [True, None]}}]},
                '.spec.keyed[name="a",proto="TCP"].opts.b: expected numeric (int or float), got []interface {}',
            ),
        ],
    )
    def test_says_where_and_what(self, thing: Thing, fields: Json, message: str) -> None:
        outcome = thing.apply("m1", {"spec": fields})
        assert refused(outcome) == (500, "", set())
        name = thing.body({})["metadata"]["name"]
        start = f"failed to create typed patch object (default/{name}; {things.GROUP}/v1, Kind=Thing): "
        assert outcome.message == start + message


class TestSentOwnership:
    """What a client may do to managedFields itself."""

    @pytest.mark.parametrize("reset", [[], [{}]])
    def test_an_empty_list_or_entry_ends_the_tracking(self, config_map: Thing, reset: list[Json]) -> None:
        config_map.apply("m1", {"data": {"a": "1"}})
        config_map.patch("m2", {"metadata": {"managedFields": reset}})
        assert config_map.entries == []
        config_map.patch("m2", {"data": {"a": "2"}})
        assert config_map.entries == []

    def test_the_first_apply_afterwards_starts_it_again(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1"}})
        config_map.patch("m2", {"metadata": {"managedFields": [{}]}})
        assert config_map.apply("m1", {"data": {"a": "2"}}).causes == {
            (".data.a", 'conflict with "before-first-apply" using v1')
        }
        config_map.apply("m1", {"data": {"a": "1"}})
        assert config_map.owned("before-first-apply", "Update") == {"f:data": {".": {}, "f:a": {}}}
        assert config_map.owned("m1") == {"f:data": {"f:a": {}}}

    def test_valid_entries_replace_what_was(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1"}})
        fields: dict[str, Any] = {"f:data": {"f:zz": {}}, "q:unknown": {}}
        entry = {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
        config_map.patch("m2", {"metadata": {"managedFields": [entry]}})
        assert [(each["manager"], each["fieldsV1"]) for each in config_map.entries] == [("x", {"f:data": {"f:zz": {}}})]

    def test_invalid_ones_are_ignored(self, config_map: Thing) -> None:
        config_map.apply("m1", {"data": {"a": "1"}})
        entry = {"manager": "x", "operation": "Take", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}
        config_map.patch("m2", {"metadata": {"managedFields": [entry]}})
        assert config_map.owned("m1") == {"f:data": {"f:a": {}}}

    def test_an_apply_may_not_send_any(self, config_map: Thing) -> None:
        outcome = config_map.apply("m1", {"data": {}}, metadata={"managedFields": [{}]})
        assert (outcome.code, outcome.message) == (400, "metadata.managedFields must be nil")


class TestSubresources:
    def test_an_apply_does_not_own_a_status_that_it_cannot_write(self, thing: Thing) -> None:
        thing.apply("m1", {"spec": {"text": "a"}, "status": {"phase": "x"}})
        assert thing.owned("m1") == {"f:spec": {"f:text": {}}}
        assert "status" not in thing.live

    def test_nor_one_of_status_a_spec(self, thing: Thing) -> None:
        thing.apply("m1", spec(text="a"))
        assert thing.apply_status("m1", {"spec": {"text": "b"}, "status": {"phase": "x"}}).code == 200
        assert thing.spec["text"] == "a"
        assert thing.owned("m1", subresource="status") == {"f:status": {"f:phase": {}}}
        assert thing.owned("m1") == {"f:spec": {"f:text": {}}}


class TestVersions:
    """One kind in two versions, whose objects look the same."""

    @pytest.fixture
    def gadget(self, one: New) -> tuple[Thing, Thing]:
        obj = one(things.GADGETS)
        newer = OneObject(obj.server, things.GADGETS.replace("/v1/", "/v2/"), obj.name)
        return Thing(obj, f"{things.GROUP}/v1", "Gadget"), Thing(newer, f"{things.GROUP}/v2", "Gadget")

    def test_ownership_holds_across_versions(self, gadget: tuple[Thing, Thing]) -> None:
        v1, v2 = gadget
        v1.apply("m1", spec(map={"a": "1"}))
        assert v2.apply("m2", spec(map={"a": "2"})).causes == {(".spec.map.a", 'conflict with "m1"')}
        assert v2.apply("m2", spec(map={"a": "2"}), force=True).code == 200
        assert {each["manager"]: each["apiVersion"] for each in v1.entries} == {"m2": f"{things.GROUP}/v2"}

    def test_an_apply_in_another_version_replaces_the_entry(self, gadget: tuple[Thing, Thing]) -> None:
        v1, v2 = gadget
        v1.apply("m1", spec(text="a", map={"a": "1", "b": "1"}))
        v2.apply("m1", spec(text="a", map={"b": "1"}))
        assert v1.spec == {"text": "a", "map": {"b": "1"}}
        assert [(each["apiVersion"], each["fieldsV1"]) for each in v1.entries] == [
            (f"{things.GROUP}/v2", {"f:spec": {"f:map": {"f:b": {}}, "f:text": {}}})
        ]

    def test_updates_have_an_entry_in_each_version(self, gadget: tuple[Thing, Thing]) -> None:
        v1, v2 = gadget
        v1.update("m1", spec(text="a"))
        v2.patch("m1", spec(map={"a": "1"}))
        assert {each["apiVersion"]: each["fieldsV1"] for each in v1.entries} == {
            f"{things.GROUP}/v1": {"f:spec": {".": {}, "f:text": {}}},
            f"{things.GROUP}/v2": {"f:spec": {"f:map": {".": {}, "f:a": {}}}},
        }

    def test_ownership_in_a_version_that_is_not_served_is_dropped(self, gadget: tuple[Thing, Thing]) -> None:
        v1, _ = gadget
        v1.apply("m1", spec(text="a"))
        entry = {"manager": "x", "operation": "Apply", "apiVersion": f"{things.GROUP}/v9", "fieldsType": "FieldsV1"}
        v1.patch("m2", {"metadata": {"managedFields": [{**entry, "fieldsV1": {"f:spec": {"f:text": {}}}}]}})
        assert v1.entries == []

    def test_parts_of_what_became_atomic_become_the_whole(
        self, gadget: tuple[Thing, Thing], redefine: Callable[[str], None]
    ) -> None:
        v1, _ = gadget
        v1.apply("m1", spec(text="a", map={"a": "1"}))
        redefine("atomic")
        v1.apply("m1", spec(text="a"))
        assert v1.spec == {"text": "a"}
        v1.apply("m2", spec(map={"b": "1"}))
        assert v1.spec == {"text": "a", "map": {"b": "1"}}
        assert v1.owned("m2") == {"f:spec": {"f:map": {}}}

    def test_what_became_atomic_is_contested_as_a_whole(
        self, gadget: tuple[Thing, Thing], redefine: Callable[[str], None]
    ) -> None:
        v1, _ = gadget
        v1.apply("m1", spec(map={"a": "1"}))
        redefine("atomic")
        assert v1.apply("m2", spec(map={"b": "1"})).causes == {(".spec.map", 'conflict with "m1"')}
