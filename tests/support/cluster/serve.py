"""Runs a control plane in the foreground, to try things on: `python -m tests.support.cluster.serve`.

Its kubeconfig and audit log are in `.cluster` of the current directory, with `--clusters 2` also those of two more clusters: `c0.kubeconfig`,
`c0.audit.log`, and so on. What an earlier run left there is removed.
"""

import argparse
import fcntl
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from tests.support.cluster.binaries import NotBuiltError
from tests.support.cluster.control_plane import DEFAULT_CONTROLLERS, WORKLOAD_CONTROLLERS, ControlPlane

DIRECTORY = Path(".cluster")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a Kubernetes control plane without nodes until interrupted.")
    parser.add_argument(
        "--workloads",
        action="store_true",
        help="also run the controllers of Deployments, Jobs and so on; their pods stay pending for want of nodes",
    )
    parser.add_argument(
        "--clusters",
        type=int,
        default=0,
        metavar="N",
        help="also run N further clusters, c0 and so on, on the same etcd; each takes half a gigabyte",
    )
    options = parser.parse_args()
    controllers = DEFAULT_CONTROLLERS + (WORKLOAD_CONTROLLERS if options.workloads else ())
    names = [f"c{number}" for number in range(options.clusters)]
    DIRECTORY.mkdir(exist_ok=True)
    with (DIRECTORY / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"error: another one is running in {DIRECTORY.resolve()}", file=sys.stderr)
            return 1
        _empty(DIRECTORY)
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            return _serve(controllers, names)
        except KeyboardInterrupt:
            print("stopped")
            return 0
        except (NotBuiltError, RuntimeError, AssertionError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1


def _serve(controllers: tuple[str, ...], names: list[str]) -> int:
    with ControlPlane.start(DIRECTORY, controllers) as server:
        peers = server.start_peers(*names)
        kubeconfig = server.kubeconfig("admin").rename(DIRECTORY / "kubeconfig")
        print(f"Kubernetes is ready at {server.url}, audit log in {DIRECTORY / 'audit.log'}. In another terminal:\n")
        print(f"    export KUBECONFIG={kubeconfig.resolve()}")
        print("    kubectl get namespaces\n")
        for name, peer in peers.items():
            own = peer.kubeconfig("admin").rename(DIRECTORY / f"{name}.kubeconfig")
            print(
                f"{name} is ready at {peer.url}, kubeconfig in {own.resolve()}, audit log in {DIRECTORY / peer.audit_log.name}."
            )
        print("Ctrl-C stops it.", flush=True)
        while True:
            for one in (server, *peers.values()):
                one.check()
            time.sleep(1)


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
