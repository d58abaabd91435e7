"""The daemon as probes, Prometheus and people see it, and a hook that brings a commit sooner than the next poll."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.request import Request

import pytest

from tests.support.cluster.waiting import eventually
from tests.support.command_platform import CommandPlatform
from tests.support.definitions import chain, config_map, link
from tests.support.git.server import serving
from tests.support.scenarios.daemon import DaemonClient, following


@pytest.fixture
def daemon(platform: CommandPlatform) -> Iterator[DaemonClient]:
    platform.repository.commit(
        {"chain.json": chain(platform.group, "ab"), "one.json": link(platform.group, platform.namespace)}
    )
    source = f"{platform.name}={platform.repository.path}"
    with following(platform, "--source", source, "--interval", "1h", "--listen", "127.0.0.1:0") as found:
        yield found


@pytest.mark.both_servers
def test_probes_metrics_and_the_page_say_how_it_is(platform: CommandPlatform, daemon: DaemonClient) -> None:
    """S4-14: not ready before the first pass is over."""
    eventually(lambda: daemon.get("/readyz") == (200, "ok\n"))
    assert daemon.get("/healthz") == (200, "ok\n")
    settled = f'levelgate_source_state{{source="{platform.name}",state="Settled"}} 1.0'
    eventually(lambda: settled in daemon.get("/metrics")[1])
    text = daemon.get("/metrics")[1]
    assert "levelgate_leader 1.0" in text
    assert re.search(r'levelgate_api_requests_total\{code="20[01]",verb="apply"\} [1-9]', text)
    page = daemon.get("/")[1]
    assert f"{platform.namespace}/one" in page
    (kind,) = set(re.findall(rf"/instances/{platform.group}/(\w+)/{platform.namespace}/one", page))
    status, one = daemon.get(f"/instances/{platform.group}/{kind}/{platform.namespace}/one")
    assert status == 200
    assert "level 1" in one
    assert daemon.get("/hooks/generic")[0] == 405
    assert daemon.send(Request(f"{daemon.url}/hooks/generic", data=b"{}", method="POST"))[0] == 404


def test_an_address_that_is_taken_is_an_error(platform: CommandPlatform, daemon: DaemonClient) -> None:
    where = daemon.url.removeprefix("http://")
    told = platform.levelgate("run", "--source", str(platform.repository.path), "--listen", where, check=1)
    assert f"cannot listen on {where}" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.both_servers
def test_a_hook_brings_a_commit_long_before_the_next_poll(platform: CommandPlatform, tmp_path: Path) -> None:
    """Whichever of two replicas is called: the one that leads, or the one that stands by, which passes it on."""
    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", text="one")})
    (tmp_path / "secret").write_text("secret")
    with serving(platform.repository.path.parent) as git:
        url = git.url(platform.repository.path.name)
        (tmp_path / "levelgate.yaml").write_text(
            "apiVersion: levelgate.dev/v1alpha1\nkind: Config\nlisten: 127.0.0.1:0\n"
            "hooks: {generic: {secretFile: secret}}\n"
            f"sources: [{{name: {platform.name}, url: '{url}', interval: 1h}}]\n"
        )
        config = ("--config", str(tmp_path / "levelgate.yaml"))
        with following(platform, *config) as daemon:
            eventually(lambda: text(platform) == "one")
            body = json.dumps({"url": url}).encode()
            forged = Request(f"{daemon.url}/hooks/generic", body, {"X-Levelgate-Signature": "sha256=00"})
            assert daemon.send(forged)[0] == 401
            with following(platform, *config) as other:
                eventually(lambda: other.get("/readyz")[1] == "standing by: another replica leads\n")
                for called, said in ((daemon, "two"), (other, "three")):
                    platform.repository.commit({"plain.json": config_map(platform.namespace, "plain", text=said)})
                    proof = "sha256=" + hmac.new(b"secret", body, hashlib.sha256).hexdigest()
                    hook = Request(f"{called.url}/hooks/generic", body, {"X-Levelgate-Signature": proof})
                    assert called.send(hook)[0] == 202
                    eventually(partial(says, platform, said))


def says(platform: CommandPlatform, said: str) -> bool:
    return text(platform) == said


def text(platform: CommandPlatform) -> str:
    return platform.kubectl(
        "get", "configmap", "plain", "-n", platform.namespace, "-o", "jsonpath={.data.text}", check=False
    )


def test_the_manifests_are_what_the_server_takes(platform: CommandPlatform) -> None:
    """`deploy/kubernetes.yaml`, every field of it."""
    platform.kubectl("create", "namespace", "levelgate-system", check=False)
    deploy = Path(__file__).parents[2] / "deploy" / "kubernetes.yaml"
    told = platform.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", str(deploy)
    )
    assert "deployment.apps/levelgate serverside-applied (server dry run)" in told
