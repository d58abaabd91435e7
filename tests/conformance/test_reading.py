"""Lists, selectors, pages and the shapes of objects."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.support.cluster.http_api import Api, Json

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIALS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def five(api: Api, configs: str) -> str:
    """The path of five ConfigMaps n0 to n4; n0 and n1 have labels."""
    labels: list[Json] = [{"tier": "web", "n": "5"}, {"tier": "db", "n": "10"}, {}, {}, {}]
    for number, found in enumerate(labels):
        body = {"metadata": {"name": f"n{number}", "labels": found}, "data": {"a": "1"}}
        assert api.post(configs, body).code == 201
    return configs


def names(page: Json) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("tier=web", ["n0"]),
        ("tier%3D%3Dweb", ["n0"]),
        ("tier!=web", ["n1", "n2", "n3", "n4"]),
        ("tier%20in%20(web,db)", ["n0", "n1"]),
        ("tier%20in%20(web,db),n%3D10", ["n1"]),
        ("tier%20notin%20(web)", ["n1", "n2", "n3", "n4"]),
        ("tier", ["n0", "n1"]),
        ("!tier", ["n2", "n3", "n4"]),
        ("n%3E7", ["n1"]),
        ("n%3C7", ["n0"]),
        ("tier%3D", []),
        ("", ["n0", "n1", "n2", "n3", "n4"]),
    ],
)
def test_label_selectors(api: Api, five: str, selector: str, found: list[str]) -> None:
    assert names(api.get(f"{five}?labelSelector={selector}").body) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name%3Dn1", ["n1"]),
        ("metadata.name!%3Dn1", ["n0", "n2", "n3", "n4"]),
        ("metadata.name%3Dn1,metadata.namespace%3Dother", []),
    ],
)
def test_field_selectors(api: Api, five: str, selector: str, found: list[str]) -> None:
    assert names(api.get(f"{five}?fieldSelector={selector}").body) == found


def test_fields_that_only_some_kinds_can_be_selected_by(api: Api, home: str) -> None:
    secrets = f"/api/v1/namespaces/{home}/secrets"
    for name, kind in (("a", "example.com/x"), ("b", "Opaque")):
        assert api.post(secrets, {"metadata": {"name": name}, "type": kind}).code == 201
    assert names(api.get(f"{secrets}?fieldSelector=type%3DOpaque").body) == ["b"]


LABELS = [
    *(
        "tier,",
        "tier=web,",
        ",tier",
        ",",
        "  ",
        " tier = web ",
        "tier==web,n>4",
        "tier\t=\nweb",
        "tier=web db",
        "n gt 4",
    ),
    *("n>9223372036854775807", "n>9223372036854775808", "n>-1", "n>+4", "n>4 5", "n>", "n>5,n<11", "n>5,"),
    *("in in (x)", "!in", "tier=in", "tier in (in,notin)", "tier notin (in),tier=db", "tier in (web) n", "(tier)"),
    *(
        "tier in (web,)",
        "tier in (,web)",
        "tier in (,,web)",
        "tier in ()",
        "tier in (web",
        "tier in (web),",
        "tier!web",
    ),
    *("a.b/c", "A.b/c", "a.b/", "/c", "a.b/c/d", "a" * 254 + "/b", "x" * 63, "x" * 64, "tier=" + "x" * 64, "tier=-a"),
]
FIELDS = [
    *("metadata.name=n1,", "metadata.name = n1", " metadata.name=n1", "metadata.name=n1 ", "metadata.name=n1=n2"),
    *(r"metadata.name=n\1", r"metadata.name=n1\,", r"metadata.name!=a\=b", "metadata.name===n1", "metadata.name!n1"),
    *("=x", "!metadata.name=n1", "metadata.name=n1,metadata.name=n2", "metadata.uid=x", ","),
]
PODS = [
    *("spec.schedulerName=own", "spec.hostNetwork=true", "spec.hostNetwork=false", "spec.restartPolicy=Never"),
    *("status.nominatedNodeName=", "status.phase!=Pending", "spec.priority=0"),
]
OPTIONS = [
    *("limit=", "limit=-1", "limit=99999999999999999999", "limit=1e1", "limit=1&resourceVersion=0", "timeoutSeconds=x"),
    *("resourceVersionMatch=Exact&resourceVersion=0", "resourceVersion=18446744073709551615", "resourceVersion=-1"),
    *("resourceVersion=18446744073709551616", "sendInitialEvents=false", "watch=FALSE", "watch=0", "continue=e30"),
    *("resourceVersionMatch=NotOlderThan&resourceVersion=0&limit=2", "continue=x&resourceVersionMatch=NotOlderThan"),
    *(f"continue={token}" for token in ("eyJ2IjoibWV0YS5rOHMuaW8vdjIiLCJydiI6MSwic3RhcnQiOiJhXFx1MDAwMCJ9", "e30")),
]
SELECTED = [
    *(f"configmaps?labelSelector={quote(selector)}" for selector in LABELS),
    *(f"configmaps?fieldSelector={quote(selector)}" for selector in FIELDS),
    *(f"pods?fieldSelector={quote(selector)}" for selector in PODS),
    *(f"configmaps?{options}" for options in OPTIONS),
    *("replicationcontrollers?fieldSelector=status.replicas%3D0", "configmaps/n1?resourceVersion=abc", "foos"),
]
EVERYWHERE = [
    *("/api/v1/namespaces?fieldSelector=metadata.namespace%3Dx", "/api/v1/nodes?fieldSelector=metadata.namespace%3Dx"),
    *("/apis/apps/v9/deployments", "/api/v2/pods", "/apis/nope/v1/nopes", "/api/v1/namespaces/default/nodes"),
    "/apis/events.k8s.io/v1/events?fieldSelector=regarding.name%3Dx",
]


def answered(api: Api, path: str) -> tuple[Any, ...]:
    answer = api.get(path)
    if not isinstance(answer.body, dict):
        return answer.code, answer.body
    found = [name for name in names(answer.body) if name != "kube-root-ca.crt"] if "items" in answer.body else []
    return *answer.refusal, answer.causes, found, bool(answer.body.get("metadata", {}).get("continue"))


@pytest.mark.cluster
def test_what_a_list_takes(both: tuple[Api, Api]) -> None:
    labels: list[Json] = [{"tier": "web", "n": "5", "in": "x"}, {"tier": "db", "n": "10", "a.b/c": "1"}, {}]
    specs: list[Json] = [{}, {"hostNetwork": True, "schedulerName": "own", "restartPolicy": "Never"}]
    home = f"l-{uuid4().hex[:8]}"
    for api in both:
        assert api.post("/api/v1/namespaces", {"metadata": {"name": home}}).code == 201
        for number, found in enumerate(labels):
            config: Json = {"metadata": {"name": f"n{number}", "labels": found}}
            assert api.post(f"/api/v1/namespaces/{home}/configmaps", config).code == 201
        for number, spec in enumerate(specs):
            pod: Json = {
                "metadata": {"name": f"p{number}"},
                "spec": {"containers": [{"name": "c", "image": "c"}], **spec},
            }
            assert api.post(f"/api/v1/namespaces/{home}/pods", pod).code == 201
    paths = [*(f"/api/v1/namespaces/{home}/{path}" for path in SELECTED), *EVERYWHERE]
    real, ours = ({path: answered(api, path) for path in paths} for api in both)
    assert ours == real


UNREADABLE_LABELS = [
    *(",tier", "=x", "(tier)", "tier,", "tier,=x", "tier=web db", "!", "!=x", "!!tier", "!tier=x", "tier=(", "tier=!x"),
    *("tier b", "tier in x", "tier in (=)", "tier in (web", "tier in (web,", "tier in (web db)", "tier ===x", "n>x"),
]


@pytest.mark.cluster
def test_the_words_for_a_label_selector_that_cannot_be_read(both: tuple[Api, Api]) -> None:
    paths = [f"/api/v1/configmaps?limit=1&labelSelector={quote(text)}" for text in UNREADABLE_LABELS]
    real, ours = ({path: api.get(path).body["message"] for path in paths} for api in both)
    assert ours == real


def test_pages_show_one_state(api: Api, five: str) -> None:
    first = api.get(f"{five}?limit=2").body
    assert names(first) == ["n0", "n1"]
    assert first["metadata"]["remainingItemCount"] == 3
    assert api.delete(f"{five}/n4").code == 200
    rest = api.get(f"{five}?limit=20&continue={first['metadata']['continue']}").body
    assert names(rest) == ["n2", "n3", "n4"]
    assert rest["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    assert names(api.get(five).body) == ["n0", "n1", "n2", "n3"]


def test_a_page_of_a_selection_does_not_count_the_rest(api: Api, five: str) -> None:
    page = api.get(f"{five}?limit=1&labelSelector=tier").body
    assert names(page) == ["n0"]
    assert "remainingItemCount" not in page["metadata"]
    assert names(api.get(f"{five}?labelSelector=tier&continue={page['metadata']['continue']}").body) == ["n1"]


def test_a_page_takes_no_resource_version(api: Api, five: str) -> None:
    token = api.get(f"{five}?limit=1").body["metadata"]["continue"]
    assert api.get(f"{five}?resourceVersion=5&continue={token}").refusal == (400, "BadRequest")


def test_a_list_says_what_it_is_and_its_items_do_not(api: Api, five: str) -> None:
    page = api.get(five).body
    assert (page["kind"], page["apiVersion"]) == ("ConfigMapList", "v1")
    assert set(page["items"][0]) == {"metadata", "data"}
    one = api.get(f"{five}/n0").body
    assert (one["kind"], one["apiVersion"]) == ("ConfigMap", "v1")


def test_metadata_only(api: Api, five: str) -> None:
    one = api.get(f"{five}/n0", accept=PARTIAL).body
    assert set(one) == {"kind", "apiVersion", "metadata"}
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one["metadata"] == api.get(f"{five}/n0").body["metadata"]
    page = api.get(five, accept=PARTIALS).body
    assert (page["kind"], page["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert page["items"][0] == one


def test_a_table_for_people(api: Api, five: str) -> None:
    table = api.get(five, accept=TABLE).body
    assert (table["kind"], [column["name"] for column in table["columnDefinitions"]]) == (
        "Table",
        ["Name", "Data", "Age"],
    )
    assert [row["cells"][:2] for row in table["rows"]] == [[f"n{number}", 1] for number in range(5)]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    bare = api.get(f"{five}?includeObject=None", accept=TABLE).body
    assert bare["rows"][0]["object"] is None
    assert api.get(f"{five}/n0", accept=TABLE).body["rows"][0]["cells"][:2] == ["n0", 1]


def test_all_namespaces(api: Api, five: str) -> None:
    found = api.get("/api/v1/configmaps?labelSelector=tier").body
    assert {"n0", "n1"} <= set(names(found))


def test_discovery_finds_a_kind_in_both_forms(api: Api) -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = api.get("/apis", accept=aggregated).body["items"]
    apps = next(group for group in groups if group["metadata"].get("name") == "apps")
    kinds = {entry["responseKind"]["kind"]: entry for entry in apps["versions"][0]["resources"]}
    assert kinds["Deployment"]["scope"] == "Namespaced"
    assert kinds["Deployment"]["shortNames"] == ["deploy"]
    legacy = api.get("/apis/apps/v1").body["resources"]
    assert next(entry for entry in legacy if entry["name"] == "deployments")["kind"] == "Deployment"
    assert "apps" in [group["name"] for group in api.get("/apis").body["groups"]]
    assert api.get("/api").body["versions"] == ["v1"]


def test_discovery_is_asked_again_for_nothing(api: Api) -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    first = api.get("/apis", accept=aggregated)
    again = api.send("GET", "/apis", None, {"accept": aggregated, "if-none-match": first.headers["etag"]})
    assert again.code == 304


def test_health(api: Api) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert api.get(path).body == "ok"
    assert api.get("/version").body["major"] == "1"
