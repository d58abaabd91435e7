"""`Cluster` in Git: what is read, what is refused and how that is said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from applier.token_bucket import Rate
from gitops.fleet.cluster_spec import (
    ClusterSpec,
    ClusterTimeouts,
    FileAccess,
    OnRemove,
    ProfileAccess,
    SecretAccess,
    read_cluster,
)
from renderer import documents
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import SourceLocation

HEAD = """\
apiVersion: levelgate.dev/v1alpha1
kind: Cluster
metadata:
  name: eu-1
"""
ACCESS = "  access: {file: eu-1}\n"
TOKEN = "eyJhbGciOi.not-a-token"


def declared(text: str) -> DeclaredObject:
    (document,), problems = documents.load("c.yaml", text.encode())
    assert problems == []
    return DeclaredObject(document.value, SourceLocation("c.yaml", document.line), document)


def spec(text: str, head: str = HEAD) -> ClusterSpec:
    found = read_cluster(declared(f"{head}spec:\n{text}"))
    assert isinstance(found, ClusterSpec), found
    return found


def mistakes(text: str, head: str = HEAD) -> list[str]:
    found = read_cluster(declared(f"{head}spec:\n{text}"))
    assert isinstance(found, list), found
    return [str(problem) for problem in found]


def test_everything_that_a_cluster_can_say() -> None:
    head = HEAD.replace("name: eu-1", "name: capi#eu-1\n  labels: {wave: canary, region: eu}")
    found = spec(
        """\
  access: {secretRef: {name: eu-1, key: value}}
  namespaceMap: {shop: shop-eu}
  qps: 20
  burst: 40
  paused: true
  timeouts: {request: 1m, unreachable: 20s}
  onRemove: Delete
""",
        head,
    )
    assert found == ClusterSpec(
        name="capi#eu-1",  # type: ignore[arg-type]
        labels={"wave": "canary", "region": "eu"},
        access=SecretAccess("eu-1", "value"),
        namespaces={"shop": "shop-eu"},
        rate=Rate(20.0, 40),
        is_paused=True,
        timeouts=ClusterTimeouts(request=timedelta(minutes=1), unreachable=timedelta(seconds=20)),
        on_remove=OnRemove.DELETE,
        manifest=found.manifest,
        origin=SourceLocation("c.yaml", 1),
    )


def test_what_a_cluster_need_not_say() -> None:
    found = spec(ACCESS)
    assert (found.access, found.labels, found.namespaces) == (FileAccess("eu-1"), {}, {})
    assert (found.rate, found.is_paused) == (None, False)
    assert (found.timeouts, found.on_remove) == (ClusterTimeouts(None, None), OnRemove.ORPHAN)
    assert spec("  access: {profile: eu-1}\n").access == ProfileAccess("eu-1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  access: {}\n", "c.yaml:6: spec.access: has nothing; give exactly one of secretRef, file and profile"),
        (
            "  access: {file: null}\n",
            "c.yaml:6: spec.access: has nothing; give exactly one of secretRef, file and profile",
        ),
        (
            "  access: {secretRef: {name: a, key: null}}\n",
            "c.yaml:6: spec.access.secretRef.key: is required and not given",
        ),
        (
            "  access: {file: a, profile: b}\n",
            "c.yaml:6: spec.access: has file and profile; give exactly one of secretRef, file and profile",
        ),
        ("  access: {fiel: a}\n", "c.yaml:6: spec.access.fiel: no field 'fiel'; did you mean 'file'?"),
        ("  access: {secretRef: {name: a}}\n", "c.yaml:6: spec.access.secretRef.key: is required and not given"),
        (
            "  access: {secretRef: {name: a, kye: b}}\n",
            "c.yaml:6: spec.access.secretRef.kye: no field 'kye'; did you mean 'key'?",
        ),
        (f"{ACCESS}  pasued: true\n", "c.yaml:7: spec.pasued: no field 'pasued'; did you mean 'paused'?"),
        (
            f"{ACCESS}  onRemove: delete\n",
            "c.yaml:7: spec.onRemove: 'delete' is not one of Orphan, Delete; did you mean 'Delete'?",
        ),
        (
            f"{ACCESS}  burst: 3\n",
            "c.yaml:7: spec.burst: has no effect without qps; set qps too, or remove burst",
        ),
        (f"{ACCESS}  qps: 0.5\n", "c.yaml:7: spec.qps: 0.5 is below the minimum 1"),
        (f"{ACCESS}  qps: 20000\n", "c.yaml:7: spec.qps: 20000 is above the maximum 10000"),
        (f"{ACCESS}  qps: 5\n  burst: 0\n", "c.yaml:8: spec.burst: 0 is below the minimum 1"),
        (f"{ACCESS}  qsp: 5\n", "c.yaml:7: spec.qsp: no field 'qsp'; did you mean 'qps'?"),
        (
            f"{ACCESS}  timeouts:\n    request: 0s\n",
            "c.yaml:8: spec.timeouts.request: 0s is not within 1s to 5m; write a duration such as 30s, or remove the field",
        ),
        (
            f"{ACCESS}  timeouts: {{unreachable: 6m}}\n",
            "c.yaml:7: spec.timeouts.unreachable: 6m is not within 1s to 5m; write a duration such as 30s, or remove the field",
        ),
        (
            f"{ACCESS}  timeouts: {{request: soon}}\n",
            "c.yaml:7: spec.timeouts.request: 'soon' is not a duration; write for example 90s, 30m, 1h30m or 2d",
        ),
        (
            f"{ACCESS}  timeouts: {{requests: 30s}}\n",
            "c.yaml:7: spec.timeouts.requests: no field 'requests'; did you mean 'request'?",
        ),
        (
            f"{ACCESS}  namespaceMap: {{shop: Shop}}\n",
            "c.yaml:7: spec.namespaceMap.shop: 'Shop' is not the name of a namespace; write an entry such as shop: shop-eu",
        ),
        (
            "  paused: false\n",
            "c.yaml:5: spec.access: is required and not given; name the credentials, such as secretRef: {name: eu-1, key: value}",
        ),
    ],
)
def test_a_mistake_says_what_where_and_what_to_do(text: str, said: str) -> None:
    assert mistakes(text) == [said]


@pytest.mark.parametrize("name", ["../eu-1", "clusters/eu-1", "/etc/eu-1", "..", ".", "", "a\\nb", "a b"])
def test_a_file_is_a_plain_name(name: str) -> None:
    """Nothing leads out of the operator's directory."""
    (said,) = mistakes(f'  access: {{file: "{name}"}}\n')
    rule = "write letters, digits, dots, dashes and underscores, without a path"
    assert said == f"c.yaml:6: spec.access.file: is not the plain name of a file; {rule}"


@pytest.mark.parametrize(
    "text",
    [
        f"{ACCESS}  kubeconfig: {TOKEN}\n",
        f"{ACCESS}  token: {TOKEN}\n",
        f"{ACCESS}  exec: {{command: {TOKEN}}}\n",
        f"  access: {{token: {TOKEN}}}\n",
        f"  access: {{kubeconfig: {{users: [{TOKEN}]}}}}\n",
        f"  access: {{file: x, clientKeyData: {TOKEN}}}\n",
        f"  access: {{secretRef: {{name: a, key: b, token: {TOKEN}}}}}\n",
    ],
)
def test_credentials_are_refused_for_a_reason_and_not_repeated(text: str) -> None:
    said = mistakes(text)
    assert any("are rejected in Git, because many people can read the whole history" in one for one in said)
    assert TOKEN not in "".join(said)


@pytest.mark.parametrize(
    "text",
    [
        f"  access: {TOKEN}\n",
        f"  access: {{secretRef: {TOKEN}}}\n",
        f"  access: {{file: [{TOKEN}]}}\n",
        f'  access: {{file: "apiVersion: v1\\nusers: {TOKEN}"}}\n',
        f'  access: {{secretRef: {{name: "a:{TOKEN}", key: b}}}}\n',
    ],
)
def test_what_may_be_a_credential_is_not_repeated(text: str) -> None:
    assert TOKEN not in "".join(mistakes(text))


def test_the_name_is_that_of_a_cluster() -> None:
    """S3-10."""
    (said,) = mistakes(ACCESS, HEAD.replace("eu-1", "EU_1"))
    assert said.startswith("c.yaml:4: metadata.name: 'EU_1' cannot name a cluster; write at most 63 lowercase letters")
    (said,) = mistakes(ACCESS, HEAD.replace("eu-1", "eu-1\n  labels: {wave: [a]}"))
    assert said.startswith("c.yaml:5: metadata.labels: ['a'] cannot be the value of the label wave")


def test_local_is_reached_by_the_program_itself() -> None:
    local = HEAD.replace("eu-1", "local")
    assert spec("  paused: false\n", local).access is None
    (said,) = mistakes(ACCESS, local)
    assert said.startswith("c.yaml:6: spec.access: local is the hub's own cluster; remove access")


def test_what_nothing_obeys_for_local_is_refused() -> None:
    local = HEAD.replace("eu-1", "local")
    paused, removed = mistakes("  paused: true\n  onRemove: Delete\n", local)
    assert paused.startswith("c.yaml:6: spec.paused: local cannot be paused in Git; run `levelgate suspend --all`")
    assert removed.startswith("c.yaml:7: spec.onRemove: local cannot be removed; remove the field")


def test_all_mistakes_are_told_together() -> None:
    said = mistakes("  access: {}\n  burst: x\n  onremove: Delete\n", HEAD.replace("v1alpha1", "v2") + "extra: 1\n")
    assert [one.split(": ")[1] for one in said] == ["apiVersion", "extra", "spec.access", "spec.burst", "spec.onremove"]


def test_a_burst_is_twice_what_a_second_allows_unless_it_is_given() -> None:
    assert spec(f"{ACCESS}  qps: 2.5\n").rate == Rate(2.5, 5)
    assert spec(f"{ACCESS}  qps: 2.5\n  burst: 1\n").rate == Rate(2.5, 1)


@pytest.mark.parametrize("field", ["qps: 5", "timeouts: {request: 5s}"])
def test_the_hubs_own_cluster_has_no_limits_of_its_own(field: str) -> None:
    (said,) = mistakes(f"  {field}\n", HEAD.replace("eu-1", "local"))
    assert said.endswith(
        "local uses Levelgate's own connection, which the other work of the hub shares; remove the field"
    )
