"""How commands are called, and what they say when that was wrong: exit codes, sentences, never a traceback (docs/reference.md)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from gitops import cli
from gitops.cli import EXIT_INTERRUPTED, EXIT_USAGE, invoke
from tests.support.properties.repositories import UNREADABLE

OURS = ("gitops", "applier", "renderer")
COMMANDS = tuple(cli.group.list_commands(click.Context(cli.group)))


@pytest.fixture(autouse=True)
def nobodys_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kubeconfig, no pod, no cache of anybody's."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = invoke(list(arguments))
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out, printed.err


@pytest.mark.parametrize("command", ["", *COMMANDS])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: str, option: str) -> None:
    code, out, err = called(capsys, *filter(None, [command]), option)
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: levelgate {command}".rstrip())


def leaves(words: str = "", found: click.Command = cli.group) -> Iterator[str]:
    """Yield the words of each command that has no commands below it."""
    if not isinstance(found, click.Group):
        yield words
        return
    context = click.Context(found)
    for name in found.list_commands(context):
        below = found.get_command(context, name)
        assert below
        yield from leaves(f"{words} {name}".strip(), below)


@pytest.mark.parametrize("words", list(leaves()))
def test_every_help_has_an_example_and_exit_codes(capsys: pytest.CaptureFixture[str], words: str) -> None:
    """And says when to use the command."""
    _, out, _ = called(capsys, *words.split(), "--help")
    text = " ".join(out.split())
    assert f"levelgate {words}" in text.partition(f"Usage: levelgate {words}")[2]
    assert "Use this command " in text
    assert "Exit codes: " in text
    assert "64 wrong usage." in text


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["rendr"],
        ["hold"],
        ["hold", "webapp/shop"],
        ["hold", "rollout/webapp", "--reason", "x"],
        ["hold", "webapp/shop/deployment", "--reason", "x"],
        ["hold", "webapp/shop", "--reason", "x", "--until", "soon"],
        ["hold", "webapp/shop", "--reason", "x", "--until", "2020-01-01"],
        ["hold", "webapp/shop", "--reason", "x", "--git", "--dry-run"],
        ["suspend", "--all", "webapp/shop", "--reason", "x"],
        ["halt", "webapp/shop", "--reason", "x"],
        ["approve", "rollout/x"],
        ["approve", "rollout/x", "--after", "a", "--commit", "b"],
        ["break-glass", "webapp/shop", "--reason", "x"],
        ["render"],
        ["render", ".", "-o", "xml"],
        ["render", ".", "--nosuch"],
        ["render", ".", "more"],
        ["run"],
        ["run", "--config", "levelgate.yaml", "--source", "."],
        ["run", "--config", "levelgate.yaml", "--interval", "30s"],
        ["plan", ".", "--config", "levelgate.yaml", "--adopt", "IfEqual"],
        ["lint"],
        ["lint", ".", "-o", "xml"],
        ["generate"],
        ["generate", "crd"],
        ["generate", "nosuch", "."],
        ["generate", "diagram", ".", "--format", "png"],
        ["run", "--source", ".", "--wait", "soon"],
        ["run", "--source", ".", "--interval", "5x"],
        ["run", "--source", ".", "--apply-concurrency", "0"],
        ["run", "--source", ".", "--log-format", "xml"],
        ["completion", "tcsh"],
        ["init"],
        ["tree"],
        ["tree", "webapp"],
        ["tree", "webapp/shop/node/0"],
        ["--nosuch"],
    ],
)
def test_wrong_usage_exits_64(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> None:
    assert called(capsys, *arguments)[0] == EXIT_USAGE == 64


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rendr"], "no command 'rendr'; did you mean 'render'?"),
        (["xyz"], "no command 'xyz'; choose from approve, break-glass, check,"),
        (["hold", "--reason", "x"], "give REF: an instance (webapp/shop)"),
        (
            ["resume", "window/x"],
            "does not support this request; name an instance (webapp/shop), a plain object (configmap/settings), rgd/NAME, source/NAME, rollout/NAME",
        ),
        (["reconcile", "--timeout", "2m"], "--timeout requires --wait"),
        (["run", "--source", ".", "--wait", "2m"], "--wait requires --once"),
        (["run", "--source", ".", "--fail-on-held"], "--fail-on-held requires --once"),
    ],
)
def test_wrong_usage_says_what_would_be_right(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str], told: str
) -> None:
    code, _, err = called(capsys, *arguments)
    assert code == EXIT_USAGE
    assert told in err


@pytest.mark.parametrize("source", ["x=", "="])
def test_a_source_without_a_repository_is_refused(capsys: pytest.CaptureFixture[str], source: str) -> None:
    """And not taken for the directory that one is in."""
    assert "names no repository; write NAME=URL" in called(capsys, "run", "--source", source)[2]


@pytest.mark.parametrize("text", ["soon", "", "5", "5x", "1h 30m", "-5s", "1.5h"])
def test_a_duration_that_is_none_says_how_to_write_one(capsys: pytest.CaptureFixture[str], text: str) -> None:
    code, _, err = called(capsys, "run", "--source", ".", "--wait", text)
    assert code == EXIT_USAGE
    assert "write for example 90s, 30m, 1h30m or 2d" in err


def test_flags_of_sources_and_a_configuration_exclude_each_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELGATE_CONFIG", "levelgate.yaml")
    code, _, err = called(capsys, "run", "--source", ".", "--ref", "main")
    assert code == EXIT_USAGE
    assert "--source, --ref cannot be combined with --config (or $LEVELGATE_CONFIG)" in err


def test_mistakes_in_a_configuration_are_told_by_file_and_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "levelgate.yaml"
    file.write_text("apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources:\n- name: a\n  interval: 5\n")
    code, out, err = called(capsys, "run", "--config", str(file), "--once")
    assert (code, out) == (1, "")
    assert f"{file}:4: sources[0].url: is required and not given" in err
    assert f"{file}:5: sources[0].interval: 5 is not text; put it in quotes" in err


@pytest.mark.parametrize("command", ["render", "plan"])
def test_a_path_that_does_not_exist_is_told(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, _, err = called(capsys, command, "/no/such/place")
    assert code == 1
    assert "/no/such/place: does not exist; name a directory or the URL of a repository" in err


def test_a_revision_that_does_not_exist_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, git_repository: Path
) -> None:
    code, _, err = called(capsys, "render", str(git_repository), "--revision", "nosuch")
    assert code == 1
    assert "nosuch" in err


@pytest.fixture
def git_repository(tmp_path: Path) -> Path:
    import subprocess

    path = tmp_path / "platform"
    path.mkdir()
    (path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        subprocess.run(["git", *identity, *arguments], cwd=path, check=True, capture_output=True)
    return path


@pytest.mark.parametrize(
    "arguments", [["plan", "."], ["run", "--source", "x=https://git.example.com/x.git", "--once"], ["status"]]
)
def test_without_a_cluster_it_says_how_to_choose_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    arguments = [str(tmp_path) if argument == "." else argument for argument in arguments]
    code, _, err = called(capsys, *arguments)
    assert code == 1
    assert "kubeconfig" in err.lower()


def test_a_kubeconfig_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = called(capsys, "plan", str(tmp_path), "--kubeconfig", "/no/such/config")
    assert code == 1
    assert "/no/such/config" in err


def test_broken_yaml_is_told_with_its_line_and_the_rest_is_rendered(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n")
    (tmp_path / "broken.yaml").write_text(UNREADABLE)
    code, out, err = called(capsys, "render", str(tmp_path))
    assert code == 1
    assert "broken.yaml:4: not valid YAML" in err
    assert "ConfigMap/fine" in out


def test_an_interruption_exits_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.group, "main", interrupted)
    code, _, err = called(capsys, "version")
    assert (code, err.strip()) == (EXIT_INTERRUPTED, "interrupted")
    assert EXIT_INTERRUPTED == 130


def test_output_that_cannot_be_written_is_told_in_words() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", "from gitops.cli import main; main()", "version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: the output cannot be written: No space left on device; check the disk\n",
    )


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only errors that say what to do themselves are shortened to a sentence."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli.group, "main", broken)
    with pytest.raises(ZeroDivisionError):
        invoke(["version"])


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete"), ("zsh", "compdef"), ("fish", "complete")])
def test_completion_prints_a_script(capsys: pytest.CaptureFixture[str], shell: str, word: str) -> None:
    code, out, _ = called(capsys, "completion", shell)
    assert code == 0
    assert word in out
    assert "levelgate" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "version")[:2] == (0, f"levelgate {cli.program_version()}\n")


def test_render_imports_neither_records_nor_rollouts() -> None:
    unwanted = {"gitops.records", "gitops.rollouts", "msgspec", "cronsim", "kubernetes", "aiohttp"}
    code = f"import sys, gitops.cli.render; print({unwanted} & set(sys.modules))"
    command = (sys.executable, "-c", code)
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == "set()"


def test_commands_import_what_they_need_and_no_more() -> None:
    """`--help` starts at once; what only reads the cluster's records renders nothing; `plan` asks Git before it imports what plans."""
    steps = {
        "gitops.cli": ("importlib.metadata", "asyncio"),
        "gitops.cli.status": (
            "renderer.render.render",
            "renderer.catalog.file_content",
            "gitops.source",
            "yaml",
            "kubernetes",
            "aiohttp",
        ),
        "gitops.cli.plan": ("renderer.render.render", "applier.plan.node_planner", "git", "kubernetes", "aiohttp"),
        "gitops.cli.plan_inputs": (
            "lark",
            "git",
            "kubernetes",
            "aiohttp",
            "jinja2",
            "prometheus_client",
            "apscheduler",
        ),
    }
    known = "import sys, importlib\n"
    for module, unwanted in steps.items():
        # What status has imported is there already when plan's turn comes, so each begins with nothing of ours.
        known += f"[sys.modules.pop(name) for name in list(sys.modules) if name.split('.')[0] in {OURS!r}]\n"
        known += f"importlib.import_module({module!r})\nprint({module!r}, set({unwanted!r}) & set(sys.modules))\n"
    done = subprocess.run(
        (sys.executable, "-c", known), capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.splitlines() == [f"{module} set()" for module in steps]
