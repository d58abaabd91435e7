"""The configuration file: what it can say, and what is told of mistakes in it (docs/configuration.md)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from applier.applyset.adoption import Adoption
from applier.plan.deletion_brake import DeletionBrake
from applier.state.field_conflicts import ConflictPolicy
from gitops.config import Config, ConfigErrors, read_config
from gitops.config.fields import ListenAddress, parse_address
from gitops.config.model import FleetConfig
from gitops.external_facts import ExternalFactSource
from gitops.fleet.access import AccessSettings
from gitops.fleet.credential_plugin import CredentialPlugin
from gitops.source import BranchRef, CommitRef, Credentials, DefaultBranchRef, FullRef, Ref, TagRef
from renderer.identity import OWN_NAMESPACE

HEAD = "apiVersion: levelgate.dev/v1alpha1\nkind: Config\n"


def written(directory: Path, text: str, *, head: str = HEAD) -> Config:
    file = directory / "levelgate.yaml"
    file.write_text(head + text)
    return read_config(file)


def refused(directory: Path, text: str, *, head: str = HEAD) -> list[str]:
    """The mistakes that are told, without the name of the file."""
    with pytest.raises(ConfigErrors) as error:
        written(directory, text, head=head)
    return [line.removeprefix(f"{directory}/levelgate.yaml:") for line in str(error.value).splitlines()]


def one(directory: Path, *fields: str) -> list[str]:
    """The mistakes of one source; its fields begin at line 6."""
    return refused(
        directory,
        "".join(["sources:\n- name: a\n  url: https://x.example.com/a.git\n", *(f"  {line}\n" for line in fields)]),
    )


def test_a_whole_file(tmp_path: Path) -> None:
    """Surface 2.5."""
    for name in ("id_ed25519", "known_hosts", "token", "ca.pem"):
        (tmp_path / name).touch()
    config = written(
        tmp_path,
        """
cluster: {name: prod-eu, context: prod-eu}
namespace: levelgate-system
applyConcurrency: 8
maxConcurrentReconciles: 4
resync: 1h30m
logFormat: json
sources:
- name: platform
  url: ssh://git@git.example.com/platform.git
  ref: {branch: main}
  path: clusters/prod-eu
  interval: 30s
  policies: All
  credentials:
    sshKeyFile: id_ed25519
    knownHostsFile: known_hosts
- name: team-shop
  url: https://git.example.com/shop/deploy.git
  ref: {semver: ">=1.0.0 <2.0.0"}
  path: deploy/
  interval: 1m
  policies: Own
  dependsOn: [platform]
  adopt: IfUnowned
  brake: {deletions: 2, percent: 10}
  prune: false
  suspend: INC-7
  credentials: {tokenFile: token, username: reader, caFile: ca.pem}
- name: local
  url: ../work
  adopt: {policy: IfEqual, from: [flux, kro]}
  conflicts: Report
externals:
- name: error-budget
  http: {url: "https://slo.example.com/webapp/ok", expect: "true"}
  maxAge: 60s
- name: quick
  http: {url: "http://slo.example.com:8080/?q=1", expect: ok, timeout: 2s}
  maxAge: 9s
""",
    )
    assert (config.cluster, config.context, config.apply_concurrency, config.max_concurrent_reconciles) == (
        "prod-eu",
        "prod-eu",
        8,
        4,
    )
    assert (config.resync, config.log_format) == (timedelta(minutes=90), "json")
    assert config.externals == (
        ExternalFactSource("error-budget", "https://slo.example.com/webapp/ok", "true", timedelta(minutes=1)),
        ExternalFactSource(
            "quick", "http://slo.example.com:8080/?q=1", "ok", timedelta(seconds=9), timedelta(seconds=2)
        ),
    )
    platform, shop, local = config.sources
    assert (platform.name, str(platform.target), platform.target.path) == (
        "platform",
        "ssh://***@git.example.com/platform.git",
        "clusters/prod-eu",
    )
    assert platform.target.ref == BranchRef("main")
    assert platform.governs_all
    assert platform.interval == timedelta(seconds=30)
    assert platform.credentials == Credentials(
        ssh_key_file=tmp_path / "id_ed25519", known_hosts_file=tmp_path / "known_hosts"
    )
    assert (str(shop.target.ref), shop.target.path, shop.interval) == (
        "versions >=1.0.0 <2.0.0",
        "deploy",
        timedelta(minutes=1),
    )
    assert not shop.governs_all
    assert (shop.depends_on, shop.suspend, shop.brake, shop.prunes) == (
        ("platform",),
        "INC-7",
        DeletionBrake(2, 10),
        False,
    )
    assert shop.adoption == Adoption.parse("IfUnowned")
    assert shop.credentials == Credentials(tmp_path / "token", "reader", ca_file=tmp_path / "ca.pem")
    assert local.target.location == str(tmp_path.parent / "work")
    assert local.adoption == Adoption.parse("IfEqual:flux,kro")
    assert (shop.conflicts, local.conflicts) == (ConflictPolicy.HEAL, ConflictPolicy.REPORT)


def test_the_example_in_the_repository_is_valid(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "deploy" / "levelgate.yaml"
    for name in (
        "platform/id_ed25519",
        "platform/known_hosts",
        "platform/allowed_signers",
        "shop/token",
        "hooks/github",
        "notify/slack-url",
        "notify/github-token",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    config = written(tmp_path, example.read_text(), head="")
    assert [source.name for source in config.sources] == ["platform", "team-shop"]


def test_what_is_not_said_has_its_default(tmp_path: Path) -> None:
    config = written(tmp_path, "sources:\n- name: a\n  url: https://x.example.com/a.git\n")
    (source,) = config.sources
    assert (config.cluster, config.context, config.apply_concurrency) == ("local", "", None)
    assert (source.target.ref, source.target.path, source.interval) == (DefaultBranchRef(), "", timedelta(seconds=30))
    assert (source.brake, source.adoption, source.credentials) == (DeletionBrake(5, 20), Adoption(), Credentials())
    assert source.prunes
    assert (source.suspend, source.depends_on, source.governs_all) == ("", (), False)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("branch: main", BranchRef("main")),
        ("name: refs/pull/7/head", FullRef("refs/pull/7/head")),
        ("name: refs/heads/main", BranchRef("main")),
        ("tag: v1", TagRef("v1")),
        (f"commit: {'a' * 40}", CommitRef("a" * 40)),
    ],
)
def test_refs(tmp_path: Path, text: str, ref: Ref) -> None:
    found = written(tmp_path, f"sources:\n- name: a\n  url: https://x.example.com/a.git\n  ref: {{{text}}}\n")
    assert found.sources[0].target.ref == ref


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("interval: 30", "sources[0].interval: 30 is not text; put it in quotes"),
        ('interval: "30"', "sources[0].interval: '30' is not a duration; write for example 90s, 30m, 1h30m or 2d"),
        ("interval: 0s", "sources[0].interval: '0s' is shorter than 1s; write a longer time"),
        ("intervall: 30s", "sources[0].intervall: no field 'intervall'; did you mean 'interval'?"),
        ("ref: main", "sources[0].ref: 'main' is not an object"),
        ("ref: {branch: main, tag: v1}", "sources[0].ref: must be exactly one of branch, tag, name, semver, commit, such as {branch: main}"),
        ("ref: {branch: a..b}", "sources[0].ref.branch: 'a..b': is not a name that Git allows for a branch or tag; correct the name"),
        ("ref: {semver: main}", "sources[0].ref.semver: 'main' is not a range of versions; write for example '>=1.0.0 <2.0.0', '~1.4' or '1.x'"),
        ("ref: {commit: abc}", "sources[0].ref.commit: 'abc': is not a full commit id; write all 40 hexadecimal digits"),
        ("path: ../up", "sources[0].path: '../up': is not a path inside the repository; write the path relative to the top"),
        ("policies: Some", "sources[0].policies: 'Some' is not one of Own, All"),
        ("dependsOn: [b]", "sources[0].dependsOn[0]: source 'b' is not configured; choose from a"),
        ("dependsOn: [a]", "sources[0].dependsOn: waits for itself: a <- a; remove a dependency"),
        ("conflicts: heal", "sources[0].conflicts: 'heal' is not one of Heal, Report, Force; did you mean 'Heal'?"),
        ("adopt: Always", "sources[0].adopt: 'Always' is not one of Never, IfEqual, IfUnowned"),
        ("adopt: 5", "sources[0].adopt: fits none of the 2 allowed forms: 5 is not text; put it in quotes; or 5 is not an object"),
        ("adopt: {policy: IfEqual, from: [kustomize]}", "sources[0].adopt.from[0]: 'kustomize' is not one of kubectl, flux, argocd, helm, kro"),
        ("brake: {percent: 101}", "sources[0].brake.percent: 101 is above the maximum 100"),
        ("brake: 5", "sources[0].brake: 5 is not an object"),
        ("suspend: true", "sources[0].suspend: true is not text; put it in quotes"),
        ("credentials: {sshKeyFile: levelgate.yaml}", "sources[0].credentials.sshKeyFile: is for ssh, but the URL uses https; remove the field"),
        ("credentials: {username: me}", "sources[0].credentials.username: requires tokenFile, the file with the token or password"),
        ("verify: {mode: Head}", "sources[0].verify: names no keys; write allowedSignersFile, or keyringFile for OpenPGP"),
        ("forge: {kind: svn, tokenFile: levelgate.yaml}", "sources[0].forge.kind: 'svn' is not one of github, gitlab, gitea"),
        ("forge: {kind: gitea}", "sources[0].forge.tokenFile: is required and not given"),
        ("forge: {tokenFile: levelgate.yaml}", "sources[0].forge: x.example.com: unknown forge; name github, gitlab or gitea (--forge, or `kind`)"),
        ("forge: {kind: gitea, url: ftp://x, tokenFile: levelgate.yaml}", "sources[0].forge.url: is not the URL of a web server; write https://HOST/PATH"),
        ("serviceAccount: Shop", "sources[0].serviceAccount: 'Shop' names no service account; write NAME, or NAMESPACE/NAME"),
        ('serviceAccount: ""', "sources[0].serviceAccount: has 0 characters, but must have at least 1"),
    ],
)  # fmt: skip
def test_mistakes_of_a_source(tmp_path: Path, line: str, told: str) -> None:
    assert one(tmp_path, line) == [f"6: {told}"]


@pytest.mark.parametrize(
    ("said", "api", "project"),
    [
        ("{kind: gitea, tokenFile: token}", "https://x.example.com/api/v1", "acme/a"),
        (
            "{kind: gitlab, url: 'https://y.test/api/v4/', repository: b/c, tokenFile: token}",
            "https://y.test/api/v4",
            "b/c",
        ),
    ],
)
def test_where_reverts_are_proposed(tmp_path: Path, said: str, api: str, project: str) -> None:
    (tmp_path / "token").touch()
    config = written(tmp_path, f"sources:\n- {{name: a, url: 'https://x.example.com/acme/a.git', forge: {said}}}\n")
    (source,) = config.sources
    assert source.forge is not None
    assert (source.forge.api, source.forge.project, source.forge.token_file) == (api, project, tmp_path / "token")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('http: {url: "https://x/y", expect: "true"}', "4: externals[0].maxAge: is required and not given"),
        ('{maxAge: 1m, http: {url: "https://x/y"}}', "4: externals[0].http.expect: is required and not given"),
        ('{maxAge: 1m, http: {url: "https://x/y", expect: true}}', "4: externals[0].http.expect: true is not text; put it in quotes"),
        ('{maxAge: 60, http: {url: "https://x/y", expect: "y"}}', "4: externals[0].maxAge: 60 is not text; put it in quotes"),
        ('{maxAge: 2s, http: {url: "https://x/y", expect: "y"}}', "4: externals[0].maxAge: '2s' is shorter than 3s; write a longer time"),
        ('{maxAge: 1m, http: {url: "ftp://x/y", expect: "y"}}', "4: externals[0].http.url: is not the URL of a web server; write https://HOST/PATH"),
        ('{maxAge: 1m, http: {url: "https://x:99999/y", expect: "y"}}', "4: externals[0].http.url: is not the URL of a web server; write https://HOST/PATH"),
        ('{maxAge: 1m, http: {url: "https://[x/y", expect: "y"}}', "4: externals[0].http.url: is not the URL of a web server; write https://HOST/PATH"),
        (
            f'{{maxAge: 1m, http: {{url: "https://{"x" * 64}.example/y", expect: "y"}}}}',
            "4: externals[0].http.url: is not the URL of a web server; write https://HOST/PATH",
        ),
        ('{maxAge: 1m, http: {url: "https://a:b@x/y", expect: "y"}}', "4: externals[0].http.url: holds a credential; remove it"),
        (
            '{maxAge: 9s, http: {url: "https://x/y", expect: "y", timeout: 4s}}',
            "4: externals[0].http.timeout: is longer than 3s, a third of maxAge; write a shorter timeout",
        ),
    ],
)  # fmt: skip
def test_mistakes_of_a_fact(tmp_path: Path, line: str, told: str) -> None:
    fields = line.removeprefix("{").removesuffix("}") if line.startswith("{") else line
    assert told in refused(tmp_path, f"externals:\n- {{name: a, {fields}}}\nsources: [{{name: a, url: /a}}]\n")


def test_two_facts_of_one_name(tmp_path: Path) -> None:
    fact = '- {name: a, maxAge: 1m, http: {url: "https://x/y", expect: "y"}}\n'
    assert refused(tmp_path, f"sources: [{{name: a, url: /a}}]\nexternals:\n{fact}{fact}") == [
        "6: externals[1].name: 2 externals are called 'a'; rename one"
    ]


def test_files_that_cannot_be_read_are_told_with_the_place_where_they_are_looked_for(tmp_path: Path) -> None:
    assert one(tmp_path, "credentials:", "  tokenFile: secrets/token") == [
        f"7: sources[0].credentials.tokenFile: file {tmp_path}/secrets/token does not exist; relative paths begin at {tmp_path}"
    ]


def test_a_credential_in_a_url_is_refused_and_not_repeated(tmp_path: Path) -> None:
    (told,) = refused(tmp_path, "sources:\n- name: a\n  url: https://me:secret@x.example.com/a.git\n")
    assert told.startswith("5: sources[0].url: ")
    assert "put the credential in a file" in told
    assert "secret" not in told


def test_all_mistakes_are_told_together_each_with_its_line(tmp_path: Path) -> None:
    found = refused(
        tmp_path,
        """\
namespace: other
listen: 8480
maxConcurrentReconciles: 0
applyConcurrency: 0
resync: 90
logFormat: xml
sources:
- name: Platform
  url: git://x.example.com/a.git
  interval: 5
- url: https://x.example.com/b.git
  ref: {semver: ">"}
- name: c
  url: https://x.example.com/c.git
- name: c
  url: https://x.example.com/c.git
  interval: 5x
""",
    )
    assert found == [
        "3: namespace: 'other' is not one of levelgate-system",
        "4: listen: 8480 is not text; put it in quotes",
        "5: maxConcurrentReconciles: 0 is below the minimum 1",
        "6: applyConcurrency: 0 is below the minimum 1",
        "7: resync: 90 is not text; put it in quotes",
        "8: logFormat: 'xml' is not one of text, json",
        "10: sources[0].name: 'Platform' cannot name a source; write lowercase letters, digits and dashes",
        "11: sources[0].url: 'git://x.example.com/a.git': the transport 'git' is rejected; use https, ssh or user@host:path",
        "12: sources[0].interval: 5 is not text; put it in quotes",
        "13: sources[1].name: is required and not given",
        "14: sources[1].ref.semver: '>' is not a range of versions; write for example '>=1.0.0 <2.0.0', '~1.4' or '1.x'",
        "17: sources[3].name: 2 sources are called 'c'; rename one",
        "19: sources[3].interval: '5x' is not a duration; write for example 90s, 30m, 1h30m or 2d",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds 0 objects; write one object of kind Config"),
        (f"{HEAD}sources: [", "not valid YAML"),
        (f"{HEAD}sources: []", "sources: has 0 items"),
        (HEAD, "sources: is required and not given"),
        (f"{HEAD}sources: platform", "sources: 'platform' is not a list"),
        (f"{HEAD}sources: [x]", "sources[0]: 'x' is not an object"),
        (
            "apiVersion: levelgate.dev/v2\nkind: Confg\nsources: [{name: a, url: /a}]",
            "kind: 'Confg' is not one of Config",
        ),
        ("- a", "the document is a list"),
    ],
)
def test_what_is_no_configuration(tmp_path: Path, text: str, told: str) -> None:
    assert any(told in line for line in refused(tmp_path, text, head=""))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match="cannot be read: No such file or directory"):
        read_config(tmp_path / "levelgate.yaml")


@pytest.mark.parametrize("circle", [("b", "c", "a"), ("b", "a", "a")])
def test_sources_that_wait_for_each_other(tmp_path: Path, circle: tuple[str, ...]) -> None:
    text = "sources:\n" + "".join(
        f"- {{name: {name}, url: /{name}, dependsOn: [{other}]}}\n" for name, other in zip("abc", circle, strict=True)
    )
    (told,) = refused(tmp_path, text)
    assert "waits for itself: " in told


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:8480", ListenAddress("127.0.0.1", 8480)),
        ("[::1]:0", ListenAddress("::1", 0)),
        (":8480", ListenAddress("", 8480)),
        ("localhost:80", ListenAddress("localhost", 80)),
        ("off", None),
    ],
)
def test_where_it_listens(tmp_path: Path, text: str, found: ListenAddress | None) -> None:
    config = written(tmp_path, f'listen: "{text}"\nsources: [{{name: a, url: /a}}]\n')
    assert parse_address(config.listen) == found
    assert found is None or str(found) == text


@pytest.mark.parametrize(
    "text", ["8480", "127.0.0.1", "::1:8480", "a b:80", "http://127.0.0.1:80", ":65536", ":-1", "no"]
)
def test_where_it_cannot_listen(tmp_path: Path, text: str) -> None:
    (told,) = refused(tmp_path, f'listen: "{text}"\nsources: [{{name: a, url: /a}}]\n')
    assert "is not an address; write ADDR:PORT such as 127.0.0.1:8480" in told


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_for_this_machine_only(host: str) -> None:
    assert ListenAddress(host, 1).is_loopback


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example.com"])
def test_every_other_address_is_not(host: str) -> None:
    assert not ListenAddress(host, 1).is_loopback


def test_hooks_name_files_with_secrets(tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    config = written(tmp_path, "hooks: {github: {secretFile: secret}}\nsources: [{name: a, url: /a}]\n")
    assert config.hooks == {"github": tmp_path / "secret"}
    found = refused(tmp_path, "hooks: {gitlab: {secretFile: none}}\nsources: [{name: a, url: /a}]\n")
    assert found == [
        f"3: hooks.gitlab.secretFile: file {tmp_path}/none does not exist; relative paths begin at {tmp_path}"
    ]
    assert (
        "no field 'githubb'; did you mean 'github'?"
        in refused(tmp_path, "hooks: {githubb: {}}\nsources: [{name: a, url: /a}]\n")[0]
    )


@pytest.mark.parametrize("name", ["prod.eu", "Prod", "-a", "a-", "eu-*", "a" * 64])
def test_a_cluster_has_a_dns_label_as_its_name(tmp_path: Path, name: str) -> None:
    text = f"cluster: {{name: '{name}'}}\nsources:\n- name: a\n  url: https://x.example.com/a.git\n"
    assert refused(tmp_path, text) == [
        f"3: cluster.name: {name!r} cannot name a cluster; write at most 63 lowercase letters, digits and dashes, such as prod-eu"
    ]


SOURCES = "sources: [{name: platform, url: /a}]\n"


def test_a_fleet_names_the_source_of_its_clusters_and_where_credentials_are(tmp_path: Path) -> None:
    (tmp_path / "clusters").mkdir()
    text = (
        "fleet:\n  source: platform\n  directory: clusters\n  profileNamespace: inventory\n"
        "  plugins: [{name: google, command: gke-auth, arguments: [--json], environment: {HOME: /tmp}}]\n"
    )
    fleet = written(tmp_path, text + SOURCES).fleet
    plugin = CredentialPlugin("google", "gke-auth", ("--json",), {"HOME": "/tmp"})
    assert fleet == FleetConfig("platform", AccessSettings(tmp_path / "clusters", (plugin,), "inventory"))
    assert written(tmp_path, "fleet: {source: platform}\n" + SOURCES).fleet == FleetConfig(
        "platform", AccessSettings(None, (), OWN_NAMESPACE)
    )
    assert written(tmp_path, SOURCES).fleet is None


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("source: platfrom", "fleet.source: source 'platfrom' is not configured; did you mean 'platform'?"),
        ("directory: x", "fleet.source: is required"),
        (
            "source: platform, directory: none",
            "fleet.directory: directory {}/none does not exist; relative paths begin at {}",
        ),
        (
            "source: platform, kubeconfig: x",
            "fleet.kubeconfig: no field 'kubeconfig'; the fields are source, directory, profileNamespace, plugins",
        ),
        ("source: platform, plugins: [{{name: a}}]", "fleet.plugins[0].command: is required"),
        (
            "source: platform, plugins: [{{name: a, command: b}}, {{name: a, command: c}}]",
            "fleet.plugins: 2 plugins are called 'a'; rename one",
        ),
    ],
)
def test_mistakes_of_a_fleet(tmp_path: Path, fields: str, told: str) -> None:
    found = refused(tmp_path, f"fleet: {{{fields.format(tmp_path, tmp_path)}}}\n" + SOURCES)
    assert len(found) == 1
    assert told.format(tmp_path, tmp_path) in found[0]
