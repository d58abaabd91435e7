"""A window that opens in one cluster of a fleet while it stays closed in another: real clusters, the real command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tests.support import command as process
from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.definitions import config_map
from tests.support.fleet_platform import FleetPlatform, document, everything, fleet
from tests.support.platform import MERGE

__all__ = ["fleet"]


def window(cluster_name: str, opens: datetime, zone: str) -> str:
    """Changes in this cluster begin from then on, for a day."""
    start, end = (f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%dT%H:%M:%S}" for moment in (opens, opens + timedelta(1)))
    selector, schedule = {"clusters": [cluster_name]}, {"once": [{"start": start, "end": end}]}
    spec = {"kind": "Allow", "timeZone": zone, "selector": selector, "schedule": schedule}
    return document("PropagationWindow", f"hours-{cluster_name}", spec)


def ask(fleet: FleetPlatform, *arguments: str) -> str:
    """What a command says of a cluster, asked at the hub; times in UTC."""
    environment = {**fleet.environment, "LEVELGATE_CONFIG": str(fleet.config), "TZ": "UTC"}
    done = process.run(arguments, environment)
    assert done.returncode in {0, 3}, done.stdout + done.stderr
    return done.stdout


def written_at(server: ControlPlane, namespace: str, since: int) -> list[datetime]:
    """When Levelgate wrote `plain`."""
    events = AuditLog(server.audit_log).events(since=since, user="levelgate", namespace=namespace)
    return [event.time for event in events if event.is_write and event.name == "plain"]


def test_a_window_opens_in_one_cluster_while_another_stays_closed(
    fleet: FleetPlatform, control_plane: ControlPlane
) -> None:
    """M6 for windows in different zones: each cluster goes by its own, says until when, and heals to what it had."""
    fleet.repository.commit(everything(fleet))
    with fleet.start():
        eventually(lambda: all(fleet.is_settled(name) for name in fleet.clusters), within=90)
        since = {name: fleet.mark(name) for name in fleet.clusters}
        soon = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=10)
        later = soon + timedelta(days=2)
        fleet.repository.commit(
            {
                "c1-hours.json": window("c1", soon, "Europe/Berlin"),
                "c2-hours.json": window("c2", later, "America/New_York"),
                "plain.json": config_map(fleet.namespace, "plain", text="there"),
            }
        )
        eventually(lambda: (fleet.text_in("c0", "plain"), fleet.text_in("c1", "plain")) == ("there", "there"))
        assert min(written_at(fleet.clusters["c1"], fleet.namespace, since["c1"])) >= soon
        eventually(lambda: fleet.recorded_state(control_plane, "c2") == "Engaged Held")
        eventually(lambda: {fleet.recorded_state(control_plane, name) for name in ("c0", "c1")} == {"Engaged Settled"})
        until = f"{later:%Y-%m-%d %H:%M}"
        status = ask(fleet, "status", "--cluster", "c2")
        assert "WindowClosed" in status
        assert f"window/hours-c2   {later:%a} {until}" in status
        explained = ask(fleet, "explain", "configmap/plain", "-n", fleet.namespace, "--cluster", "c2")
        assert f"Not before {later:%a} {until} UTC" in explained
        assert f"waits for window hours-c2, opens {later:%Y-%m-%dT%H:%MZ}" in explained
        assert "America/New_York" in explained
        assert "WindowClosed" not in ask(fleet, "status", "--cluster", "c1")
        path = f"/api/v1/namespaces/{fleet.namespace}/configmaps/plain"
        drift = {"data": {"text": "drift"}}
        assert fleet.clusters["c2"].request("PATCH", path, drift, content_type=MERGE).code == 200
        eventually(lambda: fleet.text_in("c2", "plain") == "here", within=30)
