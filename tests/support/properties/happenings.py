"""Events in the cluster and in Git that concern a known set of instances."""

from __future__ import annotations

from collections.abc import Collection

from applier.cluster import Object
from gitops.reconcile.incremental.scope import WidenScope
from renderer.identity import ObjectKey
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import CONFIG_MAPS, MERGE, OWN

LINKS = f"/apis/{GROUP}/v1/namespaces/default/links"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def key(name: str) -> ObjectKey:
    if name in NAMES:
        return ObjectKey(GROUP, "Link", "default", name)
    return (
        ObjectKey("apps", "Deployment", "default", name)
        if name == "web"
        else ObjectKey("", "ConfigMap", "default", name)
    )


NAMES = ("a", "b", "c")
PLAIN = ("plain-0", "plain-1", "plain-2", "web")
EVERYTHING = tuple(map(key, (*NAMES, *PLAIN)))


def happens(fleet: LinkPlatform, what: str, name: str) -> set[ObjectKey]:
    """What somebody does; answers which instances it concerns."""
    match what:
        case "delete":
            listed = fleet.request("GET", CONFIG_MAPS)["items"]
            if any(one["metadata"]["name"] == f"{name}-app" for one in listed):
                fleet.request("DELETE", f"{CONFIG_MAPS}/{name}-app")
        case "unready" | "ready":
            fleet.ready(name, ready=what == "ready")
        case "commit":
            fleet.written = {**fleet.written, name: {"text": f"text {fleet.commits}"}}
            fleet.push()
            return set(due(fleet))
        case "commit plain":
            fleet.plain = {**fleet.plain, name: plain(name, f"text {fleet.commits}")}
            fleet.push()
            return set(due(fleet))
        case "delete plain":
            if name in fleet.deployed_names() or name != "web":
                path = DEPLOYMENTS if name == "web" else CONFIG_MAPS
                if any(one["metadata"]["name"] == name for one in fleet.request("GET", path)["items"]):
                    fleet.request("DELETE", f"{path}/{name}")
        case "edit plain":
            if name != "web" and any(
                one["metadata"]["name"] == name for one in fleet.request("GET", CONFIG_MAPS)["items"]
            ):
                said = {"data": {"text": "by hand"}}
                fleet.request("PATCH", f"{CONFIG_MAPS}/{name}?fieldManager=kubectl-edit", said, MERGE)
        case "edit":
            fleet.request("PATCH", f"{LINKS}/{name}?fieldManager=kubectl-edit", {"spec": {"text": "by hand"}}, MERGE)
        case "label":
            fleet.annotate(name, priority="5")
        case "delete instance":
            fleet.request("DELETE", f"{LINKS}/{name}")
    return {key(name)}


def state_of(fleet: LinkPlatform, *, uids: bool = True) -> dict[str, object]:
    """Everything that is written of the fleet, but for what the server counts and when it was."""
    found: dict[str, object] = {}
    kept = ("labels", "annotations", "finalizers", *(("uid",) if uids else ()))
    for path in (LINKS, CONFIG_MAPS, DEPLOYMENTS):
        for one in fleet.request("GET", path)["items"]:
            metadata = {name: one["metadata"].get(name) for name in kept}
            body = {name: value for name, value in one.items() if name != "metadata"}
            found[f"{path}/{one['metadata']['name']}"] = (metadata, body)
    for one in fleet.request("GET", OWN)["items"]:
        data = dict(one.get("data") or {})
        data.pop("passes", None)
        found[f"{OWN}/{one['metadata']['name']}"] = data
    return found


def plain(name: str, text: str) -> Object:
    """A ConfigMap; `web` is a Deployment that reads the first one, and where it is `used` the second. Where it is `held` nobody writes it."""
    about = {"levelgate.dev/reconcile": "disabled"} if text == "held" else {}
    metadata = {"name": name, "namespace": "default", "annotations": {"text": text, **about}}
    if name != "web":
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}
    read = ["plain-0", "plain-1"] if text == "used" else ["plain-0"]
    container = {"name": "app", "image": text, "envFrom": [{"configMapRef": {"name": one}} for one in read]}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def due(fleet: LinkPlatform) -> Collection[ObjectKey]:
    """Return the instances that are due after a commit. Where parts cannot tell, everything is reconciled and due."""
    found = fleet.reconciler.accept([fleet.state])
    if isinstance(found, WidenScope):
        fleet.settle()
    return EVERYTHING if isinstance(found, WidenScope) else found
