"""Cells of the tables that `kubectl get` prints, computed from an object and the current time.

Source: Kubernetes `pkg/printers`; apimachinery `pkg/util/duration`, HumanDuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from math import inf
from typing import Any

from applier.cluster import Object
from applier.sandbox.jsonpath import get_field
from renderer.label_selector import LabelSelector, SelectorError
from renderer.phrasing import join_names

MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY


_SECONDS, _MINUTES, _HOURS, _DAYS, _YEARS = (1, "s"), (MINUTE, "m"), (HOUR, "h"), (DAY, "d"), (YEAR, "y")
_DURATION_UNITS: Sequence[tuple[float, tuple[int, str], tuple[int, str] | None]] = (
    (2 * MINUTE, _SECONDS, None),
    (10 * MINUTE, _MINUTES, _SECONDS),
    (3 * HOUR, _MINUTES, None),
    (8 * HOUR, _HOURS, _MINUTES),
    (2 * DAY, _HOURS, None),
    (8 * DAY, _DAYS, _HOURS),
    (2 * YEAR, _DAYS, None),
    (8 * YEAR, _YEARS, _DAYS),
    (inf, _YEARS, None),
)
"""Units in which kubectl shows a duration. Each entry has an upper limit of the duration in seconds, the larger unit,
and the smaller unit, or None for a single unit.
"""


def format_duration(seconds: float) -> str:
    """Return a duration in the form of kubectl, with one unit or two: `45s`, `3m12s`, `5h`, `2d4h`, `3y40d`.

    A duration of -2 seconds or less is `<invalid>`.
    """
    whole_seconds = int(seconds)
    if whole_seconds < -1:
        return "<invalid>"
    whole_seconds = max(whole_seconds, 0)  # kubectl also tolerates a second of clock skew
    (unit_seconds, unit), smaller = next(
        (larger, smaller) for limit, larger, smaller in _DURATION_UNITS if whole_seconds < limit
    )
    text = f"{whole_seconds // unit_seconds}{unit}"
    if smaller and (remainder := whole_seconds % unit_seconds // smaller[0]):
        text += f"{remainder}{smaller[1]}"
    return text


_join_limited = partial(join_names, limit=3, separator=",", remainder=" + {} more...")
"""Function that joins names in the form of kubectl: the first three names, then the number of remaining names."""

Cell = Callable[[Object, float], Any]
"""Function that computes a cell from an object and the current time, in seconds after 1970-01-01 00:00 UTC."""


def format_age(time: Any, now: float) -> str:
    """Return the duration from `time` to `now`, or `<unknown>` if `time` is absent or invalid.

    Args:
        time: time in RFC 3339.
        now: current time, in seconds after 1970-01-01 00:00 UTC.
    """
    try:
        return format_duration(now - datetime.fromisoformat(time).timestamp())
    except (TypeError, ValueError):
        return "<unknown>"


def field_cell(path: str, default: Any = "") -> Cell:
    """Return a cell with the value at the dotted `path`, or with `default` if the value is absent."""

    def cell(obj: Object, _: float) -> Any:
        value = get_field(obj, path)
        return default if value is None else value

    return cell


def count_cell(*fields: str) -> Cell:
    """Return a cell with the number of items in all top-level `fields` together."""
    return lambda obj, _: sum(len(obj.get(field) or ()) for field in fields)


def ratio_cell(path: str, total: str, *, otherwise: int) -> Cell:
    """Return a cell with the numbers at `path` and `total`, such as `2/3`.

    If the total is absent, the cell shows `otherwise` in its place.
    """
    part_cell, total_cell = field_cell(path, 0), field_cell(total, otherwise)
    return lambda obj, now: f"{part_cell(obj, now)}/{total_cell(obj, now)}"


def labels_cell(path: str) -> Cell:
    """Return a cell with the map at `path` as sorted `key=value` pairs, or with `<none>` if the map is empty."""
    value_cell = field_cell(path, {})
    return lambda obj, now: (
        ",".join(f"{key}={value}" for key, value in sorted(value_cell(obj, now).items())) or "<none>"
    )


def selector_cell(path: str) -> Cell:
    """Return a cell with the label selector at `path`, in the form that `kubectl get -l` accepts."""
    value_cell = field_cell(path, {})

    def cell(obj: Object, now: float) -> str:
        try:
            return str(LabelSelector.from_object(value_cell(obj, now))) or "<none>"
        except SelectorError:
            return "<error>"

    return cell


def containers_cell(field: str, path: str) -> Cell:
    """Return a cell with `field` of each container in the pod spec at the dotted `path`."""
    value_cell = field_cell(f"{path}.containers", [])
    return lambda obj, now: ",".join(str(container.get(field, "")) for container in value_cell(obj, now))


def age(obj: Object, now: float) -> str:
    """Return the age of `obj`, from its creation to `now`."""
    return format_age(obj["metadata"].get("creationTimestamp"), now)


def ports(obj: Object, _: float) -> str:
    """Return the ports of a Service, such as `80:30080/TCP`, or `<none>` if the Service has no ports."""
    ports = (obj.get("spec") or {}).get("ports") or ()
    entries = []
    for port in ports:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        entries.append(f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(entries) or "<none>"


def external_address(obj: Object, _: float) -> str:
    """Return the external addresses of a Service or Ingress.

    For a Service of type ExternalName, the result is the external name. For a Service of type LoadBalancer without an
    address, the result is `<pending>`.
    """
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    external_ips = spec.get("externalIPs") or ()
    addresses = ",".join((*(str(entry.get("ip") or entry.get("hostname")) for entry in ingress), *external_ips))
    if addresses or "type" not in spec:
        return addresses
    return "<pending>" if spec["type"] == "LoadBalancer" else "<none>"


def job_status(obj: Object, _: float) -> str:
    """Return the first known condition of a Job that is true, or `Running` if no known condition is true.

    If the Job is terminating and not finished, return `Terminating`.
    """
    conditions = (obj.get("status") or {}).get("conditions") or ()
    true_types = [condition["type"] for condition in conditions if condition.get("status") == "True"]
    if "deletionTimestamp" in obj["metadata"] and not {"Complete", "Failed"} & {*true_types}:
        return "Terminating"
    known_types = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((known_type for known_type in known_types if known_type in true_types), "Running")


def job_duration(obj: Object, now: float) -> str:
    """Return the time from the start of a Job to its completion.

    If the Job has not completed, return the time from its start to `now`. If the Job has not started, return an empty
    string.
    """
    status = obj.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    return format_age(status["startTime"], datetime.fromisoformat(end).timestamp() if end else now)


def ingress_hosts(obj: Object, _: float) -> str:
    """Return the first three hosts of an Ingress, where `*` represents every host."""
    rules = (obj.get("spec") or {}).get("rules") or ()
    return _join_limited([str(rule.get("host") or "*") for rule in rules]) or "*"


def pod_ready(obj: Object, _: float) -> str:
    """Return the number of ready containers and the number of all containers of a Pod, such as `1/2`."""
    container_statuses = (obj.get("status") or {}).get("containerStatuses") or ()
    total = len((obj.get("spec") or {}).get("containers") or ())
    return f"{sum(bool(container_status.get('ready')) for container_status in container_statuses)}/{total}"


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes_cell(path: str) -> Cell:
    """Return a cell with the access modes at the dotted `path` in abbreviated form, such as `RWO,ROX`."""
    value_cell = field_cell(path, [])
    return lambda obj, now: ",".join(_MODES.get(mode, mode) for mode in value_cell(obj, now))


def job_completions(obj: Object, _: float) -> str:
    """Return the succeeded and the desired completions of a Job, such as `1/3`.

    If the Job has a parallelism and no completions, the form is `0/1 of 2`.
    """
    spec, succeeded = obj.get("spec") or {}, (obj.get("status") or {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    return f"{succeeded}/1 of {spec['parallelism']}" if spec.get("parallelism", 1) > 1 else f"{succeeded}/1"


def _format_metric_target(metric: Object) -> str:
    """Return the target of an autoscaler's metric, with `<unknown>` as the measured value.

    The sandbox does not measure metrics.
    """
    source = metric.get(metric["type"][:1].lower() + metric["type"][1:]) or {}
    target = source.get("target") or {}
    utilization = target.get("averageUtilization")
    goal = (
        f"{utilization}%" if utilization is not None else target.get("averageValue") or target.get("value") or "<auto>"
    )
    name = f"{source['name']}: " if metric["type"] == "Resource" and "name" in source else ""
    return f"{name}<unknown>/{goal}"


def metric_targets(obj: Object, _: float) -> str:
    """Return the first two targets of a HorizontalPodAutoscaler, or `<none>` if the autoscaler has no metrics."""
    return (
        _join_limited(
            [_format_metric_target(metric) for metric in obj["spec"].get("metrics") or ()], limit=2, separator=", "
        )
        or "<none>"
    )


def reference_cell(path: str, first: str = "kind") -> Cell:
    """Return a cell with the reference at `path`, such as `Deployment/x`, or with an empty string if it is absent.

    The first part is the field `first` of the reference.
    """
    value_cell = field_cell(path)
    return lambda obj, now: (
        "/".join(str(value_cell(obj, now).get(name, "")) for name in (first, "name")) if value_cell(obj, now) else ""
    )


def subjects_cell(kind: str) -> Cell:
    """Return a cell with the subjects of `kind` in a role binding.

    A subject with a namespace has the form `default/builder`.
    """

    def cell(obj: Object, _: float) -> str:
        matching = [subject for subject in obj.get("subjects") or () if subject.get("kind") == kind]
        return ", ".join(
            f"{subject['namespace']}/{subject['name']}" if "namespace" in subject else subject["name"]
            for subject in matching
        )

    return cell


def endpoints(obj: Object, _: float) -> str:
    """Return the first three addresses of an Endpoints object with their ports, or `<none>` if it has no subsets."""
    subsets = obj.get("subsets") or ()
    addresses = [
        f"{address.get('ip')}:{port['port']}"
        for subset in subsets
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return _join_limited(addresses) if subsets else "<none>"


def slice_ports(obj: Object, _: float) -> str:
    """Return the first three ports of an EndpointSlice, or `<unset>` if the slice has no ports.

    An entry `*` represents every port.
    """
    return _join_limited(port.get("port", "*") for port in obj.get("ports") or ()) or "<unset>"


def slice_endpoints(obj: Object, _: float) -> str:
    """Return the first three addresses of an EndpointSlice, or `<unset>` if the slice has no addresses."""
    return (
        _join_limited([address for endpoint in obj.get("endpoints") or () for address in endpoint["addresses"]])
        or "<unset>"
    )


def text_cell(path: str, default: Any) -> Cell:
    """Return a cell with the value at `path` as a string, or with `default` if the value is absent."""
    value_cell = field_cell(path, default)
    return lambda obj, now: str(value_cell(obj, now))


def quota_usage_cell(kind: str) -> Cell:
    """Return a cell with the used and total amounts of a ResourceQuota.

    Args:
        kind: `requests` or `limits`.
    """

    def cell(obj: Object, _: float) -> str:
        status = obj.get("status") or {}
        used_amounts = status.get("used") or {}
        return ", ".join(
            f"{name}: {used_amounts.get(name, '0')}/{hard_limit}"
            for name, hard_limit in sorted((status.get("hard") or {}).items())
            if name.startswith("limits.") is (kind == "limits")
        )

    return cell


def phase(obj: Object, now: float) -> Any:
    """Return `Terminating` for a terminating object, and otherwise the reason or phase in the status."""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return field_cell("status.reason")(obj, now) or field_cell("status.phase", "Pending")(obj, now)


def bound_claim_cell(path: str, cell: Cell) -> Cell:
    """Return a cell with the content of `cell`, or with an empty string if the claim has no value at `path`."""
    return lambda obj, now: cell(obj, now) if field_cell(path)(obj, now) else ""


def elapsed_time_cell(*paths: str) -> Cell:
    """Return a cell with the age of the timestamp at the first of `paths` that has a value."""
    return lambda obj, now: format_age(next(filter(None, (field_cell(path)(obj, now) for path in paths)), None), now)


def first_value_cell(*paths: str) -> Cell:
    """Return a cell with the first value found at `paths`, or with an empty string if no path has a value."""
    return lambda obj, now: next(filter(None, (field_cell(path)(obj, now) for path in paths)), "")


def involved_object(obj: Object, _: float) -> str:
    """Return the object to which an Event refers, such as `pod/x`."""
    reference_fields = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{reference_fields.get('kind', '').lower()}/{reference_fields.get('name', '')}"


def last_schedule_age(obj: Object, now: float) -> str:
    """Return the time since the last scheduling of a CronJob, or `<none>` before the first scheduling."""
    last_time = field_cell("status.lastScheduleTime")(obj, now)
    return format_age(last_time, now) if last_time else "<none>"


def class_parameters(obj: Object, now: float) -> str:
    """Return the parameters of an IngressClass, such as `Kind.group/name`, or `<none>` if it has no parameters."""
    parameter_reference = field_cell("spec.parameters", {})(obj, now)
    kind = ".".join(filter(None, (parameter_reference.get("kind"), parameter_reference.get("apiGroup"))))
    return f"{kind}/{parameter_reference['name']}" if parameter_reference else "<none>"


def storage_class_name(obj: Object, _: float) -> str:
    """Return the name of a StorageClass.

    If the class is the default class, `(default)` follows the name.
    """
    metadata = obj["metadata"]
    is_default = (metadata.get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{metadata['name']} (default)" if is_default else str(metadata["name"])


def event_source(obj: Object, now: float) -> str:
    """Return the reporting component of an Event, and the host of the component."""
    names = (
        first_value_cell("source.component", "deprecatedSource.component", "reportingComponent", "reportingController"),
        first_value_cell("source.host", "deprecatedSource.host", "reportingInstance"),
    )
    return ", ".join(filter(None, (name(obj, now) for name in names)))
