"""The configuration in force: what the file said when it could be taken last.

It is looked after as long as the process lives, also while another one leads: who takes the lead begins with what is in force then, and a file that
is refused is told before that. A file that cannot be taken changes nothing: the one before stays, and why is told once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from gitops.config import Config, ConfigErrors, read_config
from gitops.daemon.file_watch import FileWatch
from gitops.daemon.timers import Timers
from renderer.frozen import dataclass

NOTICE_SUBJECT: Final = "configuration"
"""Under this name it is told what becomes of the file."""

_REREAD_INTERVAL: Final = timedelta(minutes=1)
"""A changed file is seen at once where the file system tells, and else after this."""


@dataclass
class LiveConfig:
    """`config` was read from `file`; None: it came from flags and does not change. `taken` hears that another one is in force. `refused`: why the
    file as it is now is not taken, empty where it is.
    """

    config: Config
    file: Path | None
    notice: Callable[[str, str], None]
    on_change: Callable[[], None] = lambda: None
    refusal: str = field(default="", init=False)

    @asynccontextmanager
    async def follow_file(self) -> AsyncIterator[None]:
        """Take the file as it changes, as long as the context lasts."""
        if self.file is None:
            yield
            return
        async with Timers() as timers:
            with FileWatch(self.file, self.reread, warn=partial(self.notice, NOTICE_SUBJECT)):
                timers.call_every(NOTICE_SUBJECT, _REREAD_INTERVAL, self.reread)
                self.reread()  # it may have changed since it was read first
                yield

    def reread(self) -> None:
        """Take the file as it is now; where it is wrong, tell it and go on."""
        assert self.file is not None
        try:
            config = read_config(self.file)
        except ConfigErrors as error:
            if str(error) != self.refusal:
                self.notice(NOTICE_SUBJECT, f"refused, the previous one stays in force: {error}")
            self.refusal = str(error)
            return
        was_refused, self.refusal = bool(self.refusal), ""
        if config != self.config:
            self._report_change(config)
            self.config = config
            self.on_change()
        elif was_refused:
            self.notice(NOTICE_SUBJECT, "is valid again, and equals the configuration in force")

    def _report_change(self, config: Config) -> None:
        names = ", ".join(source.name for source in config.sources)
        self.notice(NOTICE_SUBJECT, f"accepted; following {names}")
        for name in sorted(
            {source.name for source in self.config.sources} - {source.name for source in config.sources}
        ):
            self.notice(name, "no longer followed; its objects remain")
        if _start_only_settings(config) != _start_only_settings(self.config):
            self.notice(
                NOTICE_SUBJECT,
                "cluster, applyConcurrency, maxConcurrentReconciles, listen, resync and logFormat take effect at the next start",
            )


def _start_only_settings(config: Config) -> tuple[object, ...]:
    """What a process keeps as it was when it started."""
    return (
        *(config.cluster, config.context, config.apply_concurrency, config.max_concurrent_reconciles),
        *(config.listen, config.resync, config.log_format),
    )
