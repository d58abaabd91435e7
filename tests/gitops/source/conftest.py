"""Fixtures: a repository, a cache directory, a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.gitops.source.real_git import GitServer, Work, handler_for


@pytest.fixture
def work(tmp_path: Path) -> Work:
    path = tmp_path / "work"
    path.mkdir()
    repository = Work(path)
    repository.git("init", "--quiet", "--initial-branch=main")
    return repository


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


class _Listening(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that went away is what some tests are about."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    state = GitServer(tmp_path)
    with _Listening(("127.0.0.1", 0), handler_for(state)) as listening:
        state.port = listening.server_port
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield state
        listening.shutdown()
        thread.join()
