"""Controller of kro and its CRDs, in the cache of the tests' control plane.

The bench builds the controller once, from the published module.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.cluster import build

VERSION: Final = "v0.9.4"
MODULE: Final = "github.com/kubernetes-sigs/kro"
_BUILT_WITHIN: Final = 1_800.0


class KroError(Exception):
    """Error of a missing kro. The message names the action."""


def folder() -> Path:
    """Return the folder of the controller, which may not exist."""
    return build.path().parents[2] / "kro" / VERSION


def install() -> Path:
    """Return the controller, and build it if it is missing. Raises: KroError.

    The file appears complete or not at all.
    """
    place = folder()
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        print(f"building kro {VERSION}: a few minutes, once", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            unfinished = Path(scratch) / VERSION
            _build(unfinished)
            unfinished.replace(place)
    return place / "controller"


def crds() -> list[dict[str, Any]]:
    """Return the CRDs of an installed kro."""
    return [yaml.safe_load(file.read_text()) for file in sorted((folder() / "crds").glob("*.yaml"))]


def _build(target: Path) -> None:
    try:
        go = build.find_go()
    except build.BuildError as error:
        raise KroError(f"kro {VERSION} cannot be built without Go: {error}") from error
    downloaded = json.loads(_run(go, "mod", "download", "-json", f"{MODULE}@{VERSION}"))
    shutil.copytree(Path(downloaded["Dir"]) / "helm" / "crds", target / "crds")
    _run(go, "install", f"{MODULE}/cmd/controller@{VERSION}", into=target)


def _run(go: Path, *arguments: str, into: Path | None = None) -> str:
    own = {"GOFLAGS": "-buildvcs=false", "GOWORK": "off", **({"GOBIN": str(into)} if into else {})}
    command = [str(go), *arguments]
    try:
        done = subprocess.run(
            command, env={**os.environ, **own}, capture_output=True, text=True, timeout=_BUILT_WITHIN, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise KroError(f"`{' '.join(command)}` has not ended within {_BUILT_WITHIN:g} s; try again") from error
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).splitlines()[-10:])
        raise KroError(
            f"`{' '.join(command)}` failed:\n{said}\nIt needs the Go module proxy, or what GOPROXY names, once. Where "
            f"there is no network, copy the folder {folder()} from a machine that has it, or leave kro out: --only "
            "levelgate,bare"
        )
    return done.stdout
