"""The harness itself; `tests/README.md` shows the first of these tests."""

from __future__ import annotations

from datetime import timedelta

from tests.support.definitions import config_map
from tests.support.fault_injector import InjectedFault, RefusedRequest
from tests.support.link_platform import LinkPlatform
from tests.support.platform import Platform


def test_an_object_that_leaves_git_leaves_the_cluster() -> None:
    with Platform() as platform:
        platform.commit({"one.json": config_map("default", "one"), "two.json": config_map("default", "two")})
        platform.settle()
        assert platform.listed("configmaps") == ["one", "two"]
        platform.commit({"one.json": config_map("default", "one")})
        platform.step(after=timedelta(minutes=1))
        assert platform.listed("configmaps") == ["one"]


def test_a_new_process_remembers_nothing_and_changes_nothing() -> None:
    with Platform() as platform:
        platform.commit({"one.json": config_map("default", "one")})
        platform.settle()
        platform.restart()
        assert not platform.step().changed


def test_a_cluster_with_faults_is_not_copied_from_one_without() -> None:
    with LinkPlatform(names=("a",)) as whole:
        whole.start()
    with LinkPlatform(names=("a",)) as refusing:
        refusing.faulty.faults = [InjectedFault(RefusedRequest(403), verb="patch", plural="events")]
        refusing.start()
        assert refusing.request("GET", "/apis/events.k8s.io/v1/events")["items"] == []
