"""`levelgate plan`: under a configuration, between commits, against a snapshot, and in every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from applier.cluster import Object
from applier.errors import Unavailable
from applier.kube.cluster import KubeCluster
from gitops.cli import invoke, plan_inputs
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import load
from renderer.identity import OWN_NAMESPACE, GroupKind
from tests.support.cli import Printed, Typed
from tests.support.git.repository import WorkTree
from tests.support.link_platform import LinkPlatform
from tests.support.properties.repositories import config_map, definition, instance

CONFIG = """\
apiVersion: levelgate.dev/v1alpha1
kind: Config
sources:
- {name: platform, url: /platform, adopt: IfUnowned}
"""
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "levelgate.yaml").write_text(CONFIG)
    platform = tmp_path / "platform"
    platform.mkdir()
    (platform / "old.yaml").write_text(MAP % "old")
    (platform / "new.yaml").write_text(MAP % "new")
    return tmp_path


def test_a_plan_with_a_configuration_adopts_as_the_daemon_would(printed: Printed, place: Path) -> None:
    with LinkPlatform(names=()) as fleet:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old"}}
        fleet.request("POST", "/api/v1/namespaces/default/configmaps", manifest)
        plain, _ = printed(fleet, "plan", str(place / "platform"), "--source", "platform", code=1)
        assert "adopt it (`adopt` of the source, or --adopt)" in plain
        config = ("--config", str(place / "levelgate.yaml"))
        planned, _ = printed(fleet, "plan", str(place / "platform"), "--source", "platform", *config)
    assert "adopt it (`adopt` of the source, or --adopt)" not in planned
    assert "  0  < ConfigMap/old" in planned


EXTERNAL = """\
externals:
- {name: budget, http: {url: "https://slo.example.com/ok", expect: "true"}, maxAge: 1m}
"""


def test_what_is_outside_is_not_known_to_a_plan(typed: Typed, place: Path) -> None:
    """It asks nobody, and takes for granted neither that a gate is open nor that it is closed for good."""
    (place / "levelgate.yaml").write_text(CONFIG + EXTERNAL)
    gated = config_map("page") | {"propagateWhen": ["${external('budget')}"]}
    (place / "platform" / "link.json").write_text(definition("Link", [gated]))
    (place / "platform" / "x.json").write_text(instance("Link", "x"))
    asked = ("--source", "platform", "--config", str(place / "levelgate.yaml"))
    with LinkPlatform(names=()) as fleet:
        planned = typed(fleet, "plan", str(place / "platform"), *asked)
    assert "unknown (a plan requests no facts)" in planned


def test_a_source_that_the_configuration_does_not_know_is_told(typed: Typed, place: Path) -> None:
    with LinkPlatform(names=()) as fleet:
        config = ("--config", str(place / "levelgate.yaml"))
        told = typed(fleet, "plan", str(place / "platform"), "--source", "platfrm", *config, code=1)
    assert (
        "platfrm: is not a source of the configuration; did you mean 'platform'?; name a source with --source" in told
    )


@pytest.fixture
def repository(tmp_path: Path) -> WorkTree:
    """`main` has moved on since `topic` left it."""
    work = WorkTree.create(tmp_path / "platform")
    work.commit(old=MAP % "old")
    work.git("checkout", "--quiet", "-b", "topic")
    work.commit(new=MAP % "new")
    work.git("checkout", "--quiet", "main")
    work.commit(other=MAP % "other")
    work.git("checkout", "--quiet", "topic")
    return work


def test_commits_are_compared_without_a_cluster(repository: WorkTree, capsys: pytest.CaptureFixture[str]) -> None:
    """What came to the base since is no change of the head; exit code 2 says that there are changes."""
    assert invoke(["plan", str(repository.path), "--base", "main", "--exit-code"]) == 2
    printed = capsys.readouterr()
    assert "  0  + ConfigMap/new  in default" in printed.out
    assert "1 to create, 0 to update, 0 to replace, 0 to delete, 1 unchanged." in printed.out
    assert "Git only" in printed.out
    tip = repository.git("rev-parse", "main")
    assert f"\nmain has moved to {tip[:7]} since; to see the current effect, merge main or rebase.\n" in printed.out
    assert invoke(["plan", str(repository.path), "--base", "topic", "--exit-code"]) == 0
    assert "has gone on" not in capsys.readouterr().out


CLOSED = """\
apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {name: freeze}
spec:
  kind: Deny
  timeZone: UTC
  schedule: {once: [{start: "2020-01-01T00:00", end: "2099-01-01T00:00"}]}
"""


def test_what_is_not_committed_waits_for_windows_as_well(
    repository: WorkTree, capsys: pytest.CaptureFixture[str]
) -> None:
    """I5: the commit that is checked out may be the one that the source is at; what differs from it is new all the same, and no drift."""
    repository.commit(freeze=CLOSED)
    (repository.path / "newer.yaml").write_text(MAP % "newer")
    assert invoke(["plan", str(repository.path), "--base", "HEAD", "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [(one["ref"], [gate["reason"] for gate in one["gates"]]) for one in plan["changes"]] == [
        ("ConfigMap/default/newer", ["NeverOpens"])
    ]
    assert plan["head"].endswith("-dirty")


def test_a_directory_that_cannot_name_a_source_is_planned_all_the_same(
    repository: WorkTree, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = repository.path.rename(repository.path.with_name("My_Apps"))
    assert invoke(["plan", str(moved), "--base", "main", "--exit-code"]) == 2
    assert "Plan of my-apps: main" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "sign"),
    [
        ("json", '"action": "create"'),
        ("markdown", "### Levelgate plan: 1 create · `platform`"),
        ("sarif", '"version": "2.1.0"'),
        ("junit", '<testsuite name="levelgate plan" tests="1" failures="0" errors="0"'),
    ],
)
def test_every_form_is_printed(repository: WorkTree, capsys: pytest.CaptureFixture[str], form: str, sign: str) -> None:
    assert invoke(["plan", str(repository.path), "--base", "main", "-o", form]) == 0
    assert sign in capsys.readouterr().out


def test_sarif_names_files_as_the_repository_does(repository: WorkTree, capsys: pytest.CaptureFixture[str]) -> None:
    repository.write("envs/prod/new.yaml", MAP % "No_Name")
    assert invoke(["plan", str(repository.path / "envs" / "prod"), "--base", "main", "-o", "sarif"]) == 1
    assert '"uri": "envs/prod/new.yaml"' in capsys.readouterr().out


def test_a_reference_shows_one_object_in_full(repository: WorkTree, capsys: pytest.CaptureFixture[str]) -> None:
    """What a new object is made of is shown to those who ask for it; whether there are changes is asked of the plan."""
    repository.commit(new=MAP % "new" + "data: {greeting: hello}\n", more=MAP % "more")
    made = '         data\n         + {"greeting":"hello"}\n'
    for refs, counted, is_full in (
        ([], "2 to create", False),
        (["configmap/old"], "0 to create", False),
        (["configmap/new", "-n", "default"], "1 to create", True),
        (["configmap/new", "-n", "elsewhere"], "0 to create", False),
    ):
        assert invoke(["plan", str(repository.path), *refs, "--base", "main", "--exit-code"]) == 2
        printed = capsys.readouterr()
        assert counted in printed.out
        assert (made in printed.out) == is_full
        told = (
            f"{refs[0]}: the plan does not change this object, or the object does not exist; check the name"
            if counted.startswith("0")
            else ""
        )
        assert printed.err.strip().replace(" in elsewhere", "") == told


@pytest.mark.parametrize(
    "arguments", [["--against", "git"], ["--revision", "topic", "--base", "main"], ["--base", "main", "nothing"]]
)
def test_what_cannot_be_asked_is_told(
    repository: WorkTree, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert invoke(["plan", str(repository.path), *arguments]) == 64
    assert "Traceback" not in capsys.readouterr().err


def test_without_a_cluster_the_other_two_are_named(
    repository: WorkTree, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert invoke(["plan", str(repository.path), "--kubeconfig", str(tmp_path / "none")]) == 1
    told = capsys.readouterr().err
    assert "--base REV" in told
    assert "--against FILE" in told


def test_so_they_are_where_the_server_does_not_answer(
    repository: WorkTree, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> list[Object]:
        raise Unavailable("list ConfigMap: cannot connect")

    monkeypatch.setattr(plan_inputs, "read_own_configmaps", unreachable)
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    known = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
    (tmp_path / "kubeconfig").write_text(json.dumps({**known, "current-context": "c"}))
    assert invoke(["plan", str(repository.path), "--kubeconfig", str(tmp_path / "kubeconfig")]) == 1
    told = capsys.readouterr().err
    assert told.startswith("Error: list ConfigMap: cannot connect (cluster c: check that the cluster is up, or")
    assert "; try again, or compare commits with --base REV" in told
    assert "--against FILE" in told


def test_a_place_that_is_none_is_told_before_a_cluster_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are looked at together; what the person wrote comes first."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert invoke(["plan", str(tmp_path / "nowhere")]) == 1
    assert f"{tmp_path / 'nowhere'}: does not exist" in capsys.readouterr().err


def test_a_snapshot_is_taken_and_planned_against(
    typed: Typed, repository: WorkTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No source of that cluster follows the repository, so it is not known what would go, unless one is named."""
    file = tmp_path / "cluster.json"
    with LinkPlatform(names=()) as fleet:
        typed(fleet, "snapshot", "-o", str(file))
    for more, is_told in ((["--source", "platform"], False), ([], True)):
        assert invoke(["plan", str(repository.path), *more, "--against", str(file), "--exit-code"]) == 2
        assert ("Deletions are unknown" in capsys.readouterr().out) == is_told
    assert invoke(["plan", str(repository.path), "--against", str(tmp_path / "none.json")]) == 1


def test_rewritten_history_is_warned_of(typed: Typed, repository: WorkTree) -> None:
    """The commit that the source is at is not in the history of the head: a daemon would wait (rulings, *Sources*). A new source is at none."""
    with LinkPlatform(names=()) as fleet:
        assert "history" not in typed(fleet, "plan", str(repository.path), "--source", "platform")
        head = load({"old.yaml": (MAP % "old").encode()}, source="platform", commit=repository.git("rev-parse", "main"))
        state = SourceState(head, ref="main", url=str(repository.path))
        fleet.call(fleet.reconciler.reconcile([state]))
        planned = typed(fleet, "plan", str(repository.path), "--source", "platform", "--revision", "topic")
        assert "Warning: history is rewritten" in planned
        planned = typed(fleet, "plan", str(repository.path), "--source", "platform", "--revision", "main")
        assert "history" not in planned


def settled(fleet: LinkPlatform, repository: WorkTree, *, path: str = "") -> None:
    """The cluster is at `main`, where the source also had an object `gone`."""
    files = {"old.yaml": (MAP % "old").encode(), "gone.yaml": (MAP % "gone").encode()}
    head = load(files, source="shop", commit=repository.git("rev-parse", "main"))
    fleet.call(fleet.reconciler.reconcile([SourceState(head, ref="main", url=str(repository.path), path=path)]))


@pytest.mark.parametrize("more", [[], ["--source", "shop"]])
def test_the_records_of_a_cluster_are_read_once(
    typed: Typed, repository: WorkTree, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    """They may be large: one ConfigMap of each source, with where all its members are."""
    listed, read = list[str](), KubeCluster.list

    async def noted(self: KubeCluster, kind: GroupKind, namespace: str | None = None, **how: Any) -> list[Object]:
        listed.extend([kind.kind] if namespace == OWN_NAMESPACE else [])
        return await read(self, kind, namespace, **how)

    with LinkPlatform(names=()) as fleet:
        settled(fleet, repository)
        monkeypatch.setattr(KubeCluster, "list", noted)
        assert "Plan of shop" in typed(fleet, "plan", str(repository.path), *more)
    assert listed.count("ConfigMap") == 1


@pytest.mark.parametrize(("path", "others"), [("", []), ("elsewhere", []), ("", ["again"])])
def test_deletions_are_told_where_one_source_of_the_cluster_fits(
    printed: Printed, repository: WorkTree, path: str, others: list[str]
) -> None:
    """By URL and path; else whose objects these are is not known (surface, *Sources have names*)."""
    is_known = not path and not others
    with LinkPlatform(names=()) as fleet:
        settled(fleet, repository, path=path)
        for name in others:
            other = SourceState(load({}, source=name), url=str(repository.path))
            fleet.call(fleet.reconciler.reconcile([other]))
        planned, _ = printed(fleet, "plan", str(repository.path), "--revision", "main", code=int(not is_known))
        named, _ = printed(fleet, "plan", str(repository.path), "--revision", "main", "--source", "shop")
    assert "- ConfigMap/gone" in named
    assert "Deletions are unknown" not in named
    assert ("- ConfigMap/gone" in planned) == is_known
    assert (
        "Deletions are unknown, because no source, or more than one, follows this repository and path. The plan is for platform."
        not in planned
    ) == is_known
    assert planned.startswith("Plan of shop: " if is_known else "Plan of platform: ")


def test_a_clone_over_another_transport_is_that_of_the_source(typed: Typed, repository: WorkTree) -> None:
    repository.git("remote", "add", "origin", "git@git.example.com:acme/platform.git")
    with LinkPlatform(names=()) as fleet:
        fleet.call(
            fleet.reconciler.reconcile(
                [SourceState(load({}, source="shop"), url="https://git.example.com/acme/platform")]
            )
        )
        assert typed(fleet, "plan", str(repository.path)).startswith("Plan of shop: ")


def test_a_commit_is_named_beside_the_cluster(typed: Typed, repository: WorkTree) -> None:
    """`--base` with `--against cluster`: the base is for the title, what is live counts."""
    with LinkPlatform(names=()) as fleet:
        settled(fleet, repository)
        asked = ("plan", str(repository.path), "--source", "shop", "--base", "main", "--against", "cluster")
        planned, said = typed(fleet, *asked), json.loads(typed(fleet, *asked, "-o", "json"))
    base = repository.git("merge-base", "main", "topic")
    assert planned.startswith(f"Plan of shop: main {base[:7]} -> ")
    assert "against cluster prod-eu" in planned.partition("\n")[0]
    assert (said["base"], said["against"], said["summary"]["delete"]) == (base, "cluster prod-eu", 1)


def test_problems_exit_1_whatever_else_changes(repository: WorkTree, capsys: pytest.CaptureFixture[str]) -> None:
    (repository.path / "broken.yaml").write_text("a: [")
    assert invoke(["plan", str(repository.path), "--base", "main", "--exit-code"]) == 1
    assert "Problem: broken.yaml" in capsys.readouterr().out


def test_what_cannot_be_done_exits_1_as_its_run_would(repository: WorkTree, capsys: pytest.CaptureFixture[str]) -> None:
    (repository.path / "new.yaml").write_text(MAP % "No_Name")
    for more in ([], ["--exit-code"]):
        assert invoke(["plan", str(repository.path), "--base", "main", *more]) == 1
        assert "  0  ! ConfigMap/No_Name" in capsys.readouterr().out


def test_colour_shows_on_a_terminal_alone(
    repository: WorkTree, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["plan", str(repository.path), "--base", "main"]
    assert invoke(asked) == 0
    plain = capsys.readouterr().out
    assert invoke([*asked, "--color", "always"]) == 0
    painted = capsys.readouterr().out
    monkeypatch.setattr("click._compat.isatty", lambda _: True)
    for variables, more, paints in (("", [], True), ("1", [], False), ("", ["--color", "never"], False)):
        monkeypatch.setenv("NO_COLOR", variables)
        assert invoke([*asked, *more]) == 0
        assert ("\x1b" in capsys.readouterr().out) == paints
    assert "\x1b[32m+\x1b[0m ConfigMap/new" in painted
    assert "\x1b" not in plain
    assert click.unstyle(painted).splitlines()[2:] == plain.splitlines()[2:]
