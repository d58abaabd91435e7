"""Random repositories: definitions over a few ids, instances, nested instances, plain objects, and files that somebody broke."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.properties.platform import Files

GROUP = "g.test"
UNREADABLE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [unclosed\n"
IDS = "abcd"


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
    labels = {"app": node_id}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
    node["template"] |= {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    node["template"]["metadata"]["annotations"] = node["template"].pop("data")
    node["readyWhen"] = [f"${{{node_id}.status.availableReplicas == {node_id}.spec.replicas}}"]
    return node


def instance(kind: str, name: str, **spec: Any) -> str:
    metadata = {"name": name, "namespace": "default"}
    return json.dumps({"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec})


def plain(name: str, *needs: str, namespace: str = "default", text: str = "one", kind: str = "ConfigMap") -> str:
    """A ConfigMap of the source's own set; `needs` are names of others."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if needs:
        references = ",".join(f"/namespaces/{namespace}/ConfigMap/{other}" for other in needs)
        metadata["annotations"] = {"config.kubernetes.io/depends-on": references}
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"text": text}})


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


def faults() -> st.SearchStrategy[Mapping[int, str]]:
    """What befalls the writes of one pass: mostly one death, sometimes answers that do not come."""
    return st.one_of(
        st.dictionaries(st.integers(0, 12), st.sampled_from(["before", "after"]), max_size=1),
        st.dictionaries(st.integers(0, 12), st.sampled_from(["unavailable", "unknown"]), max_size=3),
    )
