"""Cells of the tables that `kubectl get` prints: from an object and the time, what stands there. Source: Kubernetes
`pkg/printers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from applier.sandbox.printing.durations import human

Object = dict[str, Any]
Cell = Callable[[Object, float], Any]
"""From an object and the time now (seconds since 1970)."""


def since(time: Any, now: float) -> str:
    try:
        return human(now - datetime.fromisoformat(time).timestamp())
    except (TypeError, ValueError):
        return "<unknown>"


def at(path: str, default: Any = "") -> Cell:
    """The value at a dotted path."""
    names = path.split(".")

    def cell(obj: Object, _: float) -> Any:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return default if value is None else value

    return cell


def count(*fields: str) -> Cell:
    return lambda obj, _: sum(len(obj.get(field) or ()) for field in fields)


def of(path: str, total: str, *, otherwise: int = 0) -> Cell:
    """`2/3`."""
    part, whole = at(path, 0), at(total, otherwise)
    return lambda obj, now: f"{part(obj, now)}/{whole(obj, now)}"


def labels(path: str) -> Cell:
    found = at(path, {})
    return lambda obj, now: ",".join(f"{key}={value}" for key, value in sorted(found(obj, now).items())) or "<none>"


def selector(path: str) -> Cell:
    """A label selector, as `kubectl get -l` takes it."""
    found = at(path, {})

    def cell(obj: Object, now: float) -> str:
        chosen = found(obj, now)
        terms = {name: f"{name}={value}" for name, value in (chosen.get("matchLabels") or {}).items()}
        terms |= {one["key"]: _expression(one) for one in chosen.get("matchExpressions") or ()}
        return ",".join(terms[name] for name in sorted(terms)) or "<none>"

    return cell


def _expression(one: Object) -> str:
    values = ",".join(sorted(one.get("values") or ()))
    match one["operator"]:
        case "Exists":
            return str(one["key"])
        case "DoesNotExist":
            return f"!{one['key']}"
        case operator:
            return f"{one['key']} {operator.lower()} ({values})"


def containers(field: str, path: str = "spec.template.spec") -> Cell:
    found = at(f"{path}.containers", [])
    return lambda obj, now: ",".join(str(one.get(field, "")) for one in found(obj, now))


def age(obj: Object, now: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def ports(obj: Object, _: float) -> str:
    ports = (obj.get("spec") or {}).get("ports") or ()
    words = []
    for port in ports:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        words.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(words) or "<none>"


def address(obj: Object, _: float) -> str:
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    given = spec.get("externalIPs") or ()
    found = ",".join((*(str(one.get("ip") or one.get("hostname")) for one in ingress), *given))
    if found or "type" not in spec:
        return found
    return "<pending>" if spec["type"] == "LoadBalancer" else "<none>"


def job_status(obj: Object, _: float) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    held = [one["type"] for one in conditions if one.get("status") == "True"]
    if "deletionTimestamp" in obj["metadata"] and not {"Complete", "Failed"} & {*held}:
        return "Terminating"
    words = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((word for word in words if word in held), "Running")


def job_duration(obj: Object, now: float) -> str:
    status = obj.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    return since(status["startTime"], datetime.fromisoformat(end).timestamp() if end else now)


def hosts(obj: Object, _: float) -> str:
    rules = (obj.get("spec") or {}).get("rules") or ()
    return _few([str(rule.get("host") or "*") for rule in rules]) or "*"


def pod_ready(obj: Object, _: float) -> str:
    states = (obj.get("status") or {}).get("containerStatuses") or ()
    total = len((obj.get("spec") or {}).get("containers") or ())
    return f"{sum(bool(one.get('ready')) for one in states)}/{total}"


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def modes(path: str) -> Cell:
    found = at(path, [])
    return lambda obj, now: ",".join(_MODES.get(mode, mode) for mode in found(obj, now))


def completions(obj: Object, _: float) -> str:
    spec, done = obj.get("spec") or {}, (obj.get("status") or {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{done}/{spec['completions']}"
    return f"{done}/1 of {spec['parallelism']}" if spec.get("parallelism", 1) > 1 else f"{done}/1"


def _target(metric: Object) -> str:
    """What an autoscaler aims at; what it has measured it cannot say here."""
    source = metric.get(metric["type"][:1].lower() + metric["type"][1:]) or {}
    target = source.get("target") or {}
    share = target.get("averageUtilization")
    aim = f"{share}%" if share is not None else target.get("averageValue") or target.get("value") or "<auto>"
    name = f"{source['name']}: " if metric["type"] == "Resource" and "name" in source else ""
    return f"{name}<unknown>/{aim}"


def targets(obj: Object, _: float) -> str:
    return _few([_target(metric) for metric in obj["spec"].get("metrics") or ()], most=2, between=", ") or "<none>"


def reference(path: str, first: str = "kind") -> Cell:
    """`Deployment/x`; "" where there is none."""
    found = at(path)
    return lambda obj, now: (
        "/".join(str(found(obj, now).get(name, "")) for name in (first, "name")) if found(obj, now) else ""
    )


def subjects(kind: str) -> Cell:
    def cell(obj: Object, _: float) -> str:
        found = [one for one in obj.get("subjects") or () if one.get("kind") == kind]
        return ", ".join(f"{one['namespace']}/{one['name']}" if "namespace" in one else one["name"] for one in found)

    return cell


def endpoints(obj: Object, _: float) -> str:
    """Of Endpoints: addresses with their ports."""
    subsets = obj.get("subsets") or ()
    found = [
        f"{address.get('ip')}:{port['port']}"
        for one in subsets
        for port in one.get("ports") or ()
        for address in one.get("addresses") or ()
    ]
    return _few(found) if subsets else "<none>"


def _few(words: Sequence[str], *, most: int = 3, between: str = ",") -> str:
    return between.join(words[:most]) + (f" + {len(words) - most} more..." if len(words) > most else "")


def slice_ports(obj: Object, _: float) -> str:
    return _few([str(port.get("port", "*")) for port in obj.get("ports") or ()]) or "<unset>"


def slice_endpoints(obj: Object, _: float) -> str:
    return _few([address for one in obj.get("endpoints") or () for address in one["addresses"]]) or "<unset>"


def text(path: str, default: Any = "") -> Cell:
    """The value at a path as Go prints it."""
    found = at(path, default)
    return lambda obj, now: str(found(obj, now))


def used(of: str) -> Cell:
    """Of a ResourceQuota: what is used of what there is, of requests or of limits."""

    def cell(obj: Object, _: float) -> str:
        status = obj.get("status") or {}
        spent = status.get("used") or {}
        return ", ".join(
            f"{name}: {spent.get(name, '0')}/{most}"
            for name, most in sorted((status.get("hard") or {}).items())
            if name.startswith("limits.") is (of == "limits")
        )

    return cell


def phase(obj: Object, now: float) -> Any:
    """Of a Pod or a claim; of a Pod why it has that, where its status says so."""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return at("status.reason")(obj, now) or at("status.phase", "Pending")(obj, now)


def bound(path: str, cell: Cell) -> Cell:
    """A cell of a claim that has a volume."""
    return lambda obj, now: cell(obj, now) if at(path)(obj, now) else ""


def elapsed(*paths: str) -> Cell:
    """How long ago the first of these times was that there is."""
    return lambda obj, now: since(next(filter(None, (at(path)(obj, now) for path in paths)), None), now)


def first(*paths: str) -> Cell:
    """The first of these values that there is; "" for none."""
    return lambda obj, now: next(filter(None, (at(path)(obj, now) for path in paths)), "")


def regarding(obj: Object, _: float) -> str:
    """`pod/x`, what an Event is about."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def last_scheduled(obj: Object, now: float) -> str:
    last = at("status.lastScheduleTime")(obj, now)
    return since(last, now) if last else "<none>"


def parameters(obj: Object, now: float) -> str:
    found = at("spec.parameters", {})(obj, now)
    kind = ".".join(filter(None, (found.get("kind"), found.get("apiGroup"))))
    return f"{kind}/{found['name']}" if found else "<none>"


def storage_class(obj: Object, _: float) -> str:
    metadata = obj["metadata"]
    chosen = (metadata.get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{metadata['name']} (default)" if chosen else str(metadata["name"])


def teller(obj: Object, now: float) -> str:
    """Who tells an Event, and from where."""
    names = (
        first("source.component", "deprecatedSource.component", "reportingComponent", "reportingController"),
        first("source.host", "deprecatedSource.host", "reportingInstance"),
    )
    return ", ".join(filter(None, (name(obj, now) for name in names)))
