"""Many clusters from one process: `python -m bench.fleet [--clusters 100] [--instances 100]`.

The hub is `levelgate run --config` with a real repository. The clusters are sandboxes in other processes, each with a
kubeconfig of its own. Every instance has three ConfigMaps. The bench prints each figure beside its limit. If a figure
exceeds its limit, or a wait fails, the bench ends with exit code 1. docs/performance.md describes the figures.
`--profile FILE` writes the functions in which the event loop of the hub used CPU until all was settled.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from math import ceil, inf
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import orjson

from bench._fleet_servers import SOURCE
from bench._proc import cpu, memory
from bench._wanted import end, missed
from bench.kro.fleet import DEFINITION, NAMESPACE, Change
from bench.kro.fleet import Fleet as Work
from bench.kro.watching import StuckError
from tests.support.git.repository import Repository

ROOT: Final = Path(__file__).resolve().parents[1]
RESOURCES: Final = 3
PROCESSES: Final = 4
"""Number of processes that serve the clusters. The hub's own cluster and the marked cluster have further processes."""

SMALLER: Final = (1, 10)
"""Numbers of clusters of the smaller fleets, beside which the bench puts the requested fleet."""

HUB, SINGLE, MARKED = "hub", "single", "marked"
TIMES_MARKED: Final = 10
"""Ratio of the instances of the marked cluster to the instances of another cluster."""

LONGEST: Final = 900.0
"""Longest wait in seconds."""

LOOK: Final = 0.5
EVENT_LOOK: Final = 0.02
"""Seconds between two looks during the wait for an event. Short waits keep the share of the idle hub small."""

EVENT_SECONDS: Final = 10.0
"""Seconds after which an unhealed drift counts as never healed."""

WANTED: Final = {
    "seconds until all are engaged": 60.0,
    "peak memory, GiB": 1.0,
    "CPU when idle, % of a core": 5.0,
    "CPU seconds of one whole resync": 20.0,
    "requests of a cluster more than of a single one": 2.0,
    "CPU of one event, x that with 1 cluster": 1.1,
    "event to write beside a marked cluster, seconds, p99": 0.5,
}


@dataclass(frozen=True)
class Options:
    """Arguments of the command. After `still` seconds without a request, the fleet is at rest."""

    clusters: int
    instances: int
    idle: float
    events: int
    still: float
    profile: Path | None

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Options:
        """Parse the arguments. Raises: SystemExit for an invalid argument."""
        parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=(__doc__ or "").split("\n")[0])
        parser.add_argument("--clusters", type=int, default=100)
        parser.add_argument("--instances", type=int, default=100, help="of each cluster")
        parser.add_argument("--idle", type=float, default=60.0, help="seconds that the idle hub is watched")
        parser.add_argument("--events", type=int, default=50, help="of which the CPU is measured")
        parser.add_argument("--still", type=float, default=5.0, help="seconds without a request that mean rest")
        parser.add_argument("--profile", type=Path, metavar="FILE", help="what the hub did until all was settled")
        found = parser.parse_args(arguments)
        if min(found.clusters, found.instances, found.events) < 1 or min(found.idle, found.still) <= 0:
            parser.error("all numbers have to be more than 0")
        return cls(**vars(found))


@dataclass
class Servers:
    """Processes with the sandboxes of a fleet, and the URL of the door for each sandbox."""

    directory: Path
    doors: list[str] = field(default_factory=list)
    door_of: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def serve(self, groups: Sequence[Sequence[str]]) -> Iterator[None]:
        with ExitStack() as stack:
            started = []
            for names in filter(None, groups):
                command = (sys.executable, "-m", "bench._fleet_servers", str(self.directory), *names)
                process = stack.enter_context(
                    subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                )
                stack.callback(process.kill)
                started.append((names, process))
            for names, process in started:
                assert process.stdout
                if not (door := process.stdout.readline().strip()):
                    raise StuckError(f"a process with {len(names)} sandboxes has ended")
                self.doors.append(door)
                self.door_of |= dict.fromkeys(names, door)
            yield

    def ask(self, what: str) -> dict[str, Any]:
        """Return the answers of all sandboxes to `what`, by cluster."""
        return {name: told for door in self.doors for name, told in get(f"{door}/{what}").items()}

    def ask_of(self, cluster: str, what: str) -> dict[str, Any]:
        """Return the answer of the process that serves `cluster`, for this cluster."""
        found: dict[str, Any] = get(f"{self.door_of[cluster]}/{what}")[cluster]
        return found

    def tell(self, what: str, cluster: str, *arguments: str) -> None:
        get("/".join((self.door_of[cluster], what, cluster, *arguments)))


def get(url: str) -> dict[str, Any]:
    with urlopen(url, timeout=60) as answer:
        found: dict[str, Any] = orjson.loads(answer.read())
    return found


@dataclass
class World:
    """Clusters, a repository, and a hub or a daemon of a single cluster that reconciles them."""

    directory: Path
    size: int
    options: Options
    work: Work = field(init=False)
    hub: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.work = Work.of_size(self.options.instances, RESOURCES)
        self.names = [f"c{number}" for number in range(self.size)]
        kubeconfigs = self.directory / "clusters"
        kubeconfigs.mkdir(parents=True)
        self.servers = Servers(kubeconfigs)
        self.repository = Repository(self.directory / "platform")
        self.repository.path.mkdir()
        self.repository.git("init", "--quiet")
        self.config = self.directory / "levelgate.yaml"
        settings = {
            "apiVersion": "levelgate.dev/v1alpha1",
            "kind": "Config",
            "fleet": {"source": SOURCE, "directory": "clusters"},
            "sources": [{"name": SOURCE, "url": str(self.repository.path), "interval": "1h"}],
        }
        self.config.write_text(json.dumps(settings))

    @contextmanager
    def serve(self) -> Iterator[None]:
        groups = [self.names[number::PROCESSES] for number in range(PROCESSES)]
        with self.servers.serve([*groups, [HUB], [SINGLE], [MARKED]]):
            try:
                yield
            finally:
                self.stop()

    def commit_work(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        labelled = {
            f"apps/{name}.yaml": json.dumps(with_label(self.work.instance(name), "everywhere"))
            for name in self.work.names
        }
        definition = {"definition.yaml": Change.between(None, self.work).files()["definition.yaml"]}
        self.repository.commit({"namespace.yaml": json.dumps(namespace), **definition, **labelled})

    def commit_fleet(self) -> None:
        clusters: dict[str, str | None] = {f"clusters/{name}.yaml": cluster(name, "everywhere") for name in self.names}
        self.repository.commit({**clusters, "placements/everywhere.yaml": placement("everywhere")})

    def commit_marked(self) -> Work:
        """Commit a further cluster with instances of its own, and return these instances."""
        many = Work.of_size(self.options.instances * TIMES_MARKED, RESOURCES)
        files: dict[str, str | None] = {f"clusters/{MARKED}.yaml": cluster(MARKED, MARKED)}
        files[f"placements/{MARKED}.yaml"] = placement(MARKED)
        for name in many.names:
            instance = with_label(many.instance(name), MARKED)
            instance["metadata"]["name"] = f"m{name}"
            files[f"marked/{name}.yaml"] = json.dumps(instance)
        self.repository.commit(files)
        return many

    def start(self, *arguments: str, single: bool = False, profile: Path | None = None) -> float:
        """Start the daemon, and return the time of the start."""
        program: tuple[str, ...] = (str(Path(sys.executable).with_name("levelgate")),)
        if profile:
            program = (sys.executable, "-m", "bench._sampled", str(profile.resolve()))
        sources = ("--source", f"{SOURCE}={self.repository.path}") if single else ("--config", str(self.config))
        own = {
            "KUBECONFIG": str(self.servers.directory / (SINGLE if single else HUB)),
            "XDG_CACHE_HOME": str(self.directory / "cache"),
            "LEVELGATE_LISTEN": "off",
            "NO_COLOR": "1",
        }
        with (self.directory / "hub.log").open("ab") as log:
            begun = time.monotonic()
            self.hub = subprocess.Popen(
                (*program, "run", *sources, *arguments),
                cwd=ROOT,
                env={**os.environ, **own},
                stdout=log,
                stderr=log,
            )
        return begun

    @property
    def pid(self) -> int:
        assert self.hub
        return self.hub.pid

    def stop(self) -> None:
        if self.hub is None:
            return
        with suppress(ProcessLookupError):
            self.hub.send_signal(signal.SIGTERM)
        try:
            self.hub.wait(30)
        except subprocess.TimeoutExpired:
            self.hub.kill()
            self.hub.wait(30)
        self.hub = None

    def restart(self, *arguments: str) -> float:
        """Restart the daemon, wait until all clusters are at rest, and return the time of the start."""
        self.stop()
        before = self.requests(self.names)
        begun = self.start(*arguments)
        self.until_asked(before, "all engaged again")
        self.until_still()
        return begun

    def until_asked(self, before: dict[str, int], what: str) -> None:
        """Wait until every cluster has received a further request."""

        def missing() -> str:
            found = self.requests(self.names)
            return some([name for name in self.names if found[name] == before[name]])

        self.until(what, missing)

    def until(self, what: str, missing: Callable[[], str], longest: float = LONGEST, look: float = LOOK) -> float:
        """Wait until nothing is missing, and return the time. Raises: StuckError after `longest` seconds."""
        begun = time.monotonic()
        while told := missing():
            if self.hub is not None and self.hub.poll() is not None:
                raise StuckError(f"{what}: the daemon has ended with {self.hub.returncode}:\n{self.log_end()}")
            if time.monotonic() - begun > longest:
                raise StuckError(f"{what}: not after {longest:.0f} s: {told}\n{self.log_end()}")
            time.sleep(look)
        return time.monotonic()

    def log_end(self) -> str:
        return "\n".join((self.directory / "hub.log").read_text(errors="replace").splitlines()[-15:])

    def not_engaged(self) -> str:
        """Return the names of the clusters that the hub's records do not report as engaged."""
        server = json.loads((self.servers.directory / HUB).read_bytes())["clusters"][0]["cluster"]["server"]
        selector = "labelSelector=internal.levelgate.dev/record%3Dcluster"
        records = get(f"{server}/api/v1/namespaces/levelgate-system/configmaps?{selector}")["items"]
        engaged = {live["metadata"]["name"] for live in records if live.get("data", {}).get("state") == "Engaged"}
        return some([name for name in self.names if f"cluster-{name}" not in engaged])

    def not_settled(self, names: Sequence[str]) -> str:
        found = self.servers.ask("figures")
        return some([name for name in names if found[name]["state"] != "Settled"])

    def check_objects(self, names: Sequence[str], wanted: int) -> None:
        """Check that each cluster has `wanted` ConfigMaps. Raises: StuckError."""
        found = self.servers.ask("objects")
        if wrong := [f"{name}: {found[name]}" for name in names if int(found[name]) != wanted]:
            raise StuckError(f"not {wanted} ConfigMaps: {some(wrong)}\n{self.log_end()}")

    def until_still(self) -> None:
        last, since = -1, 0.0

        def missing() -> str:
            nonlocal last, since
            requests = sum(each["requests"] for each in self.servers.ask("figures").values())
            if requests != last:
                last, since = requests, time.monotonic()
            return "" if time.monotonic() - since >= self.options.still else f"{requests} requests, and still more"

        self.until("no further request", missing)

    def requests(self, names: Sequence[str]) -> dict[str, int]:
        found = self.servers.ask("figures")
        return {name: found[name]["requests"] for name in names}

    def idle(self) -> float:
        """Return the share of a core that the idle hub uses."""
        before, begun = cpu(self.pid), time.monotonic()
        time.sleep(self.options.idle)
        return (cpu(self.pid) - before) / (time.monotonic() - begun)

    def event_cpu(self, idle: float) -> float:
        """Return the CPU seconds of one event, without the CPU of the idle hub.

        The events change ConfigMaps of one cluster, one after another.
        """
        first = self.names[0]

        def drifted() -> str:
            return "drift" if self.servers.ask_of(first, "figures")["drifted"] else ""

        before, begun = cpu(self.pid), time.monotonic()
        for name in islice(cycle(self.work.config_maps()), self.options.events):
            self.servers.tell("drift", self.names[0], name)
            self.until(f"{name} healed", drifted, look=EVENT_LOOK)
        self.until_still()
        taken = cpu(self.pid) - before - idle * (time.monotonic() - begun)
        return taken / self.options.events

    def latencies(self, events: int, pause: float) -> list[float]:
        """Return the seconds from each drift to its healing. The drifts go through all clusters in turn.

        An unhealed drift counts as infinite.
        """
        before = {name: len(each["latencies"]) for name, each in self.servers.ask("figures").items()}
        objects = list(self.work.config_maps())
        events = min(events, len(objects) * self.size)
        for number in range(events):
            self.servers.tell("drift", self.names[number % self.size], objects[number // self.size])
            time.sleep(pause)
        with suppress(StuckError):
            self.until("all healed", self._drifted, EVENT_SECONDS)
        found = self.servers.ask("figures")
        taken = [each for name in self.names for each in found[name]["latencies"][before[name] :]]
        return sorted([*taken, *[inf] * (events - len(taken))])

    def _drifted(self) -> str:
        found = self.servers.ask("figures")
        return some([name for name in self.names if found[name]["drifted"]])


def with_label(instance: dict[str, Any], where: str) -> dict[str, Any]:
    return {**instance, "metadata": {**instance["metadata"], "labels": {"where": where}}}


def cluster(name: str, where: str) -> str:
    return declared("Cluster", name, {"access": {"file": name}}, labels={"where": where})


def placement(where: str) -> str:
    label = {"matchLabels": {"where": where}}
    objects = {"rgds": [DEFINITION], "instances": label}
    return declared("Placement", where, {"objects": objects, "clusters": label})


def declared(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> str:
    return json.dumps(
        {"apiVersion": "levelgate.dev/v1alpha1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    )


def some(names: Sequence[str], shown: int = 3) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


@dataclass
class Report:
    """Printer of figures, each beside its limit. The printer collects the missed limits."""

    found: list[str] = field(default_factory=list)

    def row(self, label: str, figure: float, note: str = "") -> None:
        wanted = WANTED.get(label)
        self.found += missed(label, figure, wanted) if wanted is not None else []
        words = f"at most {wanted:g}" if wanted is not None else ""
        print(f"{label:<56} {figure:>10.4g}  {words:<14} {note}".rstrip(), flush=True)


def main(arguments: Sequence[str] = ()) -> list[str]:
    options = Options.parse(arguments)
    sizes = sorted({size for size in SMALLER if size < options.clusters} | {options.clusters})
    print(f"{options.clusters} clusters x {options.instances} instances of {RESOURCES} objects")
    report, per_event = Report(), dict[int, float]()
    try:
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name:
                world = World(Path(name), size, options)
                with world.serve():
                    per_event[size] = measure(world, report, is_last=size == sizes[-1])
    except StuckError as error:
        report.found.append(f"a wait: {error}")
    for size, taken in per_event.items():
        ratio = taken / per_event[sizes[0]] if per_event[sizes[0]] > 0 else inf
        report.row(f"CPU milliseconds of one event, {size} clusters", taken * 1_000)
        if size != sizes[0]:
            report.row("CPU of one event, x that with 1 cluster", ratio, f"{size} clusters")
    return report.found


def measure(world: World, report: Report, *, is_last: bool) -> float:
    """Measure one fleet, and return the CPU seconds of one event. For the last fleet, measure all figures."""
    options, objects = world.options, world.options.instances * RESOURCES
    world.commit_work()
    single = 0
    if is_last:
        world.start(single=True)
        world.until("the single cluster settled", lambda: world.not_settled([SINGLE]))
        world.until_still()
        world.check_objects([SINGLE], objects)
        single = world.requests([SINGLE])[SINGLE]
        world.stop()
    world.commit_fleet()
    begun = world.start(profile=options.profile if is_last else None)
    engaged = world.until("all engaged", world.not_engaged)
    if is_last:
        report.row("seconds until all are engaged", engaged - begun)
    settled = world.until("all settled", lambda: world.not_settled(world.names))
    world.until_still()
    world.check_objects(world.names, objects)
    if is_last:
        report.row("seconds until all are settled", settled - begun)
        report.row("CPU seconds until then", cpu(world.pid))
        report.row("peak memory, GiB", memory(world.pid)[1] / 1024)
        requests = world.requests(world.names)
        least, most = min(requests.values()), max(requests.values())
        note = f"{least} to {most} beside {single}"
        report.row("requests of a cluster more than of a single one", most - single, note)
        if options.profile:
            world.restart()
    idle = world.idle()
    per_event = world.event_cpu(idle)
    if is_last:
        report.row("CPU when idle, % of a core", idle * 100)
        measure_resync(world, report, idle, settled - begun)
        measure_beside_marked(world, report)
    return per_event


def measure_resync(world: World, report: Report, idle: float, start_seconds: float) -> None:
    """Measure the first resync of a restarted hub.

    The interval of the resync is so long that the hub is at rest before.
    """
    interval = ceil(start_seconds + 3 * world.options.still + 5)
    begun = world.restart("--resync", f"{interval}s")
    report.row("CPU seconds of a restart", cpu(world.pid))
    requests = world.requests(world.names)
    before, since = cpu(world.pid), time.monotonic()
    if since - begun > interval:
        raise StuckError(f"the hub came to rest {since - begun:.0f} s after its start, later than its first resync")
    world.until_asked(requests, "a resync of all clusters")
    world.until_still()
    report.row("CPU seconds of one whole resync", cpu(world.pid) - before - idle * (time.monotonic() - since))
    world.restart()


def measure_beside_marked(world: World, report: Report) -> None:
    events, pause = world.options.events * 4, 0.1
    alone = world.latencies(events, pause)
    report.row("event to write, seconds, p99", percentile(alone, 99), f"median {percentile(alone, 50):.3f}")
    many = world.commit_marked()
    world.until("the cluster that is marked settled", lambda: world.not_settled([MARKED]))
    world.until_still()
    world.check_objects([MARKED], len(many.config_maps()))
    before = cpu(world.pid), time.monotonic()
    world.servers.tell("mark", MARKED)
    try:
        beside = world.latencies(events, pause)
    finally:
        world.servers.tell("rest", MARKED)
    share = (cpu(world.pid) - before[0]) / (time.monotonic() - before[1])
    marks = world.servers.ask("figures")[MARKED]["marks"] / (time.monotonic() - before[1])
    note = f"median {percentile(beside, 50):.3f}; {marks:.0f} marks/s; {share:.0%} of a core"
    report.row("event to write beside a marked cluster, seconds, p99", percentile(beside, 99), note)


def percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, ceil(len(ordered) * percent / 100) - 1)]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The processes end, and their files go.
    end(main(sys.argv[1:]))
