"""Every YAML example of the documentation, and the configurations of `deploy/`, is taken as it stands; a part is put where it belongs first."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from gitops.cli import invoke
from gitops.config.schema import CONFIG_SCHEMA
from renderer import documents
from renderer.identity import OWN_NAMESPACE
from tests.support.windows.calendars import CALENDAR

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONFIG: Any = {
    "apiVersion": "levelgate.dev/v1alpha1",
    "kind": "Config",
    "sources": [{"name": "platform", "url": "https://git.example.com/platform.git"}],
    "externals": [
        {"name": "error-budget", "http": {"url": "https://slo.example.com/ok", "expect": "true"}, "maxAge": "60s"}
    ],
}
WINDOW: Any = {
    "apiVersion": "levelgate.dev/v1alpha1",
    "kind": "PropagationWindow",
    "metadata": {"name": "dba-hours"},
    "spec": {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * *"}, "duration": "1h"},
}
POLICY: Any = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "shown"}}
DEFINITION: Any = yaml.safe_load("""
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: webapp.kro.run}
spec:
  schema:
    apiVersion: v1alpha1
    kind: WebApp
    spec: {zones: "[]string", sizes: "[]string", team: string, pinned: boolean, node: string}
  resources:
  - id: config
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}
  - id: database
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-db"}
      data: {config: "${config.metadata.name}"}
  - id: web
    template: &deployment
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        selector: {matchLabels: {app: web}}
        template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}
  - id: workers
    forEach: [{zone: "${schema.spec.zones}"}]
    template: {<<: *deployment, metadata: {name: "${zone}"}}
""")
LISTS = {"resources": "id", "sources": "name", "externals": "name"}
"""Those whose items are told apart by a field."""


def examples() -> list[Any]:
    shown = {
        f"{page.name}-{index}": text
        for page in PAGES
        for index, text in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
        if OWN_NAMESPACE not in text or "kind: Config" in text  # which nobody deploys from a repository
    }
    shown["levelgate.yaml"] = (ROOT / "deploy/levelgate.yaml").read_text()
    for one in yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()):
        if one["kind"] == "ConfigMap":
            shown["kubernetes.yaml"] = one["data"]["levelgate.yaml"]
    return [pytest.param(text, id=name) for name, text in shown.items()]


def merged(whole: Any, part: Any, *, by: str = "") -> Any:
    if isinstance(whole, dict) and isinstance(part, dict):
        return whole | {name: merged(whole.get(name), one, by=LISTS.get(name, "")) for name, one in part.items()}
    if by and whole:
        mine = {one[by]: one for one in whole}
        return [*(mine | {one[by]: merged(mine.get(one[by]), one) for one in part}).values()]
    return part


def completed(part: Any) -> Any:
    """The object that an example shows a part of, in place of the one of that kind."""
    fields = CONFIG_SCHEMA["properties"]
    pod: dict[str, Any] = {"template": {"spec": {"template": {"spec": part}}}}
    match part:
        case {"apiVersion": _}:
            return part
        case [{"id": _}, *_]:
            return merged(DEFINITION, {"spec": {"resources": part}})
        case [{"name": str()}, *_]:
            return merged(CONFIG, {"sources": [{"url": "https://git.example.com/x.git"} | one for one in part]})
        case {"kind": "PropagationPolicy"}:
            return merged(POLICY, part)
        case {"kind": "ResourceGraphDefinition"} | {"spec": {"propagateWhen": _}}:
            return merged(DEFINITION, part)
        case {"status": _}:
            return merged(DEFINITION, {"spec": {"schema": part}})
        case {"nodeSelector": _}:
            return merged(DEFINITION, {"spec": {"resources": [{"id": "web", **pod}]}})
        case {"spec": {"kind": _}}:
            return WINDOW | part
        case {"selector": _}:
            return merged(WINDOW, {"spec": part})
    if part.keys() <= fields.keys():
        return merged(CONFIG, part)
    if part.keys() <= fields["sources"]["items"]["properties"].keys():
        return merged(CONFIG, {"sources": [{"name": "platform", **part}]})
    raise AssertionError(f"nothing says where this belongs: {part}")


def files_named(value: Any) -> set[str]:
    match value:
        case dict():
            named = {one for name, one in value.items() if name.endswith("File")}
            return named.union(*map(files_named, value.values()))
        case list():
            return set().union(*map(files_named, value))
    return set()


def parts(text: str) -> list[Any]:
    """The documents, read as strictly as those of a repository, where each has to be an object."""
    shown = "---\n".join("shown:\n" + indent(one, "  ") for one in re.split(r"^---\n", text, flags=re.MULTILINE))
    found, problems = documents.load("example.yaml", shown.encode())
    assert problems == []
    return [one.value["shown"] for one in found]


@pytest.mark.parametrize("text", examples())
def test_what_an_example_shows_is_taken(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By `levelgate lint`, which reads definitions, instances, windows, policies and the configuration as `run` does."""
    whole = [completed(part) for part in parts(text)]
    shown = {one["metadata"]["name"] for one in whole if one["kind"] != "Config"}
    more = [one for one in (WINDOW, DEFINITION) if one["metadata"]["name"] not in shown]
    config = next((one for one in whole if one["kind"] == "Config"), CONFIG)
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "example.yaml").write_text(documents.dump([one for one in (*whole, *more) if one is not config]))
    (repository / "freezes.ics").write_bytes(CALENDAR)
    (tmp_path / "levelgate.yaml").write_text(documents.dump([config]))
    for name in files_named(config):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    code = invoke(["lint", str(repository), "--config", str(tmp_path / "levelgate.yaml")])
    assert code == 0, "".join(capsys.readouterr())
