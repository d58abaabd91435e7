"""Configuration in force: the last valid content of `levelgate.yaml`.

A process follows the file even while another process leads. So the process starts its term with the current
configuration, and reports an invalid file before its term. An invalid file changes nothing, and causes one notice.
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
"""Subject of notices about the file."""

_REREAD_INTERVAL: Final = timedelta(minutes=1)
"""Interval of polls of the file, for a file system that reports no changes."""


@dataclass
class LiveConfig:
    """Configuration in force, its file, and the error in the current content of the file."""

    config: Config
    file: Path | None
    """File of the configuration, or None if flags determine the configuration. Flags never change."""

    notice: Callable[[str, str], None]
    """Receiver of notices, as (subject, text)."""

    on_change: Callable[[], None] = lambda: None
    """Function to call after each change of `config`."""

    refusal: str = field(default="", init=False)
    """Error in the current content of the file, or an empty string if the content is valid."""

    @asynccontextmanager
    async def follow_file(self) -> AsyncIterator[None]:
        """Apply each change of the file while the block runs."""
        if self.file is None:
            yield
            return
        async with Timers() as timers:
            with FileWatch(self.file, self.reread, warn=partial(self.notice, NOTICE_SUBJECT)):
                timers.call_every(NOTICE_SUBJECT, _REREAD_INTERVAL, self.reread)
                self.reread()  # the file may have changed since the first read
                yield

    def reread(self) -> None:
        """Read the file again. If its content is valid, apply the content. Otherwise, report the error once."""
        assert self.file is not None
        try:
            config = read_config(self.file)
        except ConfigErrors as error:
            if str(error) != self.refusal:
                self.notice(NOTICE_SUBJECT, f"rejected; the previous configuration stays in force: {error}")
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
                "cluster, applyConcurrency, maxConcurrentReconciles, listen, resync and logFormat "
                "take effect at the next start",
            )


def _start_only_settings(config: Config) -> tuple[object, ...]:
    """Return the settings that a running process does not change."""
    return (
        *(config.cluster, config.context, config.apply_concurrency, config.max_concurrent_reconciles),
        *(config.listen, config.resync, config.log_format),
    )
