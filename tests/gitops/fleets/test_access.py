"""Credentials of clusters: what is refused, before anything is sent, and that nothing of a secret is repeated."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from applier.cluster import ClusterName, Discovery, Object, Resource
from applier.errors import ConfigurationError, Unavailable
from applier.kube import connect_to
from applier.kube.kubeconfig import Endpoint
from applier.recorded_cluster import RecordedCluster
from gitops.fleet.access import (
    CLUSTER_LABEL,
    PROFILE_KIND,
    AccessSettings,
    AccessSource,
    choose_provider,
)
from gitops.fleet.cluster_spec import ClusterAccess, FileAccess, ProfileAccess, SecretAccess
from gitops.fleet.credential_plugin import MAX_OUTPUT_BYTES, CredentialPlugin, run_plugin
from gitops.fleet.kubeconfig_check import MAX_KUBECONFIG_BYTES, AccessRefused, parse_kubeconfig
from renderer.identity import OWN_NAMESPACE, ObjectKey
from tests.support.cluster.control_plane import ControlPlane
from tests.support.scripted_server import scripted

CANARY = "c4n4ry"
AS_GROUPS: dict[str, Any] = {"token": CANARY, "as": "a", "as-groups": ["g"]}
SETTINGS = AccessSettings(None, (), OWN_NAMESPACE)
SECRET = SecretAccess("eu-1", "value")


def kubeconfig(server: str = "https://127.0.0.1:6443", **user: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {"token": CANARY}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def secret(document: object, *, labels: Mapping[str, str] | None = None, key: str = "value") -> Object:
    data = document if isinstance(document, bytes) else orjson.dumps(document)
    labels = {CLUSTER_LABEL: "true"} if labels is None else labels
    metadata = {"name": "eu-1", "namespace": OWN_NAMESPACE, "labels": dict(labels)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "data": {key: base64.b64encode(data).decode()},
    }


def profile(**status: Any) -> Object:
    metadata = {"name": "eu-1", "namespace": OWN_NAMESPACE}
    return {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ClusterProfile",
        "metadata": metadata,
        "status": status,
    }


def hub(*objects: Object) -> RecordedCluster:
    resources = [
        Resource("", "v1", "Secret", "secrets", True),
        Resource(PROFILE_KIND.group, "v1alpha1", PROFILE_KIND.kind, "clusterprofiles", True),
    ]
    discovery = Discovery({resource.group_kind: resource for resource in resources})
    return RecordedCluster(ClusterName("hub"), {ObjectKey.from_manifest(obj): obj for obj in objects}, discovery)


def source(chosen: ClusterAccess, *objects: Object, settings: AccessSettings = SETTINGS) -> AccessSource:
    return AccessSource(ClusterName("eu-1"), chosen, settings, hub(*objects))


async def token(endpoint: Endpoint) -> str:
    return str(await endpoint.configuration.get_api_key_with_prefix("BearerToken"))


async def refusal(tried: AccessSource) -> str:
    with pytest.raises(AccessRefused) as raised:
        await tried.load()
    assert CANARY not in str(raised.value)
    assert CANARY not in repr(raised.value)
    assert str(raised.value).startswith("cluster eu-1: ")
    return str(raised.value)


async def test_a_labelled_secret_gives_its_kubeconfig() -> None:
    endpoint = await source(SECRET, secret(kubeconfig())).load()
    assert (endpoint.configuration.host, await token(endpoint)) == ("https://127.0.0.1:6443", f"Bearer {CANARY}")
    assert CANARY not in repr(parse_kubeconfig("t", orjson.dumps(kubeconfig())))


@pytest.mark.parametrize("labels", [{}, {CLUSTER_LABEL: "false"}, {CLUSTER_LABEL: "True"}, {"other": "true"}])
async def test_a_secret_without_the_label_is_refused(labels: dict[str, str]) -> None:
    said = await refusal(source(SECRET, secret(kubeconfig(), labels=labels)))
    assert f"kubectl label secret eu-1 -n {OWN_NAMESPACE} {CLUSTER_LABEL}=true" in said


async def test_a_secret_or_a_key_that_does_not_exist_is_named() -> None:
    assert "Secret levelgate-system/eu-1 does not exist in the hub" in await refusal(source(SECRET))
    said = await refusal(source(SECRET, secret(kubeconfig(), key="kubeconfig")))
    assert "has no key 'value', its keys are: kubeconfig" in said


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("users", {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": CANARY}}),
        ("users", {"token": CANARY, "exec": {"command": "touch"}}),
        ("users", {"auth-provider": {"name": "gcp", "config": {"cmd-path": CANARY}}}),
        ("users", {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}),
        ("users", {"token": CANARY, "client-certificate": "/etc/ssl/c4n4ry.pem", "client-key": "/k"}),
        ("users", {"token": CANARY, "client-key": "/etc/ssl/c4n4ry.pem"}),
        ("clusters", {"server": "https://127.0.0.1:1", "certificate-authority": "/etc/ssl/c4n4ry.pem"}),
    ],
)
@pytest.mark.parametrize("is_current", [True, False])
async def test_what_would_run_a_program_or_read_a_file_is_refused_by_name_and_nothing_is_sent(
    tmp_path: Path, section: str, entry: dict[str, Any], is_current: bool
) -> None:
    """CVE-2022-24817: also where it stands in an entry that is not used."""
    async with scripted(tmp_path) as (server, _):
        config = json.loads((tmp_path / "config").read_text())
        url = config["clusters"][0]["cluster"]["server"]
        document = kubeconfig(url)
        content = {"user": entry} if section == "users" else {"cluster": {**entry}}
        if is_current:
            document[section][0] |= content
        else:
            document[section].append({"name": "other", **content})
        tried = source(SECRET, secret(document))
        said = await refusal(tried)
        with pytest.raises(AccessRefused):
            await connect_to(tried, name=ClusterName("eu-1"))
        assert server.seen == []
    field = next(name for name in access_fields(entry))
    assert f"`{field}` is rejected" in said
    assert f"line 1: {section}[{0 if is_current else 1}]" in said


def access_fields(entry: Mapping[str, Any]) -> list[str]:
    names = ("exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "certificate-authority")
    return [name for name in names if name in entry]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\xff\xfe" + CANARY.encode(), "is not YAML"),
        (f"{CANARY}: [".encode(), "is not YAML"),
        (CANARY.encode(), "is not YAML"),
        (b"", "0 documents"),
        (f"a: {CANARY}\n---\nb: 1\n".encode(), "2 documents"),
        (b"a: &a [x, x]\nb: " + b"[" * 300, "is not YAML"),
        (b" " * (MAX_KUBECONFIG_BYTES + 1), "is not read"),
        (orjson.dumps(kubeconfig() | {"current-context": ""}), "sets no current-context"),
        (orjson.dumps(kubeconfig() | {"current-context": CANARY}), "not among its contexts"),
        (orjson.dumps(kubeconfig() | {"users": []}), "names no `user`"),
        (orjson.dumps(kubeconfig() | {"clusters": {CANARY: 1}}), "is not a list"),
        (orjson.dumps(kubeconfig() | {"users": [CANARY]}), "is not an object with `name` and `user`"),
        (orjson.dumps(kubeconfig(tokn=CANARY)), "has an unknown field"),
        (orjson.dumps(kubeconfig(**{"as": "robot"})), "no credentials"),
        (orjson.dumps(kubeconfig(token=17)), "`token` is not text"),
        (orjson.dumps(kubeconfig(token=f"{CANARY}\r\nX-Y: z")), "`token` is more than one word"),
        (orjson.dumps(kubeconfig(**{"client-key-data": CANARY})), "`client-key-data` is not base64"),
        (orjson.dumps(kubeconfig(**{"client-key-data": "YQ=="})), "write both"),
        (orjson.dumps(kubeconfig(**{"client-key-data": "YQ==", "client-certificate-data": "YQ=="})), "certificates"),
        (orjson.dumps(kubeconfig("https://127.0.0.1:1", **AS_GROUPS)), "as-groups"),
        (orjson.dumps(kubeconfig("")), "`server` is not the URL"),
        (orjson.dumps(kubeconfig("unix:///run/x.sock")), "`server` is not the URL"),
        (orjson.dumps(kubeconfig(f"https://me:{CANARY}@api.test")), "`server` contains more than an address"),
        (orjson.dumps(kubeconfig("http://api.test")), "without TLS"),
        (orjson.dumps(kubeconfig("https://api.test:port")), "`server` is not the URL"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_named_and_not_quoted(text: bytes, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        await source(SECRET, secret(text)).load()
    assert said in str(raised.value)
    assert CANARY not in str(raised.value)


async def test_a_hub_that_does_not_answer_is_not_taken_for_a_refusal() -> None:
    class Silent(RecordedCluster):
        async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
            raise Unavailable(f"get {key}: cannot connect")

    silent = Silent(ClusterName("hub"), {}, Discovery({}))
    with pytest.raises(ConfigurationError, match="cannot be read from the hub: get Secret") as raised:
        await AccessSource(ClusterName("eu-1"), SECRET, SETTINGS, silent).load()
    assert not isinstance(raised.value, AccessRefused)


async def test_a_file_is_read_below_the_operators_directory_and_nowhere_else(tmp_path: Path) -> None:
    directory = tmp_path / "clusters"
    (directory / "eu").mkdir(parents=True)
    (directory / "..data").mkdir()
    outside = tmp_path / "outside"
    for file in (directory / "eu" / "one", directory / "..data" / "two", outside):
        file.write_text(json.dumps(kubeconfig()))
    (directory / "two").symlink_to("..data/two")  # as in a mounted volume
    (directory / "out").symlink_to(outside)
    (directory / "up").symlink_to("..")
    (directory / "large").write_text(" " * (MAX_KUBECONFIG_BYTES + 1))
    settings = AccessSettings(directory, (), OWN_NAMESPACE)
    for name in ("eu/one", "two"):
        assert await token(await source(FileAccess(name), settings=settings).load()) == f"Bearer {CANARY}"
    for name in ("out", "up/outside", "../outside", str(outside), "eu/../../outside"):
        assert "is outside of" in await refusal(source(FileAccess(name), settings=settings))
    assert "is not a file" in await refusal(source(FileAccess("eu"), settings=settings))
    assert "cannot be read: No such file" in await refusal(source(FileAccess("absent"), settings=settings))
    assert "cannot be read" in await refusal(source(FileAccess("a\0b"), settings=settings))
    assert "write at most" in await refusal(source(FileAccess("large"), settings=settings))
    assert "set fleet.directory" in await refusal(source(FileAccess("eu/one")))


CLUSTER = {
    "server": "https://127.0.0.1:6443",
    "tls-server-name": "api.test",
    "extensions": [
        {"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": "eu-1"}},
        {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": ["--evil"]},
        {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs", "extension": {"EVIL": "1"}},
    ],
}


def plugin(directory: Path, code: str, *arguments: str, name: str = "google") -> CredentialPlugin:
    """A program that runs this code, with `told` as what it was told and `answer(status)` to answer."""
    script = directory / f"{name}.py"
    script.write_text(
        "import json, os, sys, time\n"
        "told = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "def answer(**status):\n"
        "    print(json.dumps({'apiVersion': told['apiVersion'], 'kind': 'ExecCredential', 'status': status}))\n" + code
    )
    return CredentialPlugin(name, sys.executable, (str(script), *arguments), {"MINE": "2"})


async def test_a_profile_says_where_the_cluster_is_and_the_operators_program_who_we_are(tmp_path: Path) -> None:
    """KEP-5339: what the inventory would add to the program's arguments and variables is left out."""
    code = (
        "open(sys.argv[1], 'a').write(json.dumps([told, sys.argv[2:], os.environ.get('EVIL'), os.environ['MINE']]) + '\\n')\n"
        f"answer(token='{CANARY}', expirationTimestamp='2026-11-27T12:00:00Z')\n"
    )
    log = tmp_path / "log"
    plugins = (plugin(tmp_path, code, str(log), "--flag"),)
    times = iter((0.0, 5.0, 11.0))
    tried = AccessSource(
        ClusterName("eu-1"),
        ProfileAccess("eu-1"),
        AccessSettings(None, plugins, OWN_NAMESPACE),
        hub(profile(accessProviders=[{"name": "google", "cluster": CLUSTER}])),
        elapsed=lambda: next(times),
    )
    endpoint = await tried.load()
    assert (endpoint.configuration.host, endpoint.configuration.tls_server_name) == (CLUSTER["server"], "api.test")
    assert await token(endpoint) == f"Bearer {CANARY}"
    assert tried.expires_at is not None
    assert tried.expires_at.hour == 12
    assert CANARY not in repr(tried)
    told, arguments, evil, mine = json.loads(log.read_text())
    assert told["spec"] == {
        "interactive": False,
        "cluster": {
            "server": CLUSTER["server"],
            "tls-server-name": "api.test",
            "config": {"clusterName": "eu-1"},
        },
    }
    assert (arguments, evil, mine) == (["--flag"], None, "2")
    await tried.load()  # 5 seconds later its answer serves still
    assert len(log.read_text().splitlines()) == 1
    await tried.load()
    assert len(log.read_text().splitlines()) == 2


def test_the_first_program_that_the_cluster_has_a_provider_for_is_chosen() -> None:
    """KEP-5339; `credentialProviders` is what `accessProviders` was called before."""
    google, secrets, aws = (CredentialPlugin(name, "x", (), {}) for name in ("google", "secretreader", "aws"))
    old = [{"name": "google", "cluster": {"server": "https://old"}}]
    new = [{"name": name, "cluster": {"server": f"https://{name}"}} for name in ("secretreader", "google")]
    both = profile(credentialProviders=old, accessProviders=new)
    assert choose_provider(both, (aws, google, secrets)) == (google, {"server": "https://google"})
    assert choose_provider(profile(credentialProviders=old), (aws, google)) == (google, {"server": "https://old"})
    with pytest.raises(AccessRefused, match=r"providers \(google, secretreader\) to fleet.plugins \(now: aws\)"):
        choose_provider(both, (aws,))
    with pytest.raises(AccessRefused, match=r"providers \(none\) to fleet.plugins \(now: none\)"):
        choose_provider(profile(), ())
    with pytest.raises(AccessRefused, match="is not a list"):
        choose_provider(profile(credentialProviders={"google": {}}), (google,))
    with pytest.raises(AccessRefused, match="lacks the field `cluster`"):
        choose_provider(profile(accessProviders=[{"name": "google"}]), (google,))


async def test_a_profile_cannot_name_a_file(tmp_path: Path) -> None:
    settings = AccessSettings(None, (plugin(tmp_path, f"open('{tmp_path}/ran', 'w')\n"),), OWN_NAMESPACE)
    entry = {"name": "google", "cluster": {"server": "https://a", "certificate-authority": "/etc/c4n4ry"}}
    said = await refusal(source(ProfileAccess("eu-1"), profile(accessProviders=[entry]), settings=settings))
    assert "ClusterProfile levelgate-system/eu-1, access provider google: cluster: `certificate-authority`" in said
    assert not (tmp_path / "ran").exists()
    assert "does not exist in the hub" in await refusal(source(ProfileAccess("eu-1"), settings=settings))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (f"print('{CANARY}')\n", "did not write an ExecCredential"),
        (
            "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1beta1', 'kind': 'ExecCredential'}))\n",
            "did not write an ExecCredential",
        ),
        ("answer()\n", "neither a token nor a client certificate"),
        ("answer(token=7)\n", "neither a token"),
        (f"answer(clientCertificateData='{CANARY}')\n", "neither a token"),
        (
            f"sys.stderr.write('{CANARY}')\nsys.exit(3)\n",
            "ended with exit code 3; run the program by hand to see the cause",
        ),
        (f"print('{CANARY}' * {MAX_OUTPUT_BYTES})\n", "wrote more than"),
        ("import subprocess\nsubprocess.Popen(['sleep', '600'])\nos.write(1, b'x')\ntime.sleep(600)\n", "within 1 s"),
        ("import subprocess\nsubprocess.Popen(['sleep', '600'])\n", "within 1 s"),
    ],
)
async def test_a_program_is_bounded_and_not_quoted(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(AccessRefused, match=said) as raised:
        await run_plugin(plugin(tmp_path, code), CLUSTER, max_seconds=1.0 if "within" in said else 60.0)
    assert CANARY not in str(raised.value)


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(AccessRefused, match=r"credential plugin a \(/absent/b\) cannot be started: No such file"):
        await run_plugin(CredentialPlugin("a", "/absent/b", (), {}), CLUSTER)


async def test_a_program_may_give_a_certificate(tmp_path: Path) -> None:
    code = "answer(clientCertificateData='PEM 1', clientKeyData='PEM 2')\n"
    credentials = await run_plugin(plugin(tmp_path, code), CLUSTER)
    assert credentials.user == {"client-certificate-data": "UEVNIDE=", "client-key-data": "UEVNIDI="}
    assert credentials.expires_at is None


async def test_a_secret_leads_to_a_real_cluster(control_plane: ControlPlane, tmp_path: Path) -> None:
    """M3: a token that was replaced in the Secret is read again when the one before is refused."""
    text = control_plane.kubeconfig("levelgate").read_bytes()
    wrong = secret(text.replace(control_plane.token("levelgate").encode(), b"wrong"))
    recorded = hub(wrong)
    cluster = await connect_to(AccessSource(ClusterName("eu-1"), SECRET, SETTINGS, recorded), name=ClusterName("eu-1"))
    recorded.objects = {ObjectKey.from_manifest(wrong): secret(text)}
    assert (await cluster.discover()).resources
    assert cluster.name == "eu-1"
    await cluster.close()


def test_nothing_of_a_plugin_or_a_secret_is_shown_by_repr() -> None:
    assert CANARY not in repr(CredentialPlugin("a", "b", (), {"TOKEN": CANARY}))
