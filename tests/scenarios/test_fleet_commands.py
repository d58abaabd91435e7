"""A person at the hub who looks into one cluster of the fleet, and orders something there: real clusters, the real command."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from applier.cluster import ClusterName
from applier.kube import connect
from gitops.cli import invoke
from gitops.fleet.cluster_record import ClusterRecord, cluster_record_key, declared_document, write_cluster_record
from gitops.fleet.fleet_objects import read_fleet_objects
from renderer.identity import OWN_NAMESPACE
from tests.support.cluster.control_plane import ControlPlane
from tests.support.fleet_documents import cluster, read
from tests.support.platform import OWN

MEMBER = ClusterName("commanded")
"""The name of c0 here: tests that share the hub have a record of c0."""


def said_in(server: ControlPlane) -> dict[str, Any]:
    answer = server.request("GET", f"{OWN}/levelgate")
    return dict(answer.body["metadata"].get("annotations") or {}) if answer.code == 200 else {}


async def record_member(kubeconfig: Path) -> None:
    catalog = read({"c": cluster(MEMBER, access={"file": "c0"})})
    spec = read_fleet_objects(catalog, {}, fleet_source="platform").clusters[MEMBER]
    hub = await connect(kubeconfig=str(kubeconfig))
    record = ClusterRecord("uid", "Engaged", datetime(2026, 11, 27, tzinfo=UTC), "", declared_document(spec), {})
    await write_cluster_record(hub, MEMBER, record, None)
    await hub.close()


def test_a_person_orders_something_in_one_cluster_from_the_hub(
    control_plane: ControlPlane,
    clusters: Mapping[str, ControlPlane],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S3-9: the order is in that cluster, not in the hub, by the name that the hub knows; without the configuration its file is not read."""
    spoke, kubeconfig = clusters["c0"], control_plane.kubeconfig("person")
    asyncio.run(record_member(control_plane.kubeconfig("levelgate")))
    installation = {"metadata": {"name": "levelgate", "namespace": OWN_NAMESPACE}}
    spoke.request("POST", "/api/v1/namespaces", {"metadata": {"name": OWN_NAMESPACE}})
    spoke.request("POST", OWN, installation)
    (tmp_path / "clusters").mkdir()
    shutil.copy(spoke.kubeconfig("levelgate"), tmp_path / "clusters" / "c0")
    config = {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "Config",
        "fleet": {"source": "platform", "directory": "clusters"},
        "sources": [{"name": "platform", "url": str(tmp_path)}],
    }
    (tmp_path / "levelgate.yaml").write_text(json.dumps(config))
    here = ["--cluster", MEMBER, "--kubeconfig", str(kubeconfig)]
    try:
        assert invoke(["status", *here]) == 1
        assert "LEVELGATE_CONFIG=FILE" in capsys.readouterr().err
        monkeypatch.setenv("LEVELGATE_CONFIG", str(tmp_path / "levelgate.yaml"))
        assert invoke(["suspend", "--all", "--reason", "INC-7", *here]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"Cluster {MEMBER}, ")
        assert f"--cluster {MEMBER}" in out
        assert "INC-7" in said_in(spoke).values()
        assert "person" in said_in(spoke).values()
        assert "INC-7" not in said_in(control_plane).values()
        assert invoke(["status", *here]) == 0
        assert "INC-7" in capsys.readouterr().out
        assert invoke(["resume", "--all", *here]) == 0
        assert "INC-7" not in said_in(spoke).values()
    finally:
        key = cluster_record_key(MEMBER)
        control_plane.request("DELETE", f"{OWN}/{key.name}")
        spoke.request("DELETE", f"{OWN}/levelgate")
