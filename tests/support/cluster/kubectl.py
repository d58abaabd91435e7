"""The real kubectl: what people see of a cluster."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


class Kubectl:
    """Runs kubectl, the one beside this Python or else the one on PATH, with one kubeconfig.

    `cache` is a directory for what it remembers. The usual one in the home directory may remember another server that
    had the same port.
    """

    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        binary = shutil.which("kubectl", path=Path(sys.executable).parent) or shutil.which("kubectl")
        if not binary:
            raise FileNotFoundError("no kubectl: install the development dependencies")
        self._binary = binary
        own = {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(cache)}
        self._environment = os.environ | own | {"GOGC": "off"}  # It ends long before memory would run out.

    def __call__(self, *arguments: str, check: bool = True, stdin: str = "") -> str:
        """Returns what it printed on stdout, without `check` followed by what it printed on stderr.

        With `check`, a failure is an AssertionError that shows stderr. `stdin` is for `-f -`.
        """
        done = subprocess.run(
            [self._binary, *arguments], input=stdin, env=self._environment, capture_output=True, text=True, check=False
        )
        if not check:
            return done.stdout + done.stderr
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout
