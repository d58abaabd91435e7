"""Fixtures of the scenarios: everything on the real API server, seen through kubectl and the audit log."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.audit import AuditLog
from tests.controlplane.kubectl import Kubectl
from tests.scenarios.platform import Platform, Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    path = tmp_path / "platform"
    path.mkdir()
    subprocess.run(("git", "init", "--quiet", "--initial-branch=main"), cwd=path, check=True)
    return Repository(path)


@pytest.fixture
def platform(
    namespace: str, repository: Repository, kubectl: Kubectl, audit: AuditLog, kubeconfig: Path, tmp_path: Path
) -> Iterator[Platform]:
    """A platform with names of its own; what it leaves in the cluster is taken away without waiting."""
    found = Platform(
        name=f"src-{namespace}",
        namespace=namespace,
        group=f"{namespace}.test",
        repository=repository,
        kubectl=kubectl,
        audit=audit,
        kubeconfig=kubeconfig,
        cache=tmp_path / "cache",
    )
    yield found
    kubectl("-n", "levelgate-system", "delete", "configmap", f"source-{found.name}", "--ignore-not-found", check=False)
