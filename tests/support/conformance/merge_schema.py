"""A custom kind that has every way of merging, and random objects of it and of built-in kinds."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

GROUP = "merge.test"
PATH = f"/apis/{GROUP}/v1/namespaces/default/things"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
TEXTS = {"type": "array", "items": TEXT}
MAP = {"type": "object", "additionalProperties": TEXT}

SPEC: Json = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "count": {**WHOLE, "default": 3},
        "size": {"x-kubernetes-int-or-string": True},
        "nullable": {**TEXT, "nullable": True},
        "set": {**TEXTS, "x-kubernetes-list-type": "set"},
        "numbers": {"type": "array", "items": WHOLE, "x-kubernetes-list-type": "set"},
        "atomicList": {"type": "array", "items": WHOLE},
        "atomicMap": {**MAP, "x-kubernetes-map-type": "atomic"},
        "map": MAP,
        "maps": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"x": TEXT, "map": MAP}},
        },
        "struct": {
            "type": "object",
            "properties": {"inner": {"type": "object", "properties": {"deep": TEXT, "map": MAP}}, "other": WHOLE},
        },
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "proto"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": TEXT,
                    "proto": {**TEXT, "default": "TCP"},
                    "port": WHOLE,
                    "tags": {**TEXTS, "x-kubernetes-list-type": "set"},
                    "opts": {"type": "object", "properties": {"a": TEXT, "b": {**WHOLE, "default": 7}}},
                },
            },
        },
        "flags": {"type": "array", "items": {"type": "boolean"}, "x-kubernetes-list-type": "set"},
        "switches": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["on"],
            "items": {
                "type": "object",
                "required": ["on"],
                "properties": {"on": {"type": "boolean"}, "x": TEXT},
                "x-kubernetes-map-type": "atomic",
            },
        },
        "sets": {"type": "object", "additionalProperties": {**TEXTS, "x-kubernetes-list-type": "set"}},
        "nullMap": {**MAP, "nullable": True},
        "embedded": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "half": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": TEXT, "list": {**TEXTS, "x-kubernetes-list-type": "set"}},
        },
    },
}
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": SPEC,
        "status": {"type": "object", "properties": {"phase": TEXT, "map": MAP}},
    },
}

CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"things.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}

GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"


def gadgets(map_type: str = "granular") -> Json:
    """A kind with two versions; in the second one `map` has a closed set of members."""

    def version(name: str, fields: Json) -> Json:
        spec = {"type": "object", "properties": {"text": TEXT, **fields}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {"name": name, "served": True, "storage": name == "v1", "schema": schema}

    granular = {**MAP, "x-kubernetes-map-type": map_type}
    closed = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [version("v1", {"map": granular}), version("v2", {"map": closed})],
        },
    }


words = st.sampled_from(["a", "b", "c"])
odd_words = st.sampled_from(["a", "b", "<c&>", "é", 'q"'])
numbers = st.integers(0, 3)
text_maps = st.dictionaries(words, words, max_size=3)
free = st.recursive(
    st.one_of(numbers, words, st.booleans(), st.just(1.5)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(words, inner, max_size=2)),
    max_leaves=4,
)


def some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=fields)


def unique(items: st.SearchStrategy[Any], *, max_size: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=max_size, unique=True)


def _item_key(item: Json) -> tuple[str, str]:
    return item["name"], item.get("proto", "TCP")


items = st.builds(
    lambda name, rest: {"name": name, **rest},
    words,
    some(
        {
            "proto": st.sampled_from(["TCP", "UDP"]),
            "port": numbers,
            "tags": unique(words),
            "opts": some({"a": words, "b": numbers}),
        }
    ),
)
specs = some(
    {
        "text": words,
        "count": st.one_of(numbers, numbers, st.none()),
        "size": st.one_of(numbers, words),
        "nullable": st.one_of(words, st.none()),
        "set": unique(odd_words),
        "numbers": unique(numbers),
        "atomicList": st.lists(numbers, max_size=2),
        "atomicMap": text_maps,
        "map": text_maps,
        "maps": st.dictionaries(words, some({"x": words, "map": text_maps}), max_size=2),
        "struct": some({"inner": some({"deep": words, "map": text_maps}), "other": numbers}),
        "keyed": st.lists(items, max_size=3, unique_by=_item_key),
        "flags": unique(st.booleans()),
        "switches": st.lists(
            st.builds(lambda on, rest: {"on": on, **rest}, st.booleans(), some({"x": words})),
            max_size=2,
            unique_by=lambda item: item["on"],
        ),
        "sets": st.dictionaries(words, unique(words), max_size=2),
        "nullMap": st.one_of(text_maps, st.none()),
        "embedded": st.builds(
            lambda kind, metadata, rest: {"apiVersion": "v1", "kind": kind, "metadata": metadata, **rest},
            st.sampled_from(["A", "B"]),
            some({"name": words, "labels": text_maps, "finalizers": unique(words)}),
            st.dictionaries(words, words, max_size=1),
        ),
        "any": st.one_of(free, st.none(), st.lists(st.dictionaries(words, st.none(), max_size=1), max_size=2)),
        "free": st.dictionaries(words, free, max_size=3),
        "half": st.builds(
            lambda known, more: {**more, **known},
            some({"known": words, "list": unique(words)}),
            st.dictionaries(words, free, max_size=2),
        ),
    }
)
statuses = some({"phase": words, "map": text_maps})
labels = st.dictionaries(words, words, min_size=1, max_size=3)
metadata = some({"labels": labels, "annotations": labels})
"""Nothing empty: the real server stores it once and then forgets it, which shows as a write without a difference."""


def broken(spec: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Specs that an apply refuses."""
    return st.builds(
        lambda base, fault: {**base, **fault},
        spec,
        st.sampled_from(
            [
                {"zz": 1},
                {"text": 1},
                {"count": "x"},
                {"count": True},
                {"set": ["a", "a"]},
                {"set": [None]},
                {"set": [["a"]]},
                {"set": [{"a": "b"}]},
                {"keyed": [{"name": "a"}, {"name": "a", "proto": "TCP"}]},
                {"keyed": ["a"]},
                {"keyed": [{"port": 1}]},
                {"keyed": {"a": "b"}},
                {"struct": {"inner": {"deep": {"a": 1}}}},
                {"struct": []},
                {"map": {"a": ["x", 1]}},
                {"map": "x"},
            ]
        ),
    )


# ---- built-in kinds

config_maps = some(
    {"data": st.dictionaries(words, st.one_of(words, st.just(""), st.none()), max_size=3), "immutable": st.just(False)}
)
broken_config_maps = st.builds(
    lambda base, fault: {**base, **fault},
    config_maps,
    st.sampled_from(
        [{"spec": {}}, {"data": {"a": 1}}, {"data": []}, {"data": {"a": {"b": "c"}}}, {"immutable": "yes"}]
    ),
)

ports = st.builds(
    lambda port, rest: {"port": port, "name": f"p{port}{rest.get('protocol', 'TCP').lower()}", **rest},
    st.sampled_from([80, 443]),
    some(
        {
            "protocol": st.sampled_from(["TCP", "UDP"]),
            "targetPort": st.sampled_from([8080, "web"]),
            "appProtocol": words,
        }
    ),
)
services = st.builds(
    lambda first, more, rest: {"spec": {"ports": _unique_ports([first, *more]), **rest}},
    ports,
    st.lists(ports, max_size=2),
    some(
        {
            "selector": st.dictionaries(words, words, min_size=1, max_size=2),
            "type": st.just("ClusterIP"),
            "publishNotReadyAddresses": st.just(True),
        }
    ),
)


def _unique_ports(given: list[Json]) -> list[Json]:
    return list({(port["port"], port.get("protocol", "TCP")): port for port in given}.values())


broken_services = st.builds(
    lambda base, fault: {"spec": {**base["spec"], **fault}},
    services,
    st.sampled_from(
        [
            {"zz": 1},
            {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]},
            {"ports": {"a": 1}},
            {"ports": [80]},
            {"selector": "a"},
            {"externalIPs": "a"},
        ]
    ),
)

variables = st.one_of(
    st.builds(lambda name, rest: {"name": name, **rest}, st.sampled_from(["A", "B"]), some({"value": words})),
    st.just({"name": "F", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}),
)
containers = st.builds(
    lambda name, image, rest: {"name": name, "image": f"{image}:1", **rest},
    words,
    words,
    some(
        {
            "env": st.lists(variables, min_size=1, max_size=2, unique_by=lambda each: each["name"]),
            "args": st.lists(words, min_size=1, max_size=2),
            "ports": st.lists(
                some({"protocol": st.sampled_from(["TCP", "UDP"])}).map(lambda rest: {"containerPort": 80, **rest}),
                min_size=1,
                max_size=1,
            ),
            "resources": st.sampled_from(
                [{}, {"limits": {"cpu": "1"}}, {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}}]
            ),
            "livenessProbe": st.just({"httpGet": {"path": "/", "port": 80}}),
        }
    ),
)


def _deployment(containers: list[Json], pod: Json, labels: Json, rest: Json) -> Json:
    metadata = {"labels": {"app": "x", **labels}}
    spec = {"containers": containers, **pod}
    return {
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": metadata, "spec": spec}, **rest}
    }


deployments = st.builds(
    _deployment,
    st.lists(containers, min_size=1, max_size=2, unique_by=lambda each: each["name"]),
    some(
        {
            "priorityClassName": words,
            "nodeSelector": st.dictionaries(words, words, min_size=1, max_size=2),
            "terminationGracePeriodSeconds": numbers,
            "securityContext": st.sampled_from([{}, {"runAsUser": 1}]),
            "tolerations": st.just([{"key": "a", "operator": "Exists"}]),
        }
    ),
    st.dictionaries(words, words, max_size=2),
    some(
        {
            "replicas": numbers,
            "paused": st.just(True),
            "strategy": st.sampled_from(
                [{"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, {"type": "RollingUpdate"}]
            ),
        }
    ),
)
broken_deployments = st.builds(
    lambda base, fault: {"spec": {**base["spec"], **fault}},
    deployments,
    st.sampled_from(
        [{"zz": 1}, {"replicas": "x"}, {"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}}]
    ),
)
