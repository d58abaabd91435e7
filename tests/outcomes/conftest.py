"""The fixtures of the scenarios, for tests of how a situation ends: the whole program, a real repository, a real server or the sandbox."""

from tests.scenarios.conftest import alone, lone_control_plane, platform, pytest_generate_tests, sandbox, server

__all__ = ["alone", "lone_control_plane", "platform", "pytest_generate_tests", "sandbox", "server"]
