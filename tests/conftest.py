"""Fixtures for tests against a real API server, and what happens where there is none.

A test that uses `control_plane`, directly or not, gets the marker `cluster`. Without a built control plane these tests
fail the run if `CI=true`, and are skipped elsewhere, which the last lines of the run say aloud.
"""

import gc
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.support.cluster.audit import AuditLog
from tests.support.cluster.binaries import NotBuiltError, find_binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.peers import PeerGroup, only_group
from tests.support.environment import FUZZING, IN_CI
from tests.support.git.repository import Repository

gc.disable()  # Until all tests are collected: what is made by then stays.

# Tests trust nothing that the system trusts: every client would read it all, in 30 ms.
os.environ |= {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}

# API servers and kubectl: each worker keeps a core busy, and to hand work from thread to thread was a third of what a request costs.
os.environ["GOMAXPROCS"] = "1"

_PEERS = pytest.StashKey[PeerGroup]()


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


# Where SIGINT has Python's own handler, each run of asyncio puts one in its place, and in Python 3.11 writes out its whole result to do so.
signal.signal(signal.SIGINT, _interrupted)


# The same examples on every machine, however slow it is, whatever failed there before.
settings.register_profile(
    "tests",
    derandomize=not FUZZING,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")

# Hypothesis draws numbers and texts that it finds in whatever modules are loaded by then: examples would depend on the tests that ran before.
if not FUZZING:
    pytest.MonkeyPatch().setattr(providers, "is_local_module_file", lambda _: False)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for the whole run, with the namespace and garbage collector controllers only."""
    try:
        server = ControlPlane.start(tmp_path_factory.mktemp("controlplane"))
    except NotBuiltError as error:  # Here only when a test asked for this fixture while it ran.
        pytest.fail(str(error)) if IN_CI else pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def clusters(control_plane: ControlPlane, pytestconfig: pytest.Config) -> Iterator[Mapping[str, ControlPlane]]:
    """Three more real clusters, `c0` to `c2`, beside `control_plane`. They are shared by the tests of a worker that follow each other and use
    them, and then end: no more than one worker has some. What a test froze is thawed after it; what else it did stays.
    """
    group = pytestconfig.stash.setdefault(_PEERS, PeerGroup())
    found = group.start(control_plane)
    yield found
    for cluster in found.values():
        cluster.thaw()


@pytest.fixture
def only_peers() -> Iterator[None]:
    """For a test that starts peers of its own: no other worker has some meanwhile."""
    with only_group():
        yield


@pytest.fixture(scope="session")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """The kubeconfig with which Levelgate is told from everybody else in the audit log."""
    return control_plane.kubeconfig("levelgate")


@pytest.fixture(scope="session")
def audit(control_plane: ControlPlane) -> AuditLog:
    return AuditLog(control_plane.audit_log)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """A new namespace. It stays: to delete one, each kind there is, with all that tests have defined, is asked for what is in it."""
    name = f"t-{uuid4().hex[:8]}"
    created = control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert created.code == 201, created.body
    return name


@pytest.fixture(scope="session")
def kubectl(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """The real kubectl, as user `person`: `kubectl("get", "pods", "-n", namespace)` returns what it printed."""
    return Kubectl(control_plane.kubeconfig("person"), tmp_path_factory.mktemp("kubectl-cache"))


@pytest.hookimpl(tryfirst=True)  # Before `-m cluster` selects.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The longest begins first, or all workers wait for it at the end. Then those of which only one worker at a time can run any: they are all given
    # to the first one, of whose tests others are given the last.
    items.sort(key=lambda item: (item.path.name != "test_demo.py", not _fixtures(item) & {"clusters", "only_peers"}))
    for item in items:
        if _fixtures(item) & {"control_plane", "only_peers"}:
            item.add_marker("cluster")


def _fixtures(item: pytest.Item | None) -> set[str]:
    return set(item.fixturenames) if isinstance(item, pytest.Function) else set()


@pytest.hookimpl(trylast=True)  # After the fixtures of the test.
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The clusters end when the next test does not use them: another worker may be waiting."""
    if _PEERS in item.config.stash and "clusters" not in _fixtures(nextitem):
        item.config.stash[_PEERS].stop()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Decides once, for the tests that were selected, what a missing control plane means; and looks for garbage more rarely from here on."""
    gc.freeze()  # Modules and tests stay to the end: going through them again and again was an eighth of the time.
    gc.set_threshold(200_000)
    gc.enable()
    items = [item for item in session.items if item.get_closest_marker("cluster")]
    try:
        if items:
            find_binaries()
    except NotBuiltError as error:
        if IN_CI:
            pytest.exit(f"{len(items)} tests cannot run: {error}", returncode=pytest.ExitCode.TESTS_FAILED)
        for item in items:
            item.add_marker(pytest.mark.skip(reason=str(error)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reason = str(NotBuiltError())
    if count := sum(reason in str(report.longrepr) for report in terminalreporter.getreports("skipped")):
        terminalreporter.write_line(f"{count} tests need the control plane: make controlplane", yellow=True, bold=True)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "platform")
