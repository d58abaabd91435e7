"""The roles of `deploy/` and of `levelgate generate clusterrole` on real RBAC: each is enough for its commands, and without it they are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitops.cli import invoke
from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform, text
from tests.support.definitions import chain, link

DEPLOY = Path(__file__).parents[2] / "deploy"
RBAC = "rbac.authorization.k8s.io"
OWN = "levelgate-system"
READER = ("levelgate-reader", "levelgate-definitions-reader")
OPERATOR = ("levelgate-operator", "levelgate-definitions-reader")
READS = (
    ("status",),
    ("explain", "ONE"),
    ("explain", "rgd/DEFINITION"),
    ("tree", "source/NAME"),
    ("tree", "ONE"),
    ("events",),
    ("logs",),
    ("history",),
    ("windows",),
    ("wait", "source/NAME", "--timeout", "2m"),
)
ORDERS = {
    OPERATOR: (
        ("hold", "ONE", "--reason", "INC-7"),
        ("release", "ONE"),
        ("suspend", "ONE", "--reason", "INC-7"),
        ("resume", "ONE"),
        ("break-glass", "ONE", "--for", "1h", "--reason", "INC-7"),
        ("reconcile", "ONE"),
    ),
    ("levelgate-approver",): (
        ("suspend", "source/NAME", "--reason", "INC-7"),
        ("resume", "source/NAME"),
        ("pin", "source/NAME", "--revision", "COMMIT", "--reason", "INC-7"),
        ("unpin", "source/NAME"),
        ("approve", "source/NAME", "--commit", "COMMIT"),
        ("reconcile", "source/NAME"),
    ),
}


def granted(platform: CommandPlatform, user: str, roles: list[dict[str, Any]]) -> None:
    """These roles, under names of their own, to this user."""
    kubectl, name = platform.kubectl, f"{user}.{platform.namespace}"
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": name}]
    for number, role in enumerate(roles):
        metadata = {"name": f"{name}.{number}", **{k: v for k, v in role["metadata"].items() if k == "namespace"}}
        reference = {"apiGroup": RBAC, "kind": role["kind"], "name": metadata["name"]}
        body = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
        bound = {**body, "kind": f"{role['kind']}Binding", "roleRef": reference, "subjects": subjects}
        both = {
            "apiVersion": "v1",
            "kind": "List",
            "items": [{**body, "kind": role["kind"], "rules": role["rules"]}, bound],
        }
        kubectl("create", "-f", "-", stdin=json.dumps(both))


def speaking(platform: CommandPlatform, user: str) -> Path:
    """A kubeconfig with which one is this user."""
    found = yaml.safe_load(platform.kubeconfig.read_text())
    for one in found["users"]:
        one["user"]["as"] = f"{user}.{platform.namespace}"
    file = platform.cache.parent / f"{user}.kubeconfig"
    file.write_text(json.dumps(found))
    return file


def roles_of(platform: CommandPlatform, *names: str) -> list[dict[str, Any]]:
    text = (DEPLOY / "people.yaml").read_text().replace("platform.example.com", platform.group)
    text = text.replace("webapp.kro.run", f"chains.{platform.group}").replace(
        "source-platform", f"source-{platform.name}"
    )
    return [one for one in yaml.safe_load_all(text) if one["metadata"]["name"] in names]


def of_other_tests(platform: CommandPlatform) -> dict[str, Any]:
    """Reading what they left in this cluster, which has its definitions from them all."""
    found = json.loads(platform.kubectl("get", "customresourcedefinitions", "-o", "json"))["items"]
    groups = sorted({one["spec"]["group"] for one in found} - {platform.group})
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"]}] if groups else []
    return {"kind": "ClusterRole", "metadata": {"name": "others"}, "rules": rules}


@pytest.fixture
def deployed(platform: CommandPlatform) -> tuple[CommandPlatform, str]:
    files = {"chain.json": chain(platform.group), "one.json": link(platform.group, platform.namespace)}
    commit = platform.repository.commit(files)
    platform.run_once()
    return platform, commit


@pytest.mark.cluster
def test_each_role_of_people_is_enough_for_its_commands_and_needed(
    deployed: tuple[CommandPlatform, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/people.md, "Who may look"; surface 5.2: whoever may patch the object may give the order."""
    platform, commit = deployed
    words = {"NAME": platform.name, "COMMIT": commit, "DEFINITION": f"chains.{platform.group}"}
    one = f"chains.{platform.group}/one"

    def asked(user: str, typed: tuple[str, ...]) -> int:
        line = [one if word == "ONE" else word for word in typed]
        for name, value in words.items():
            line = [word.replace(name, value) if word.isupper() or "/" in word else word for word in line]
        place = ["-n", platform.namespace] if one in line else []
        code = invoke([*line, *place, "--kubeconfig", str(speaking(platform, user))])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        assert code in {0, 1}, (line, said.err)
        return code

    granted(platform, "reader", [*roles_of(platform, *READER), of_other_tests(platform)])
    for user, names in (("operator", OPERATOR), ("approver", ("levelgate-approver",))):
        granted(platform, user, roles_of(platform, *names))
    eventually(lambda: asked("approver", ("reconcile", "source/NAME")) == 0)
    assert {typed: asked("reader", typed) for typed in READS} == dict.fromkeys(READS, 0)
    assert {typed: asked("nobody", typed) for typed in READS} == dict.fromkeys(READS, 1)
    for user, orders in zip(("operator", "approver"), ORDERS.values(), strict=True):
        for typed in orders:
            assert (typed, asked("reader", typed)) == (typed, 1)
            assert (typed, asked(user, typed)) == (typed, 0)


@pytest.mark.cluster
def test_the_role_that_is_generated_of_a_definition_is_what_its_instances_need(
    deployed: tuple[CommandPlatform, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/operations.md, "Run it in a cluster": beside the roles of deploy/kubernetes.yaml."""
    platform, _ = deployed
    manifests = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    base = [one for one in manifests if one["kind"] in {"Role", "ClusterRole"} and one["rules"]]
    base = [one for one in base if one["metadata"]["name"] != "levelgate-platform"]
    assert invoke(["generate", "clusterrole", str(platform.repository.path), "-o", "json"]) == 0
    (generated,) = json.loads(capsys.readouterr().out)["items"]
    granted(platform, "bare", base)
    granted(platform, "runner", [*base, generated])
    platform.repository.commit({"two.json": link(platform.group, platform.namespace, "two", text="two")})
    bare, runner = (replace(platform, kubeconfig=speaking(platform, user)) for user in ("bare", "runner"))
    assert "not allowed" in bare.run_once(check=1).stdout
    eventually(lambda: runner.run_once(check=None).returncode == 0)
    assert text(platform, "two-a") == "two"
