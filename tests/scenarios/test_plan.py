"""The plan says X, then the run does exactly X: by the audit log of the API server, commit after commit (I2, S0-11)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.audit import AuditEvent
from tests.scenarios.platform import Platform

COMMITS = 8
CANARY = "canary-4711-of-the-scenario"


@dataclass
class Story:
    """Commits that add, change, rename and remove whatever there is; `files` is what the repository holds."""

    platform: Platform
    dice: random.Random
    files: dict[str, str] = field(default_factory=dict)

    def commit(self) -> None:
        before = dict(self.files)
        acts = (self._instance, self._instance, self._map, self._map, self.define, self._secret, self._remove)
        for _ in range(self.dice.randint(3, 6)):
            self.dice.choice(acts)()
        gone = dict.fromkeys(before.keys() - self.files.keys())
        self.platform.repository.commit({**self.files, **gone})

    def _instance(self) -> None:
        name = f"i{self.dice.randrange(4)}"
        metadata = {"name": name, "namespace": self.platform.namespace}
        spec = {"text": f"t{self.dice.randrange(3)}", "extra": self.dice.random() < 0.5}
        version = f"{self.platform.group}/v1alpha1"
        self._write(f"{name}.json", {"apiVersion": version, "kind": "Link", "metadata": metadata, "spec": spec})

    def _map(self) -> None:
        name = f"m{self.dice.randrange(3)}"
        self._write(f"{name}.json", self._object("ConfigMap", name, data={"a": f"v{self.dice.randrange(3)}"}))

    def _secret(self) -> None:
        self._write("s.json", self._object("Secret", "s", stringData={"a": f"{CANARY}-{self.dice.randrange(3)}"}))

    def define(self) -> None:
        first = {"id": "first", "template": self._node("first", text="${schema.spec.text}")}
        second = {"id": "second", "template": self._node("second", of="${first.metadata.name}")}
        extra = {
            "id": "extra",
            "includeWhen": ["${schema.spec.extra}"],
            "template": self._node("extra", of="${second.metadata.name}", image=f"i{self.dice.randrange(3)}"),
        }
        schema = {
            "group": self.platform.group,
            "apiVersion": "v1alpha1",
            "kind": "Link",
            "spec": {"text": "string", "extra": "boolean | default=false"},
        }
        spec = {"schema": schema, "resources": [first, second, extra]}
        metadata = {"name": f"links.{self.platform.group}"}
        manifest = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": metadata}
        self._write("definition.json", {**manifest, "spec": spec})

    def _remove(self) -> None:
        removable = sorted(self.files.keys() - {"definition.json"})
        if removable:
            del self.files[self.dice.choice(removable)]

    def _node(self, node: str, **data: str) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"${{schema.metadata.name}}-{node}"},
            "data": data,
        }

    def _object(self, kind: str, name: str, **content: object) -> dict[str, object]:
        metadata = {"name": name, "namespace": self.platform.namespace}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}

    def _write(self, file: str, manifest: dict[str, object]) -> None:
        self.files[file] = json.dumps(manifest)


def planned(platform: Platform, config: Path) -> set[tuple[str, str]]:
    done = platform.levelgate(
        "plan", str(platform.repository.path), "--source", platform.name, "--config", str(config), "-o", "json", check=0
    )
    assert CANARY not in done.stdout + done.stderr
    changes = json.loads(done.stdout)["changes"]
    return {(change["action"], _short(change["ref"])) for change in changes}


def _short(ref: str) -> str:
    kind, _, place = ref.partition("/")
    return f"{kind.partition('.')[0].lower()}s/{place.rpartition('/')[2]}"


def done(events: list[AuditEvent]) -> Iterator[tuple[str, str]]:
    """Content that was written: not the record of the source, parent keys, finalizers, status and what is stored of revisions."""
    for event in events:
        assert event.code < 300, event
        if event.namespace == "levelgate-system" or event.subresource:
            continue
        name = f"{event.resource}/{event.name}"
        if event.verb == "delete":
            yield "delete", name
        elif "fieldManager=levelgate&" in event.uri:
            yield ("create" if event.code == 201 else "update"), name


def test_the_run_does_what_the_plan_says_and_nothing_else(platform: Platform, tmp_path: Path) -> None:
    config = tmp_path / "levelgate.yaml"
    source = {"name": platform.name, "url": str(platform.repository.path), "brake": {"deletions": 1000}}
    head = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "Config"}
    config.write_text(json.dumps({**head, "sources": [source]}))
    story = Story(platform, random.Random(4711))
    story.define()
    actions: set[str] = set()
    for number in range(COMMITS):
        story.commit()
        said = planned(platform, config)
        since = platform.audit.mark()
        platform.levelgate("run", "--config", str(config), "--once", "--wait", "0s", check=0)
        found = list(done(platform.writes(since)))
        assert len(found) == len(set(found)), number
        assert set(found) == said, number
        actions |= {action for action, _ in said}
    assert actions == {"create", "update", "delete"}
    assert planned(platform, config) == set()
