"""Imported by the process that commands are forked from, before the first of them: everything that a command may import, and what it makes once."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from pkgutil import walk_packages
from unittest import mock

import applier
import gitops
import renderer
from applier.sandbox.endpoints.http import write_kubeconfig
from applier.sandbox.server import Sandbox
from gitops.cli import GC_THRESHOLD, invoke
from tests.support.cluster.http_api import ServedApi, evaluate
from tests.support.demo.session import SAMPLE
from tests.support.git.repository import Repository
from tests.support.properties.checked_platform import CheckedPlatform

_IMPORTED_LATE = ("git", "kubernetes.aio.client", "kubernetes.aio.config.kube_config", "kubernetes.client")


def _type_commands(directory: Path) -> None:
    """Run the usual commands. Each child would otherwise make parsers, methods of values and caches of classes anew."""
    api = ServedApi(Sandbox(evaluate=evaluate))
    write_kubeconfig(directory / "kubeconfig", api.url)
    files = {str(file.relative_to(SAMPLE)): file.read_text() for file in SAMPLE.rglob("*.yaml")}
    repository = Repository.create(directory / "repository")
    repository.commit(files)
    source = f"platform={repository.path}"
    own = {
        "KUBECONFIG": str(directory / "kubeconfig"),
        "XDG_CACHE_HOME": str(directory / "cache"),
        "LEVELGATE_LISTEN": "off",
    }
    with mock.patch.dict(os.environ, own), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        for _ in range(2):
            invoke(["run", "--source", source, "--once", "--wait", "0s"])
        assert invoke(["status"]) == 0
        invoke(["status", "-o", "json"])
        invoke(["plan", str(repository.path), "--source", "platform"])
        invoke(["explain", "product/shop", "-n", "prod"])
    api.close()
    assert threading.active_count() == 1, "a forked child would wait for a thread that it does not have"


for _package in (applier, gitops, renderer):
    for _module in walk_packages(_package.__path__, f"{_package.__name__}."):
        import_module(_module.name)
for _name in _IMPORTED_LATE:
    import_module(_name)
with CheckedPlatform() as platform:  # Compiles methods, expressions and patterns, which each child would do anew.
    platform.commit({str(file.relative_to(SAMPLE)): file.read_text() for file in SAMPLE.rglob("*.yaml")})
    for _ in range(2):
        platform.run()
        platform.cluster.tick()
with tempfile.TemporaryDirectory() as _directory:
    _type_commands(Path(_directory))
gc.collect()
gc.set_threshold(GC_THRESHOLD)  # As the command's own start does, which a forked one does not go through.
gc.freeze()  # Or each child would copy every page when it looks for garbage for the first time.
