"""Fixtures of the fault bench: a lane of its own for each test, behind a proxy that makes things go wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.cluster.audit import AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.faults.lane import Lane
from tests.support.faults.proxy import Upstream


@pytest_asyncio.fixture
async def lane(control_plane: ControlPlane, audit: AuditLog) -> AsyncIterator[Lane]:
    async with Upstream(control_plane) as upstream:
        found = Lane(upstream, audit, plurals=("chains", "others", "things"))
        await found.open()
        yield found
        await found.close()
