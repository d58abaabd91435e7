"""Random repositories: definitions over a few ids, instances, nested instances, plain objects, and files that somebody broke."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.support.properties.checked_platform import Files

GROUP = "g.test"
UNREADABLE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [unclosed\n"
IDS = "abcd"
WORKLOAD = "w"
"""The name of a plain Deployment."""


def definition(kind: str, resources: list[dict[str, Any]], **schema: Any) -> str:
    """One ResourceGraphDefinition; its instances have the fields `text` and `on`."""
    spec = {"text": "string | default=one", "on": "boolean | default=true"}
    described = {"group": GROUP, "apiVersion": "v1", "kind": kind, "spec": spec, **schema}
    return json.dumps(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": f"{kind.lower()}s.{GROUP}"},
            "spec": {"schema": described, "resources": resources},
        }
    )


def config_map(node_id: str, *reads: str, name: str = "", namespace: str = "", **more: Any) -> dict[str, Any]:
    """A node: a ConfigMap `INSTANCE-ID` that reads the names of others."""
    metadata = {"name": name or f"${{schema.metadata.name}}-{node_id}"} | (
        {"namespace": namespace} if namespace else {}
    )
    data = {"text": "${schema.spec.text}", **{other: f"${{{other}.metadata.name}}" for other in reads}}
    return {
        "id": node_id,
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        **more,
    }


def widget(node_id: str, *reads: str, **more: Any) -> dict[str, Any]:
    """A node of a kind whose fields nobody describes: whatever is read of it may come."""
    node = config_map(node_id, *reads, **more)
    node["template"] |= {"apiVersion": "free.test/v1", "kind": "Widget"}
    return node


def widgets(group: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind Widget in this group whose objects are as the schema says."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", **schema}},
        "subresources": {"status": {}},
    }
    names = {"kind": "Widget", "plural": "widgets"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def collection(node_id: str, *reads: str, **more: Any) -> dict[str, Any]:
    """A collection of ConfigMaps whose size, and the objects at each index, change with the text of the instance."""
    letters = "${schema.spec.text == 'one' ? ['p', 'q', 'r'] : ['q', 's']}"
    node = config_map(node_id, *reads, name=f"${{schema.metadata.name}}-{node_id}-${{letter}}", **more)
    return {**node, "forEach": [{"letter": letters}]}


def deployment(node_id: str, *reads: str, **more: Any) -> dict[str, Any]:
    """A node that is ready when its controller says so."""
    node = config_map(node_id, *reads, **more)
    node["template"] |= {"apiVersion": "apps/v1", "kind": "Deployment", "spec": _running(node_id)}
    node["template"]["metadata"]["annotations"] = node["template"].pop("data")
    node["readyWhen"] = [f"${{{node_id}.status.availableReplicas == {node_id}.spec.replicas}}"]
    return node


def instance(kind: str, name: str, **spec: Any) -> str:
    metadata = {"name": name, "namespace": "default"}
    return json.dumps({"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec})


def plain(name: str, *needs: str, namespace: str = "default", text: str = "one", kind: str = "ConfigMap") -> str:
    """A ConfigMap of the source's own set; `needs` are names of others, ConfigMaps but for the `WORKLOAD`."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if needs:
        kinds = {WORKLOAD: ("apps", "Deployment")}
        found = ((*kinds.get(other, ("", "ConfigMap")), other) for other in needs)
        references = ",".join(f"{group}/namespaces/{namespace}/{kind}/{other}" for group, kind, other in found)
        metadata["annotations"] = {"config.kubernetes.io/depends-on": references}
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"text": text}})


def workload(*needs: str) -> str:
    """A Deployment of the source's own set."""
    found = json.loads(plain(WORKLOAD, *needs, kind="Deployment"))
    del found["data"]
    return json.dumps({**found, "apiVersion": "apps/v1", "spec": _running(WORKLOAD)})


def _running(name: str) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]}}
    return {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}


@st.composite
def nodes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A graph without circles: each node reads some of those before it in a random order."""
    order = draw(st.permutations(IDS))[: draw(st.integers(1, len(IDS)))]
    found = []
    for index, node_id in enumerate(order):
        reads = draw(st.lists(st.sampled_from(order[:index]), unique=True, max_size=2)) if index else []
        make = draw(st.sampled_from([config_map, config_map, deployment, collection]))
        more: dict[str, Any] = {}
        if index and draw(st.integers(0, 5)) == 0:  # one node stays: an empty scope has a test of its own
            more["includeWhen"] = ["${schema.spec.on}"]
        if draw(st.integers(0, 5)) == 0:
            more["namespace"] = "team"
        found.append(make(node_id, *reads, **more))
    return _reading_lists(found)


def _reading_lists(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What reads a collection reads the name of its first item."""
    text = json.dumps(nodes)
    for node in nodes:
        if "forEach" in node:
            text = text.replace(f"${{{node['id']}.metadata.name}}", f"${{{node['id']}[0].metadata.name}}")
    found: list[dict[str, Any]] = json.loads(text)
    return found


@st.composite
def repositories(draw: st.DrawFn, *, whole: bool = False) -> Files:
    """The files of one commit. Unless `whole`, one of them may be broken, or the definition not build, or be missing."""
    files: dict[str, str] = {"link.json": definition("Link", draw(nodes()))}
    if draw(st.booleans()):
        inner = {
            "id": "inner",
            "template": {
                "apiVersion": f"{GROUP}/v1",
                "kind": "Link",
                "metadata": {"name": "${schema.metadata.name}-in"},
                "spec": {"text": "${schema.spec.text}"},
            },
        }
        files["outer.json"] = definition("Outer", [inner, config_map("after", "inner")])
        if draw(st.booleans()):
            files["outside.json"] = instance("Outer", "outside", text=draw(st.sampled_from(["one", "two"])))
    for name in draw(st.lists(st.sampled_from(["x", "y"]), unique=True)):
        spec = {"text": draw(st.sampled_from(["one", "two"])), "on": draw(st.booleans())}
        files[f"{name}.json"] = instance("Link", name, **spec)
    names = draw(st.lists(st.sampled_from(["p", "q", "r"]), unique=True))
    for index, name in enumerate(names):
        needs = draw(st.lists(st.sampled_from(names[:index]), unique=True)) if index else []
        files[f"{name}.json"] = plain(name, *needs, text=draw(st.sampled_from(["one", "two"])))
    if not whole:
        match draw(st.integers(0, 5)):
            case 0:
                files[draw(st.sampled_from(sorted(files)))] = UNREADABLE
            case 1:
                files["link.json"] = definition("Link", [config_map("a", "b"), config_map("b", "a")])
            case 2:
                del files["link.json"]
    return files


def _renamed(link: str, node_id: str) -> str:
    """The definition, in which objects of this node are called after the text, or after how the workload is that the node reads."""
    found = json.loads(link)
    nodes = {node["id"]: node for node in found["spec"]["resources"]}
    if node := nodes.get(node_id):
        read = [one for one in node["template"].get("data", ()) if one in nodes and _is_workload(nodes[one])]
        after = f"string({read[0]}.status.availableReplicas)" if read else "schema.spec.text"
        node["template"]["metadata"]["name"] += f"-${{{after}}}"
    return json.dumps(found)


def _is_workload(node: Mapping[str, Any]) -> bool:
    return bool(node["template"]["kind"] == "Deployment")


CREW = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "crew", "annotations": {"levelgate.dev/prune": "allowed"}},
}
"""Goes with the last that lies in it."""


@st.composite
def tangles(draw: st.DrawFn, *, whole: bool = False) -> Files:
    """Repositories in which, besides, objects are called otherwise when the text changes, or have no name before a workload runs; they lie in a
    Namespace of the source; a plain workload needs others and is needed; objects move from file to file. Unless `whole`, plain objects need one
    another in a circle, or something that is not there, or one of them is what an instance wants; and files are broken more often.
    """
    files = dict(draw(repositories(whole=whole)))
    if "link.json" in files and files["link.json"] != UNREADABLE:
        link = _renamed(files["link.json"], draw(st.sampled_from([*IDS, "", ""])))
        files["link.json"] = link.replace("example.com/main:1", "example.com/main:${schema.spec.text}")
    if draw(st.integers(0, 3)) == 0:
        files = {name: text.replace('"namespace": "team"', '"namespace": "crew"') for name, text in files.items()}
        files["crew.json"] = json.dumps(CREW)
    if draw(st.integers(0, 3)) == 0:
        files["w.json"] = workload(*["p"] * ("p.json" in files))
        files["v.json"] = plain("v", WORKLOAD)
    if together := draw(st.sampled_from([(), (), ("p", "x"), ("q", "x", "y")])):
        found = [files.pop(file) for name in together if (file := f"{name}.json") in files]
        files["together.yaml"] = "\n---\n".join(found)
    if not whole:
        match draw(st.integers(0, 9)):
            case 0 | 1:
                files |= {"p.json": plain("p", "q"), "q.json": plain("q", "p")}
            case 2:
                files["q.json"] = plain("q", "absent")
            case 3:
                files["r.json"] = plain("x-a")
            case 4:
                files[draw(st.sampled_from(sorted(files)))] = UNREADABLE
    return files


@st.composite
def near(draw: st.DrawFn, files: Files) -> Files:
    """Another commit of the same repository: some files have the other text, some are not there, or cannot be read."""
    found = {}
    for name, text in files.items():
        match draw(st.integers(0, 7)):
            case 0 | 1:
                found[name] = re.sub(r"\b(one|two)\b", lambda word: "two" if word[0] == "one" else "one", text)
            case 2:
                found[name] = UNREADABLE
            case number if number > 3:
                found[name] = text
    return found


def faults() -> st.SearchStrategy[Mapping[int, str]]:
    """What befalls the writes of one pass: mostly one death, sometimes answers that do not come."""
    return st.one_of(
        st.dictionaries(st.integers(0, 12), st.sampled_from(["before", "after"]), max_size=1),
        st.dictionaries(st.integers(0, 12), st.sampled_from(["unavailable", "unknown"]), max_size=3),
    )


def reading(node_id: str, expression: str, **more: Any) -> dict[str, Any]:
    """Return a ConfigMap node with the value of an expression."""
    node = config_map(node_id, **more)
    node["template"]["data"] = {"value": expression}
    return node
