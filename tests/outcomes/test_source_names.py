"""The name of a source follows from its repository, whatever that is called, and belongs to one of them."""

from __future__ import annotations

import pytest

from tests.support.command_platform import CommandPlatform
from tests.support.definitions import config_map


@pytest.mark.both_servers
def test_a_repository_of_any_name_is_followed(platform: CommandPlatform) -> None:
    """Capitals and underscores are allowed in the name of a repository, and not in that of a source."""
    name = f"Repo_{platform.namespace}.X"
    link = platform.repository.path.parent / name
    link.symlink_to(platform.repository.path)
    platform.repository.commit({"a.json": config_map(platform.namespace, "a", text="one")})
    platform.levelgate("run", "--source", str(link), "--once", check=0)
    derived = f"repo-{platform.namespace}-x"
    assert platform.kubectl("get", "configmap", f"source-{derived}", "-n", "levelgate-system", "-o", "name")
    refused = platform.levelgate("run", "--source", str(link), "--source", f"{derived}={link}", "--once", check=1)
    assert f"two sources are called '{derived}'" in refused.stderr
    platform.kubectl("delete", "configmap", f"source-{derived}", "-n", "levelgate-system", "--wait=false")
