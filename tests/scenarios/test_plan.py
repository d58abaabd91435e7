"""The plan says X, then the run does exactly X: by the audit log of the API server, commit after commit (I2, S0-11)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.cluster.audit import AuditEvent
from tests.support.command_platform import CommandPlatform
from tests.support.git.repository import Repository

COMMITS = 8
CANARY = "canary-4711-of-the-scenario"
TURN = {"PaceReached", "WaveNotReached", "Progressing", "Baking"}


@dataclass
class RandomCommits:
    """Commits that add, change, rename and remove whatever there is; `files` is what the repository holds."""

    platform: CommandPlatform
    dice: random.Random
    files: dict[str, str] = field(default_factory=dict)

    def commit(self) -> None:
        before = dict(self.files)
        acts = [self._instance, self._instance, self._map, self._map, self.define, self._secret, self._remove]
        acts += [self._fixed, self._shared, self._window]
        for _ in range(self.dice.randint(3, 6)):
            self.dice.choice(acts)()
        gone = dict.fromkeys(before.keys() - self.files.keys())
        self.platform.repository.commit({**self.files, **gone})

    def _instance(self) -> None:
        name = f"i{self.dice.randrange(4)}"
        metadata = {**self._metadata(name), "labels": {"app": name}}
        spec = {"text": f"t{self.dice.randrange(3)}", "extra": self.dice.random() < 0.5}
        version = f"{self.platform.group}/v1alpha1"
        self._write(f"{name}.json", {"apiVersion": version, "kind": "Link", "metadata": metadata, "spec": spec})

    def _map(self) -> None:
        name = f"m{self.dice.randrange(3)}"
        self._write(f"{name}.json", self._object("ConfigMap", name, data={"a": f"v{self.dice.randrange(3)}"}))

    def _fixed(self) -> None:
        """The server does not change it, so it is replaced."""
        allowed = {"levelgate.dev/replace": "allowed"}
        fixed = self._object("ConfigMap", "fixed", data={"a": f"v{self.dice.randrange(3)}"}, immutable=True)
        self._write("fixed.json", {**fixed, "metadata": {**self._metadata("fixed"), "annotations": allowed}})

    def _shared(self) -> None:
        """An object that one instance hands over to the other."""
        version = f"{self.platform.group}/v1alpha1"
        holder = self.dice.choice(["left", "right"])
        for name in ("left", "right"):
            spec = {"holds": f"{self.platform.namespace}-shared" if name == holder else ""}
            head = {"apiVersion": version, "kind": "Holder", "metadata": self._metadata(name)}
            self._write(f"{name}.json", {**head, "spec": spec})

    def _window(self) -> None:
        """Closed for all that this test lives to see; for other things each time, or for none."""
        selector = self.dice.choice(
            [{"nodes": ["second"]}, {"kinds": ["Secret"]}, {"instances": {"matchLabels": {"app": "i1"}}}]
        )
        century = {"start": "2020-01-01T00:00", "end": "2099-12-31T00:00"}
        spec = {"kind": "Deny", "timeZone": "UTC", "selector": selector, "schedule": {"once": [century]}}
        head = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationWindow", "metadata": {"name": "closed"}}
        self._write("window.json", {**head, "spec": spec})

    def _secret(self) -> None:
        self._write("s.json", self._object("Secret", "s", stringData={"a": f"{CANARY}-{self.dice.randrange(3)}"}))

    def define_holder(self) -> None:
        """A kind that never changes, whose instances may hold one more object."""
        held = {"id": "held", "includeWhen": ["${schema.spec.holds != ''}"], "template": self._node("held")}
        held["template"] = {**self._node("held"), "metadata": {"name": "${schema.spec.holds}"}}
        own = {"id": "own", "template": self._node("own")}
        schema = {"group": self.platform.group, "apiVersion": "v1alpha1", "kind": "Holder", "spec": {"holds": "string"}}
        head = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition"}
        spec = {"schema": schema, "resources": [own, held]}
        self._write("holder.json", {**head, "metadata": {"name": f"holders.{self.platform.group}"}, "spec": spec})

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
        removable = sorted(self.files.keys() - {"definition.json", "holder.json"})
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
        return {"apiVersion": "v1", "kind": kind, "metadata": self._metadata(name), **content}

    def _metadata(self, name: str) -> dict[str, str]:
        return {"name": name, "namespace": self.platform.namespace}

    def _write(self, file: str, manifest: dict[str, object]) -> None:
        self.files[file] = json.dumps(manifest)


@dataclass(frozen=True)
class Plan:
    """`now`: what becomes of objects at once; `late`: those that wait for their turn, which may come; `held`: those that something else holds."""

    now: set[tuple[str, str]]
    late: set[str]
    held: set[str]


def planned(platform: CommandPlatform, config: Path, *more: str) -> Plan:
    place = ("plan", str(platform.repository.path), "--source", platform.name, "--config", str(config), "-o", "json")
    done = platform.levelgate(*place, *more, check=0)
    assert CANARY not in done.stdout + done.stderr
    changes = json.loads(done.stdout)["changes"]
    assert all(change["action"] not in {"unknown", "failed"} for change in changes)
    now = {(change["action"], _short(change["ref"])) for change in changes if not change["gates"]}
    gates = {
        _short(change["ref"]): {gate["reason"] for gate in change["gates"]} for change in changes if change["gates"]
    }
    late = {name for name, reasons in gates.items() if reasons <= TURN}
    return Plan(now, late, gates.keys() - late)


def _short(ref: str) -> str:
    kind, _, place = ref.partition("/")
    return f"{kind.partition('.')[0].lower()}s/{place.rpartition('/')[2]}"


def done(events: list[AuditEvent]) -> set[tuple[str, str]]:
    """Content that was written, each object once: not the record of the source, parent keys, finalizers, status and what is stored of revisions."""
    found: dict[str, list[str]] = {}
    for verb, name in _written(events):
        found.setdefault(name, []).append(verb)
    assert all(verbs == ["delete", "create"] or len(verbs) == 1 for verbs in found.values()), found
    return {("replace" if len(verbs) > 1 else verbs[0], name) for name, verbs in found.items()}


def _written(events: list[AuditEvent]) -> Iterator[tuple[str, str]]:
    for event in events:
        if (event.code, event.name) == (422, "fixed"):
            continue  # that it is refused is why it is replaced
        assert event.code < 300, event
        if event.namespace == "levelgate-system" or event.subresource:
            continue
        name = f"{event.resource}/{event.name}"
        if event.verb == "delete":
            yield "delete", name
        elif "fieldManager=levelgate&" in event.uri:
            yield ("create" if event.code == 201 else "update"), name


def test_the_run_does_what_the_plan_says_and_nothing_else(platform: CommandPlatform, tmp_path: Path) -> None:
    config = tmp_path / "levelgate.yaml"
    source = {"name": platform.name, "url": str(platform.repository.path), "brake": {"deletions": 1000}}
    source["adopt"] = "IfUnowned"
    head = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "Config"}
    config.write_text(json.dumps({**head, "sources": [source]}))
    story = RandomCommits(platform, random.Random(4711))
    found_there = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m0", "namespace": platform.namespace}}
    platform.kubectl("create", "-f", "-", stdin=json.dumps(found_there))
    story.define()
    story.define_holder()
    actions: set[str] = set()
    held: set[str] = set()
    for number in range(COMMITS):
        story.commit()
        plan = planned(platform, config)
        since = platform.audit.mark()
        ran = platform.levelgate("run", "--config", str(config), "--once", "--wait", "0s")
        assert ran.returncode in {0, 3}, ran.stderr  # what waits behind what is held is not there yet
        found = done(platform.writes(since))
        now = {("update" if action == "adopt" else action, name) for action, name in plan.now}
        assert {(action, name) for action, name in found if name not in plan.late} == now, number
        assert not plan.held & {name for _, name in found}, number
        actions |= {action for action, _ in plan.now}
        held |= plan.held
    assert actions == {"create", "update", "replace", "delete", "adopt"}
    assert held
    assert planned(platform, config).now == set()


def links(platform: CommandPlatform, text: str) -> str:
    """A definition of two ConfigMaps, of which the second has this text."""
    first = {"id": "first", "template": node("first", text="${schema.spec.text}")}
    second = {"id": "second", "template": node("second", of="${first.metadata.name}", text=text)}
    schema = {"group": platform.group, "apiVersion": "v1alpha1", "kind": "Link", "spec": {"text": "string"}}
    head = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition"}
    metadata = {"name": f"links.{platform.group}"}
    return json.dumps({**head, "metadata": metadata, "spec": {"schema": schema, "resources": [first, second]}})


def node(name: str, **data: str) -> dict[str, object]:
    metadata = {"name": f"${{schema.metadata.name}}-{name}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def link(platform: CommandPlatform, name: str, text: str) -> str:
    metadata = {"name": name, "namespace": platform.namespace}
    head = {"apiVersion": f"{platform.group}/v1alpha1", "kind": "Link", "metadata": metadata}
    return json.dumps({**head, "spec": {"text": text}})


APPROVED = {
    "apiVersion": "levelgate.dev/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "one-first"},
    "spec": {"shape": {"linear": {"n": 1}}, "approvals": [{"after": {"settled": 1}}]},
}


def test_so_it_does_of_instances_whose_definition_is_in_another_source(
    platform: CommandPlatform, tmp_path: Path
) -> None:
    """*One catalog per cluster*: the definition, its policy and the first of the rollout are the platform team's, the rest is the shop's."""
    shop = replace(platform, name=f"{platform.name}-shop", repository=Repository.create(tmp_path / "shop"))
    config, snapshot = tmp_path / "levelgate.yaml", tmp_path / "cluster.json"
    sources = [{"name": one.name, "url": str(one.repository.path)} for one in (platform, shop)]
    config.write_text(json.dumps({"apiVersion": "levelgate.dev/v1alpha1", "kind": "Config", "sources": sources}))

    def agreed() -> Plan:
        plan = planned(shop, config)
        shop.levelgate("snapshot", "-o", str(snapshot), check=0)
        assert planned(shop, config, "--against", str(snapshot)) == plan
        since = platform.audit.mark()
        shop.levelgate("run", "--config", str(config), "--once", "--wait", "0s")
        assert done(platform.writes(since)) == plan.now
        return plan

    shop.repository.commit({})
    platform.repository.commit({"definition.json": links(platform, "one"), "a.json": link(platform, "a", "one")})
    shop.levelgate("run", "--config", str(config), "--once", check=0)
    shop.repository.commit({name: link(platform, name[0], "one") for name in ("b.json", "c.json")})
    assert agreed().now == {
        ("create", name)
        for one in "bc"
        for name in (f"links/{one}", f"configmaps/{one}-first", f"configmaps/{one}-second")
    }
    platform.repository.commit({"definition.json": links(platform, "two"), "policy.json": json.dumps(APPROVED)})
    shop.levelgate("run", "--config", str(config), "--once", "--wait", "0s")
    shop.repository.commit({"b.json": link(platform, "b", "two"), "c.json": None})
    plan = agreed()
    deleted = {("delete", name) for name in ("links/c", "configmaps/c-first", "configmaps/c-second")}
    assert plan.now == {("update", "links/b"), ("update", "configmaps/b-first"), *deleted}
    assert plan.held == {"configmaps/b-second"}
