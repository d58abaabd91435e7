"""Imported by the process that commands are forked from, before the first of them: everything that a command may import, and what it makes once."""

from __future__ import annotations

import gc
from importlib import import_module
from pkgutil import walk_packages

import applier
import gitops
import renderer
from gitops.cli import GC_THRESHOLD
from tests.support.demo.session import SAMPLE
from tests.support.properties.checked_platform import CheckedPlatform

_IMPORTED_LATE = ("git", "kubernetes.aio.client", "kubernetes.aio.config.kube_config", "kubernetes.client")

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
gc.collect()
gc.set_threshold(GC_THRESHOLD)  # As the command's own start does, which a forked one does not go through.
gc.freeze()  # Or each child would copy every page when it looks for garbage for the first time.
