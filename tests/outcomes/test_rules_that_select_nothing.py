"""A rule that selects nothing holds nothing back. Commands say so, with the name that was probably meant, before anybody relies on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gitops.cli import invoke
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, link
from tests.support.demo.session import SAMPLE
from tests.support.git.repository import Repository
from tests.support.scenarios.gates import rule

FREEZE: dict[str, Any] = {
    "kind": "Deny",
    "timeZone": "UTC",
    "schedule": {"once": [{"start": "2026-12-20T00:00", "end": "2099-01-02T00:00"}]},
}
CONFIG = """
apiVersion: levelgate.dev/v1alpha1
kind: Config
cluster: {{name: prod-eu}}
sources:
- name: platform
  url: {url}
  policies: {governs}
"""
WEB_APPS = "webapps.platform.example.com"


def window(**selector: Any) -> str:
    return rule("PropagationWindow", "freeze", {**FREEZE, "selector": selector})


def policy(**spec: Any) -> str:
    return rule("PropagationPolicy", "careful", spec)


def wave(**labels: str) -> dict[str, Any]:
    return {"waves": [{"name": "canary", "selector": {"matchLabels": labels}}, {"name": "others", "selector": {}}]}


@pytest.fixture
def sample(repository: Repository) -> Repository:
    """The sample of the README, committed, without its rules: a policy of a test could not be told from them."""
    shutil.copytree(SAMPLE, repository.path, dirs_exist_ok=True)
    shutil.rmtree(repository.path / "rules")
    repository.commit({}, "The platform")
    return repository


class Levelgate:
    """The command, its exit code expected; what it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        found = invoke(list(arguments))
        captured = self._capsys.readouterr()
        assert found == code, captured.out + captured.err
        return captured.out


@pytest.fixture
def levelgate(capsys: pytest.CaptureFixture[str]) -> Levelgate:
    return Levelgate(capsys)


MISNAMED = [
    (
        window(namespaces=["prdo"]),
        "spec.selector.namespaces[0]: window freeze: no object of the source is in namespace 'prdo'; did you mean 'prod'?; the window governs nothing",
    ),
    (
        window(namespaces=["prod", "stagging"]),
        "spec.selector.namespaces[1]: window freeze: no object of the source is in namespace 'stagging'; did you mean 'staging'?",
    ),
    (
        window(rgds=["webapp.platform.example.com"]),
        f"spec.selector.rgds[0]: window freeze: no definition of the source is called 'webapp.platform.example.com'; did you mean '{WEB_APPS}'?",
    ),
    (
        window(nodes=["deploiment"]),
        "spec.selector.nodes[0]: window freeze: no resource of a definition in the source is called 'deploiment'; did you mean 'deployment'?",
    ),
    (
        window(kinds=["StatefullSet"]),
        "spec.selector.kinds[0]: window freeze: no object of the source is of kind 'StatefullSet'; did you mean 'StatefulSet'?",
    ),
    (
        window(instances={"matchLabels": {"stage": "prdo"}}),
        "spec.selector.instances: window freeze: no instance of the source has the label stage=prdo; did you mean 'prod'?",
    ),
    (
        window(instances={"matchLabels": {"stagge": "prod"}}),
        "no instance of the source has the label stagge=prod; did you mean 'stage'?",
    ),
    (
        window(instances={"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        "no instance of the source has the label tier; the window governs nothing",
    ),
    (
        policy(selector={"rgds": ["site.acme.io"]}),
        "spec.selector.rgds[0]: policy careful: no definition of the source is called 'site.acme.io'; the policy governs nothing",
    ),
    (
        policy(selector={"rgds": [WEB_APPS]}, **wave(stage="canary")),
        "spec.waves[0].selector: policy careful: no instance of the source has the label stage=canary; wave canary is empty",
    ),
    (
        policy(selector={"instances": {"matchLabels": {"stage": "prdo"}}}),
        "spec.selector.instances: policy careful: no instance of the source has the label stage=prdo; did you mean 'prod'?; the policy governs nothing",
    ),
    (
        policy(waves=[{"name": "prod", "selector": {}, "windows": ["freze"]}]),
        "spec.waves[0].windows[0]: policy careful: window 'freze' does not exist; declare the window; wave prod never starts",
    ),
]


@pytest.mark.parametrize(("text", "said"), MISNAMED)
def test_lint_warns_of_what_is_not_there(sample: Repository, levelgate: Levelgate, text: str, said: str) -> None:
    """With its file and line, the name that is near, and exit code 1 with --strict."""
    sample.commit({"rules/new.yaml": text})
    (line,) = [line for line in levelgate("lint", str(sample.path)).splitlines() if said in line]
    assert line.startswith("rules/new.yaml:1: warning: ")
    levelgate("lint", str(sample.path), "--strict", code=1)


MEANT = [
    window(),
    window(namespaces=["prod", "staging"], kinds=["Deployment", "StatefulSet.apps"], nodes=["server"]),
    window(namespaces=["*"], rgds=["*.platform.example.com"]),
    window(clusters=["prod-us"], namespaces=["prod"]),
    window(instances={"matchExpressions": [{"key": "maintenance", "operator": "NotIn", "values": ["any"]}]}),
    window(instances={"matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]}),
    rule("PropagationWindow", "named", {**FREEZE, "byName": True, "selector": {"namespaces": ["nowhere"]}}),
    policy(selector={"rgds": [WEB_APPS]}, waves=[{"name": "some", "selector": {}}]),
    policy(selector={"rgds": ["web*"]}, **wave(stage="staging")),
    policy(
        waves=[
            {"name": "rest-of-them", "selector": {"matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]}}
        ]
    ),
]


@pytest.mark.parametrize("text", MEANT)
def test_what_is_there_is_not_warned_of(sample: Repository, levelgate: Levelgate, text: str) -> None:
    """Everything, globs, what excludes, windows that govern by their name, clusters of another name, and waves for the remainder."""
    sample.commit({"rules/new.yaml": text})
    said = levelgate("lint", str(sample.path))
    assert not [
        line for line in said.splitlines() if "no object of the source" in line or "of the source is called" in line
    ]
    assert "no instance of the source" not in said


def test_a_pattern_that_fits_nothing_is_warned_of(sample: Repository, levelgate: Levelgate) -> None:
    """No name is near to a pattern."""
    sample.commit({"rules/new.yaml": window(namespaces=["prod-*"])})
    assert "no object of the source is in namespace 'prod-*'; the window governs nothing" in levelgate(
        "lint", str(sample.path)
    )


def test_names_that_fit_alone_and_not_together(repository: Repository, levelgate: Levelgate) -> None:
    """The Role is in staging, the ConfigMap in prod: there is none in staging."""
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "prod"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "staging"}}
    files = {"a.json": json.dumps(settings), "b.json": json.dumps(account)}
    repository.commit({**files, "new.json": window(namespaces=["staging"], kinds=["ConfigMap"])})
    said = "spec.selector: window freeze: no object of the source matches all fields of the selector together; the window governs nothing"
    assert said in levelgate("lint", str(repository.path))


def test_a_freeze_for_a_namespace_that_git_already_has(sample: Repository, levelgate: Levelgate) -> None:
    """The Namespace is there, and nothing in it yet."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "soon"}}
    sample.commit({"cluster/soon.json": json.dumps(namespace), "rules/new.yaml": window(namespaces=["soon"])})
    levelgate("lint", str(sample.path), "--strict")


def test_instances_that_another_instance_has_still_to_make(sample: Repository, levelgate: Levelgate) -> None:
    """The WebApps of both Products wait for their databases, and are the only ones."""
    text = {"waves": [{"name": stage, "selector": {"matchLabels": {"stage": stage}}} for stage in ("staging", "prod")]}
    docs = {"apps/prod/docs.yaml": None, "apps/staging/docs.yaml": None}
    sample.commit({**docs, "rules/new.yaml": policy(selector={"rgds": [WEB_APPS]}, **text)})
    levelgate("lint", str(sample.path), "--strict")


def test_instances_of_a_definition_of_another_source(repository: Repository, levelgate: Levelgate) -> None:
    """What its definition is called, and what it makes, nobody here knows. A namespace is known."""
    app: dict[str, Any] = {"apiVersion": "platform.example.com/v1alpha1", "kind": "WebApp"}
    app |= {"metadata": {"name": "a", "namespace": "prod"}, "spec": {}}
    repository.commit({"a.json": json.dumps(app), "new.json": window(rgds=[WEB_APPS], kinds=["Deployment"])})
    levelgate("lint", str(repository.path), "--strict")
    repository.commit({"new.json": window(namespaces=["prdo"])})
    levelgate("lint", str(repository.path), "--strict", code=1)


def test_a_repository_of_rules_alone_never_fails(repository: Repository, levelgate: Levelgate) -> None:
    """They are there for other sources, which are not read: a warning that says so."""
    repository.commit({"new.json": window(namespaces=["prod"])})
    said = "new.json:1: warning: spec.selector.namespaces[0]: window freeze: no object of the source is in namespace 'prod'"
    assert f"{said}; the window governs nothing; the rule may govern other sources, which are not read" in levelgate(
        "lint", str(repository.path), "--strict"
    )


def test_rules_that_govern_all_sources_never_fail(sample: Repository, levelgate: Levelgate, tmp_path: Path) -> None:
    """`policies: All` in the configuration says so."""
    config = tmp_path / "levelgate.yaml"
    sample.commit({"rules/new.yaml": window(namespaces=["prdo"])})
    for governs, code in (("Own", 1), ("All", 0)):
        config.write_text(CONFIG.format(url=sample.path, governs=governs))
        said = levelgate("lint", str(sample.path), "--strict", "--config", str(config), code=code)
        assert "'prdo'; did you mean 'prod'?" in said
        assert ("the rule may govern other sources, which are not read" in said) == (governs == "All")


def test_a_receiver_of_a_source_that_does_not_exist(sample: Repository, levelgate: Levelgate, tmp_path: Path) -> None:
    """It would hear of nothing."""
    (tmp_path / "url").write_text("https://hooks.example.com/x")
    config = tmp_path / "levelgate.yaml"
    notified = "notifications:\n- name: team\n  slack: {urlFile: url}\n  sources: [plaform]\n"
    config.write_text(CONFIG.format(url=sample.path, governs="Own") + notified)
    said = levelgate("lint", str(sample.path), "--strict", "--config", str(config), code=1)
    assert (
        "levelgate.yaml:12: warning: notifications[0].sources[0]: source 'plaform' is not configured; did you mean 'platform'?"
        in said
    )


def test_a_plan_warns_of_a_rule_that_is_new_or_changes(sample: Repository, levelgate: Levelgate) -> None:
    """Once: in the commit after that it is old, and left to `lint`."""
    sample.commit({"rules/new.yaml": window(namespaces=["prdo"])})
    assert selecting_nothing(levelgate, sample, "HEAD~1") == [
        (
            "window freeze: no object of the source is in namespace 'prdo'; did you mean 'prod'?; the window governs nothing",
            "rules/new.yaml",
            1,
        )
    ]
    sample.commit({"README.md": "Nothing else."})
    assert selecting_nothing(levelgate, sample, "HEAD~1") == []
    sample.commit({"rules/new.yaml": window(namespaces=["prod"])})
    assert selecting_nothing(levelgate, sample, "HEAD~1") == []


def test_a_plan_warns_where_the_last_that_was_selected_goes(sample: Repository, levelgate: Levelgate) -> None:
    """Another label is enough: the wave was meant for that instance."""
    sample.commit({"rules/new.yaml": policy(selector={"rgds": [WEB_APPS]}, **wave(stage="staging"))})
    docs = (sample.path / "apps/staging/docs.yaml").read_text()
    files: dict[str, str | None] = {"apps/staging/docs.yaml": docs.replace("{stage: staging}", "{stage: test}")}
    sample.commit({**files, "apps/staging/shop.yaml": None})
    ((message, file, line),) = selecting_nothing(levelgate, sample, "HEAD~1")
    assert message.startswith("policy careful: no instance of the source has the label stage=staging")
    assert (file, line) == ("rules/new.yaml", 1)


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_a_plan_against_a_cluster_says_the_same(alone: CommandPlatform) -> None:
    """What was there before is what is live."""
    platform = alone
    other = json.loads(link(platform.group, platform.namespace, "two"))
    other["metadata"]["labels"] = {"tier": "canary"}
    files = {"def.json": chain(platform.group, "a"), "one.json": link(platform.group, platform.namespace)}
    waves = policy(waves=[{"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}}])
    platform.repository.commit({**files, "two.json": json.dumps(other), "waves.json": waves})
    platform.run_once()
    assert warnings_of(platform.levelgate("plan", str(platform.repository.path), "-o", "json").stdout) == []
    platform.repository.commit({"two.json": None, "new.json": window(namespaces=[f"{platform.namespace}x"])})
    found = warnings_of(platform.levelgate("plan", str(platform.repository.path), "-o", "json").stdout)
    assert sorted(message.partition(";")[0] for message, _, _ in found) == [
        "policy careful: no instance of the source has the label tier=canary",
        f"window freeze: no object of the source is in namespace '{platform.namespace}x'",
    ]


def selecting_nothing(levelgate: Levelgate, repository: Repository, base: str) -> list[tuple[str, str, int]]:
    return warnings_of(levelgate("plan", str(repository.path), "--base", base, "-o", "json"))


def warnings_of(plan: str) -> list[tuple[str, str, int]]:
    found = json.loads(plan)["warnings"]
    return [(one["message"], one["file"], one["line"]) for one in found if one["hazard"] == "SelectsNothing"]
