"""Refs that are neither branches nor tags, followed like any other."""

from __future__ import annotations

import pytest

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, link


@pytest.mark.both_servers
def test_the_head_of_a_pull_request_is_followed(platform: CommandPlatform) -> None:
    """The ref of a forge moves on, and the cluster with it."""

    def propose(text: str) -> None:
        platform.repository.commit({"one.json": link(platform.group, platform.namespace, text=text)})
        platform.repository.git("update-ref", "refs/pull/7/head", "HEAD")

    def read_text() -> str:
        return platform.kubectl("get", "configmap", "one-a", "-n", platform.namespace, "-o", "jsonpath={.data.text}")

    platform.repository.commit({"chain.json": chain(platform.group, "a")})
    propose("one")
    platform.repository.git("reset", "--hard", "--quiet", "HEAD~1")
    platform.run_once("--ref", "refs/pull/7/head")
    assert read_text() == "one"

    platform.repository.git("reset", "--hard", "--quiet", "refs/pull/7/head")
    propose("two")
    platform.repository.git("reset", "--hard", "--quiet", "HEAD~2")
    platform.run_once("--ref", "refs/pull/7/head")
    assert read_text() == "two"
    assert "ref refs/pull/7/head" in platform.levelgate("status", "-o", "wide").stdout


def test_a_ref_that_does_not_exist_is_named(platform: CommandPlatform) -> None:
    """The message names the ref, and no traceback is shown."""
    platform.repository.commit({"chain.json": chain(platform.group, "a")})
    done = platform.run_once("--ref", "refs/pull/8/head", check=None)
    assert done.returncode == 1
    assert "ref refs/pull/8/head does not exist" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
