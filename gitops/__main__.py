"""Where the command starts. Who interrupts it while it is still being loaded is told nothing: the traceback would be one of imports."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """As `gitops.cli.main`, and 130 without a word until that is there. Who ignores interruptions, as jobs in the background do, goes on to."""
    previous_handler = signal.getsignal(signal.SIGINT)
    if previous_handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from gitops import cli

    signal.signal(signal.SIGINT, previous_handler)
    cli.main()


if __name__ == "__main__":
    main()
