"""`levelgate` for which the time stands still. The API server has its own, and keeps it to itself."""

from __future__ import annotations

from datetime import datetime

from applier.kube.cluster import KubeCluster
from gitops.clock import SystemClock


def stand_still(moment: datetime) -> None:
    SystemClock.now = lambda _: moment  # type: ignore[method-assign, assignment]
    KubeCluster.server_time = None  # type: ignore[assignment]
