"""Where the servers come from: `KUBEBUILDER_ASSETS` when that is set, else the binary that `build.py` made."""

import os
from pathlib import Path
from typing import TypeAlias

from tests.support.cluster import build

Commands: TypeAlias = dict[str, list[str | Path]]


class NotBuiltError(Exception):
    """There is no control plane to start on this machine."""

    def __init__(self) -> None:
        super().__init__("the test control plane is not built: run `make controlplane`, or set KUBEBUILDER_ASSETS")


def find_binaries() -> Commands:
    """The start of the command line for each component there is. Raises `NotBuiltError` without etcd or API server."""
    names = ("etcd", "kube-apiserver", "kube-controller-manager")
    commands: Commands
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        commands = {name: [Path(assets).resolve() / name] for name in names}
    else:
        binary = build.path()
        commands = {name: [binary, name] for name in names}
    found = {name: command for name, command in commands.items() if Path(command[0]).exists()}
    if not found.keys() >= {"etcd", "kube-apiserver"}:
        raise NotBuiltError
    return found
