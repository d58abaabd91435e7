"""What the schema of a custom kind lets in: every keyword, formats, rules, and what of an old object may stay as it is.

Source: Kubernetes, "Extend the Kubernetes API with CustomResourceDefinitions": validation, ratcheting, rules of transition.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

from tests.support.cluster.http_api import Api, ApiResponse, Json
from tests.support.conformance.custom import DEFINITIONS, established

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
PAIR = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}


def formed(name: str, **more: Any) -> Json:
    return {"type": "string", "format": name, **more}


def ruled(*rules: str, **more: Any) -> Json:
    return {**more, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


def keyed(**fields: Json) -> Json:
    items = {"type": "object", "required": ["k"], "properties": {"k": TEXT, **fields}}
    lists = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    return {"type": "array", "maxItems": 5, "items": items, **lists}


FEW = {"type": "array", "maxItems": 5, "items": {**TEXT, "maxLength": 3}}
SET = {**FEW, "x-kubernetes-list-type": "set"}

KEYWORDS: dict[str, tuple[Json, list[Any]]] = {
    "dateTime": (formed("date-time"), ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.5+01:00", "x", "2020-01-01"]),
    "date": (formed("date"), ["2020-01-31", "2020-01-32", "x"]),
    "duration": (formed("duration"), ["5m", "1h30m", "-1.5s", "1 day", "2 weeks", "x", "1 foot", ""]),
    "ipv4": (formed("ipv4"), ["1.2.3.4", "::1", "x"]),
    "ipv6": (formed("ipv6"), ["::1", "1.2.3.4"]),
    "cidr": (formed("cidr"), ["10.0.0.0/8", "10.1.2.3/8", "::/0", "10", "10.0.0.0/x", "10.0.0.0/33"]),
    "uri": (formed("uri"), ["https://a.example/x?y", "/a", "x y", ":"]),
    "uuid": (formed("uuid"), ["123e4567-e89b-12d3-a456-426614174000", "x"]),
    "bytes": (formed("byte"), ["YQ==", "!"]),
    "email": (formed("email"), ["a@example.com", "x", "@"]),
    "shortName": (formed("k8s-short-name"), ["a-b", "a.b", "A"]),
    "longName": (formed("k8s-long-name"), ["a-b.c", "a_b"]),
    "noFormat": (formed("quux"), ["a"]),
    "int32": ({**WHOLE, "format": "int32"}, [2**31 - 1, 2**31, -(2**31) - 1]),
    "float": ({"type": "number", "format": "float"}, [1.5, 1e39]),
    "above": ({**WHOLE, "minimum": 1, "exclusiveMinimum": True}, [1, 2]),
    "below": ({"type": "number", "maximum": 1, "exclusiveMaximum": True}, [1, 0.5]),
    "fives": ({**WHOLE, "multipleOf": 5}, [10, 0, 11]),
    "tenths": ({"type": "number", "multipleOf": 0.1}, [0.3, 0.35]),
    "some": ({**TEXTS, "minProperties": 1}, [{}, {"a": "b"}]),
    "few": ({**TEXTS, "maxProperties": 1}, [{"a": "b"}, {"a": "b", "c": "d"}]),
    "choice": ({**TEXT, "enum": ["a"], "nullable": True}, [None, "a", "b"]),
    "either": ({"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+%$"}, [1, "5%", "x", 1.5, True, None]),
    "open": ({"x-kubernetes-preserve-unknown-fields": True, "properties": {"k": WHOLE}}, [{"k": "x"}, {"z": 1}, 1]),
    "embedded": ({**EMBEDDED, "properties": {"spec": PAIR}}, [POD, {"kind": "Pod"}, {}, {**POD, "spec": {"a": 1}}]),
    "free": ({**EMBEDDED, "x-kubernetes-preserve-unknown-fields": True}, [{**POD, "any": 1}, {"apiVersion": "v1"}]),
    "all": ({**TEXT, "allOf": [{"minLength": 2}, {"maxLength": 3}]}, ["a", "ab", "abcd"]),
    "any": ({**PAIR, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{}, {"a": "1"}, {"a": "1", "b": "2"}]),
    "one": ({**PAIR, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{}, {"a": "1"}, {"a": "1", "b": "2"}]),
    "not": ({**PAIR, "not": {"required": ["a", "b"]}}, [{"a": "1"}, {"a": "1", "b": "2"}]),
    "late": (
        ruled("self > timestamp('2020-01-01T00:00:00Z')", **formed("date-time")),
        ["2021-01-01T00:00:00Z", "2019-01-01T00:00:00Z"],
    ),
    "long": (ruled("self > duration('1m')", **formed("duration")), ["1h", "1s"]),
    "byte": (ruled("size(self) == 1", **formed("byte")), ["YQ==", "YWE="]),
    "double": (ruled("self == 1.0", type="number"), [1, 2]),
    "sets": (
        ruled("self.a + self.b == self.l", type="object", properties={"a": SET, "b": SET, "l": FEW}),
        [{"a": ["x", "y"], "b": ["z", "x"], "l": found} for found in (["z", "y", "x"], ["x", "y", "z", "x"])],
    ),
    "ordered": (ruled("self == ['x', 'y']", **SET), [["y", "x"], ["x"]]),
    "reversed": (ruled("['x', 'y'] == self", **SET), [["y", "x"], ["x", "y"]]),
    "values": ({"type": "object", "additionalProperties": ruled("self > 0", **WHOLE)}, [{"a": 1}, {"a-b": 0}]),
}
"""By a name: what a field may be, and values of it."""
JUNCTORS = frozenset(("allOf", "anyOf", "oneOf", "not", "format"))
"""Keywords whose mistakes the real server tells of the whole object, now and then."""


def schema(fields: Json) -> Json:
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}, "status": status}}


class Kind:
    """One custom kind on both servers."""

    def __init__(self, both: tuple[Api, Api], fields: Json) -> None:
        self.both = both
        self.group = f"g{uuid4().hex[:8]}.test"
        self.path = f"/apis/{self.group}/v1/namespaces/default/probes"
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema(fields)}}
        names = {"plural": "probes", "kind": "Probe"}
        spec = {"group": self.group, "scope": "Namespaced", "names": names, "versions": [version]}
        for api in both:
            created = api.post(DEFINITIONS, {"metadata": {"name": f"probes.{self.group}"}, "spec": spec})
            assert created.code == 201, created.body
            assert api.eventually(partial(self._is_served, api))

    def tighten(self, fields: Json, sign: Json) -> None:
        """Give the kind another schema; it is served when `sign` is refused."""
        change = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema(fields)}]
        for api in self.both:
            assert api.json_patch(f"{DEFINITIONS}/probes.{self.group}", change).code == 200
            assert api.eventually(partial(self._is_refused, api, sign))

    def _is_refused(self, api: Api, spec: Json) -> bool:
        return api.post(f"{self.path}?dryRun=All", self.obj("sign", spec)).code == 422

    def _is_served(self, api: Api) -> bool:
        return established(api, f"probes.{self.group}") and api.get(self.path).code == 200

    def obj(self, name: str, spec: Json) -> Json:
        return {"apiVersion": f"{self.group}/v1", "kind": "Probe", "metadata": {"name": name}, "spec": spec}

    def delete(self) -> None:
        for api in self.both:
            api.delete(f"{DEFINITIONS}/probes.{self.group}")


def told(answer: ApiResponse) -> tuple[int, list[tuple[str, str]]]:
    return answer.code, [cause for cause in answer.causes if cause[1] != "<nil>"]


def test_every_keyword_is_judged_alike(both: tuple[Api, Api]) -> None:
    kind = Kind(both, {name: field for name, (field, _) in KEYWORDS.items()})
    found: list[dict[str, Any]] = []
    for api in both:
        answers: dict[str, Any] = {}
        for name, (field, values) in KEYWORDS.items():
            for value in values:
                answer = api.post(f"{kind.path}?dryRun=All", kind.obj("a", {name: value}))
                whole = JUNCTORS.isdisjoint(field)
                answers[f"{name}: {value}"] = told(answer) if whole else answer.code
        found.append(answers)
    kind.delete()
    real, ours = found
    assert ours == real
    assert {201, 422} == {answer if isinstance(answer, int) else answer[0] for answer in real.values()}


ANYTHING: Json = {"x-kubernetes-preserve-unknown-fields": True}
OPEN: Json = {"type": "object", "properties": {"s": TEXT}, **ANYTHING}
LOOSE: Json = {
    "a": TEXT,
    "b": TEXT,
    "n": WHOLE,
    "l": {"type": "array", "items": TEXT},
    "m": keyed(v=TEXT),
    "o": PAIR,
    "t": TEXTS,
    "r": {"type": "object", "properties": {"i": WHOLE, "j": WHOLE}},
    "d": OPEN,
    "e": OPEN,
    "f": {"type": "object", "properties": {"s": TEXT, "x": ANYTHING}},
    "k": keyed(v=TEXT),
}
STORED: Json = {
    "a": "long",
    "n": 1,
    "l": ["x", "y"],
    "m": [{"k": "1", "v": "long"}, {"k": "2"}],
    "o": {"a": "1"},
    "t": {"p": "long", "q": "1"},
    "r": {"i": 1, "j": 1},
    "f": {"s": "a", "x": 1},
    "k": [{"k": "1", "v": "one"}, {"k": "2"}],
}
SHORT = {**TEXT, "maxLength": 1}
TIGHT: Json = {
    "a": SHORT,
    "b": TEXT,
    "n": {**WHOLE, "minimum": 5},
    "l": {"type": "array", "maxItems": 1, "items": ruled("self == 'q'", **SHORT, enum=["q"])},
    "m": keyed(v=SHORT, w=ruled("self >= oldSelf", **WHOLE)) | {"maxItems": 3},
    "o": {**PAIR, "required": ["b"]},
    "t": {"type": "object", "additionalProperties": SHORT},
    "r": ruled("self.i > 7", type="object", properties={"i": ruled("self > 5", **WHOLE), "j": WHOLE}),
    "d": {**OPEN, "maxProperties": 1},
    "e": ruled("self.s == 'b'", **OPEN),
    "f": ruled("self.s == 'b'", type="object", properties={"s": TEXT, "x": ANYTHING}),
    "k": ruled("size(self) > 2", **keyed(v=TEXT)),
}
APART: Json = {"d": {"s": "a", "x": 1}, "e": {"s": "a", "x": 1}}
"""Of members that a schema does not have nobody can tell whether they change: so these are judged at every write."""
CHANGES: list[Json] = [
    {"b": "other"},
    {"a": "long too"},
    {"a": "s"},
    {"n": 2},
    {"n": 6},
    {"l": ["x", "z"]},
    {"l": ["q"]},
    {"m": [{"k": "1", "v": "long"}, {"k": "2"}, {"k": "3", "v": "long"}]},
    {"m": [{"k": "2"}, {"k": "1", "v": "long", "w": 1}]},
    {"m": [{"k": "2", "v": "long"}, {"k": "1", "v": "s"}]},
    {"o": {"a": "2"}},
    {"o": {"b": "2"}},
    {"t": {"q": "2"}},
    {"t": {"p": "longer"}},
    {"t": {"r": "long"}},
    {"r": {"j": 2}},
    {"r": {"i": 6}},
    {"r": {"i": 8}},
    {"r": None},
    {"f": {"x": 2}},
    {"f": {"x": True}},
    {"f": {"x": {"y": 1}}},
    {"k": [{"k": "2"}, {"k": "1", "v": "one"}]},
    {"k": [{"k": "2"}, {"k": "1", "v": "two"}]},
]


def test_what_does_not_change_may_break_a_schema_that_became_stricter(both: tuple[Api, Api]) -> None:
    kind = Kind(both, LOOSE)
    for api in both:
        for name, spec in {"a": STORED, **{name: {name: value} for name, value in APART.items()}}.items():
            assert api.post(kind.path, kind.obj(name, spec)).code == 201
    kind.tighten(TIGHT, {"a": "long"})
    found = []
    for api in both:
        answers = {str(one): told(api.merge(f"{kind.path}/a?dryRun=All", {"spec": one})) for one in CHANGES}
        for name in ("a", *APART):
            label = {"metadata": {"labels": {"a": "b"}}}
            answers[f"label of {name}"] = told(api.merge(f"{kind.path}/{name}?dryRun=All", label))
        answers["apply"] = told(api.apply(f"{kind.path}/a?dryRun=All", kind.obj("a", {"b": "x"}), force=True))
        found.append(answers)
    kind.delete()
    real, ours = found
    assert ours == real
    assert {200, 422} == {code for code, _ in real.values()}


TRANSITIONS: Json = {
    "same": ruled("self == oldSelf", **TEXT),
    "start": {
        **TEXT,
        "x-kubernetes-validations": [
            {"rule": "oldSelf.hasValue() ? self == oldSelf.value() : self == 'start'", "optionalOldSelf": True}
        ],
    },
    "grow": ruled("oldSelf.all(one, one in self)", type="array", maxItems=3, items={**TEXT, "maxLength": 3}),
    "items": keyed(v=ruled("self >= oldSelf", **WHOLE)),
    "set": ruled("self == oldSelf", **SET),
    "list": ruled("self == oldSelf", **FEW),
    "map": ruled("self == oldSelf", "size(self + oldSelf) == size(oldSelf)", **keyed(v={**TEXT, "maxLength": 3})),
    "holder": ruled("self == oldSelf", type="object", properties={"set": SET}),
    "values": {"type": "object", "maxProperties": 3, "additionalProperties": ruled("self >= oldSelf", **WHOLE)},
    "given": ruled("self >= oldSelf", **WHOLE, default=1),
}


STEPS: list[tuple[Json, Json]] = [
    ({"same": "a"}, {"same": "b"}),
    ({"same": "a"}, {"same": None}),
    ({"start": "b"}, {}),
    ({"start": "start"}, {"start": "b"}),
    ({"start": "start"}, {"same": "a"}),
    ({}, {"start": "b"}),
    ({}, {"start": "start"}),
    ({"grow": ["a"]}, {"grow": ["b"]}),
    ({"grow": ["a"]}, {"grow": ["b", "a"]}),
    ({"items": [{"k": "a", "v": 3}]}, {"items": [{"k": "b", "v": 1}, {"k": "a", "v": 2}]}),
    ({"items": [{"k": "a", "v": 3}]}, {"items": [{"k": "b", "v": 1}, {"k": "a", "v": 4}]}),
    *(({name: ["a", "b"]}, {name: after}) for name in ("set", "list") for after in (["b", "a"], ["a", "c"])),
    ({"map": [{"k": "a", "v": "1"}, {"k": "b"}]}, {"map": [{"k": "b"}, {"k": "a", "v": "1"}]}),
    ({"map": [{"k": "a", "v": "1"}, {"k": "b"}]}, {"map": [{"k": "b"}, {"k": "a", "v": "2"}]}),
    ({"holder": {"set": ["a", "b"]}}, {"holder": {"set": ["b", "a"]}}),
    ({"values": {"a": 3}}, {"values": {"a": 2}}),
    ({"values": {"a": 3}}, {"values": {"a": None, "b": 2}}),
    ({"given": 2}, {"given": None}),
    ({"given": 0}, {"given": None}),
]
"""What is created, and how it is changed then."""


def test_rules_of_transition(both: tuple[Api, Api]) -> None:
    kind = Kind(both, TRANSITIONS)
    found = []
    for api in both:
        answers = {}
        for index, (before, change) in enumerate(STEPS):
            created = told(api.post(kind.path, kind.obj(f"o{index}", before)))
            answers[f"{before} {change}"] = created, told(api.merge(f"{kind.path}/o{index}", {"spec": change}))
        found.append(answers)
    kind.delete()
    real, ours = found
    assert ours == real
    assert {200, 422, 404} == {code for _, (code, _) in real.values()}


def test_a_status_that_is_not_written_apart_is_content(both: tuple[Api, Api]) -> None:
    """Each change of it is a new generation."""
    kind = Kind(both, {"a": TEXT})
    for api in both:
        api.post(kind.path, {**kind.obj("a", {"a": "x"}), "status": {"b": 1}})
        changed = api.merge(f"{kind.path}/a", {"status": {"b": 2}})
        assert (changed.body["status"], changed.body["metadata"]["generation"]) == ({"b": 2}, 2)
        assert api.merge(f"{kind.path}/a/status", {"status": {"b": 3}}).code == 404
    kind.delete()
