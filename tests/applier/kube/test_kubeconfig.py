"""Which cluster is chosen, and what is said when none can be: kubectl's rules."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import certifi
import pytest
import yaml

from applier.errors import ConfigurationError
from applier.kube import connect
from applier.kube.kubeconfig import IN_CLUSTER, Endpoint, InCluster, Kubeconfig, choose_source
from tests.support.scripted_server import write_kubeconfig


def config(file: Path, *, current: str = "", **contexts: dict[str, Any]) -> Path:
    """A kubeconfig with one context, cluster and user per name; the values are the users."""
    document = {
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": f"http://{file.stem}-{name}:80"}} for name in contexts],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in contexts],
        "users": [{"name": name, "user": user} for name, user in contexts.items()],
    }
    file.write_text(json.dumps(document))
    return file


async def load(kubeconfig: Path | None = None, context: str | None = None, **environ: str) -> Endpoint:
    return await choose_source(str(kubeconfig) if kubeconfig else None, context, environ=environ).load()


async def token(endpoint: Endpoint) -> str:
    return str(await endpoint.configuration.get_api_key_with_prefix("BearerToken"))


async def test_of_several_files_the_first_word_counts(tmp_path: Path) -> None:
    one = config(tmp_path / "one", current="a", a={"token": "1"})
    two = config(tmp_path / "two", current="b", a={"token": "2"}, b={"token": "3"})
    files = os.pathsep.join([str(tmp_path / "missing"), str(one), str(two)])
    endpoint = await load(KUBECONFIG=files)
    assert (endpoint.name, endpoint.configuration.host, await token(endpoint)) == ("a", "http://one-a:80", "Bearer 1")
    other = await load(context="b", KUBECONFIG=files)
    assert (other.name, other.configuration.host, await token(other)) == ("b", "http://two-b:80", "Bearer 3")


async def test_the_flag_comes_before_the_environment(tmp_path: Path) -> None:
    one, two = (config(tmp_path / name, current=name, **{name: {}}) for name in ("one", "two"))
    assert (await load(one, KUBECONFIG=str(two))).name == "one"


def test_the_file_in_the_home_directory_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    file = config(tmp_path / ".kube" / "config", current="a", a={})
    assert choose_source(None, None, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == Kubeconfig((file,), None)


def test_a_pod_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert choose_source(None, None, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == InCluster()


async def test_a_pod_reads_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.aio.config import incluster_config

    token_file, authority = tmp_path / "token", tmp_path / "ca.crt"
    token_file.write_text("rotates\n")
    authority.write_text(certifi.contents())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConfigurationError, match="automountServiceAccountToken"):
        await InCluster().load()
    defaults = (str(token_file), str(authority))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", defaults[0])
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", defaults[1])
    endpoint = await InCluster().load()
    assert (endpoint.name, endpoint.configuration.host) == (IN_CLUSTER, "https://10.0.0.1:443")
    assert (await token(endpoint)).strip().lower() == "bearer rotates"


@pytest.mark.parametrize(
    ("kubeconfig", "context", "environ", "said"),
    [
        ("/absent", None, {}, "kubeconfig /absent does not exist"),
        (None, None, {"KUBECONFIG": "/absent:/too"}, "at /absent, /too, and the process does not run in a pod"),
        (
            None,
            "lab",
            {"KUBECONFIG": "/absent", "KUBERNETES_SERVICE_HOST": "h"},
            "context 'lab': found no file at /absent; give",
        ),
    ],
)
def test_no_cluster_is_an_error_that_says_where_it_looked(
    kubeconfig: str | None, context: str | None, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        choose_source(kubeconfig, context, environ=environ)


@pytest.mark.parametrize(
    ("current", "context", "said"),
    [
        ("", None, "sets no current-context; choose one of a, b with --context"),
        ("c", None, "has no context 'c'; choose one of a, b with --context"),
        ("a", "d", "has no context 'd'"),
    ],
)
async def test_a_context_that_is_not_there(tmp_path: Path, current: str, context: str | None, said: str) -> None:
    file = config(tmp_path / "config", current=current, a={}, b={})
    with pytest.raises(ConfigurationError, match=said):
        await load(file, context)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{a: [",
        '{"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a"}',
        '{"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a",'
        ' "clusters": [{"name": "a", "cluster": {"server": "http://a"}}], "users": [{"name": "a", "token": "canary"}]}',
        '{"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a",'
        ' "clusters": [{"name": "a", "cluster": {"server": "https://a"}}],'
        ' "users": [{"name": "a", "user": {"token": "canary", "client-certificate": "/absent"}}]}',
        '{"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a",'
        ' "clusters": [{"name": "a", "cluster": {"server": "https://a", "certificate-authority-data": "Y2FuYXJ5"}}]}',
    ],
)
async def test_a_broken_file_is_named_and_not_quoted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        await connect(kubeconfig=str(file))
    assert "canary" not in str(caught.value)
    assert "Y2FuYXJ5" not in str(caught.value)
    assert str(file) in str(caught.value) or "context a" in str(caught.value)


def plugin(directory: Path, answer: str, *, code: int = 0) -> dict[str, Any]:
    script = directory / "plugin.py"
    script.write_text(f"import sys\nsys.stdout.write({answer!r})\nsys.exit({code})\n")
    exec_config = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}
    return {"exec": exec_config}


async def test_a_credential_plugin_is_asked_for_a_token(tmp_path: Path) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    file = config(tmp_path / "config", current="a", a=plugin(tmp_path, json.dumps(credential)))
    assert await token(await load(file)) == "Bearer from-plugin"


async def test_a_credential_plugin_that_fails_is_named(tmp_path: Path) -> None:
    file = config(tmp_path / "config", current="a", a=plugin(tmp_path, "", code=3))
    with pytest.raises(ConfigurationError, match=r"credential plugin .* returned no credentials"):
        await load(file)


async def test_a_user_may_act_as_another(tmp_path: Path) -> None:
    file = config(tmp_path / "config", current="a", a={"token": "t", "as": "robot"}, b={"as": "x", "as-groups": ["g"]})
    assert (await load(file)).headers == {"Impersonate-User": "robot"}
    with pytest.raises(ConfigurationError, match="as-groups"):
        await load(file, "b")


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://api.example.org:6443", {"HTTPS_PROXY": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.org", {"https_proxy": "http://proxy:1", "no_proxy": "example.org"}, None),
        ("https://10.96.0.1:443", {"https_proxy": "http://proxy:1", "no_proxy": ".svc, 10.96.0.0/12,x/y"}, None),
        ("https://10.112.0.1:443", {"https_proxy": "http://proxy:1", "NO_PROXY": "10.96.0.0/12"}, "http://proxy:1"),
        ("https://[2001:db8::1]", {"https_proxy": "http://proxy:1", "no_proxy": "10.0.0.0/8,2001:db8::/32"}, None),
        ("https://api.example.org", {"https_proxy": "proxy:1"}, "http://proxy:1"),
        ("http://api.example.org", {"https_proxy": "http://proxy:1"}, None),
        ("https://127.0.0.1:6443", {"https_proxy": "http://proxy:1"}, None),
        ("https://[::1]:6443", {"https_proxy": "http://proxy:1"}, None),
    ],
)
async def test_the_proxy_of_the_environment_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, environ: dict[str, str], proxy: str | None
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    endpoint = await load(write_kubeconfig(tmp_path / "config", server, user={}))
    assert endpoint.configuration.proxy == proxy


def test_a_cluster_is_chosen_without_the_other_clients_that_its_package_brings(tmp_path: Path) -> None:
    """They would be half of what it costs to start. Who asks for them gets them."""
    import subprocess

    file = config(tmp_path / "config", current="a", a={"token": "1"})
    code = (
        "import asyncio, sys; from applier.kube.kubeconfig import choose_source; "
        "endpoint = asyncio.run(choose_source(sys.argv[1], None).load()); "
        "print(endpoint.name, *{'requests', 'oauthlib', 'websocket', 'pydantic', 'kubernetes.client', 'kubernetes.aio.dynamic'} & set(sys.modules)); "
        "from kubernetes import client; print(client.V1Pod.__name__); "
        "from kubernetes.aio import client; print(client.ApiClient.__name__); "
        "from kubernetes.aio.config import kube_config; print(type(kube_config.ApiClient(configuration=endpoint.configuration)).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], check=False, capture_output=True, text=True)
    assert done.stdout.split() == ["a", "V1Pod", "ApiClient", "ApiClient"], done.stderr


def test_importing_the_package_imports_neither_kubernetes_nor_aiohttp() -> None:
    import subprocess

    code = "import sys, applier.kube; sys.exit(bool({'kubernetes', 'aiohttp', 'yaml'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_certificates_are_read_once_for_connections_that_are_alike(kubeconfig: Path, tmp_path: Path) -> None:
    """Another token is no other connection; another address is, and so is one that the system's own certificates vouch for."""

    def changed(name: str, change: Callable[[dict[str, Any]], None]) -> Path:
        config = yaml.safe_load(kubeconfig.read_text())
        change(config)
        file = tmp_path / name
        file.write_text(yaml.safe_dump(config))
        return file

    def trust_the_system(config: dict[str, Any]) -> None:
        for entry in config["clusters"]:
            entry["cluster"].pop("certificate-authority", None)
            entry["cluster"].pop("certificate-authority-data", None)

    def add_token(config: dict[str, Any]) -> None:
        for entry in config["users"]:
            entry["user"]["token"] = "another"

    def move(config: dict[str, Any]) -> None:
        for entry in config["clusters"]:
            entry["cluster"]["server"] = "https://127.0.0.1:1"

    first = await load(kubeconfig)
    assert (await load(kubeconfig)).client is first.client
    assert (await load(changed("token", add_token))).client is first.client
    assert (await load(changed("moved", move))).client is not first.client
    system = changed("system", trust_the_system)
    trusting = await load(system)
    assert (await load(system)).client is not trusting.client
