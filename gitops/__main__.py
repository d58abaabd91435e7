"""Entry point of the command `levelgate`, also of `python -m gitops`.

If an interrupt arrives while Python imports modules, the process ends without a traceback.
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run `gitops.cli.main`.

    If an interrupt arrives before `gitops.cli.main` starts, the process exits with code 130 and without a message. A
    background job that ignores interrupts continues to ignore them.
    """
    previous_handler = signal.getsignal(signal.SIGINT)
    if previous_handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from gitops import cli

    signal.signal(signal.SIGINT, previous_handler)
    cli.main()


if __name__ == "__main__":
    main()
