"""From what a person names to sources (docs/reference.md): names, URLs, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitops import source_config
from gitops.errors import SourceError
from gitops.source import locations


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("platform=https://git.example.com/shop/deploy.git", "platform"),
        ("https://git.example.com/shop/deploy.git", "deploy"),
        ("https://git.example.com/shop/Deploy/", "deploy"),
        ("https://git.example.com/shop/My_Repo.git", "my-repo"),
        ("git@git.example.com:Team.Apps.git", "team-apps"),
        ("https://git.example.com/a--b.git", "a--b"),
        (f"/srv/{'A' * 51}_b", "a" * 51),
        ("/srv/___", None),
        ("https://git.example.com/deploy.git?x=y", None),
    ],
)
def test_the_name_of_a_source_is_given_or_the_last_segment_of_its_url(text: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(SourceError):
            source_config.parse_source(text)
    else:
        assert source_config.parse_source(text).name == name


def test_a_path_is_made_absolute_and_named_by_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "platform").mkdir()
    monkeypatch.chdir(tmp_path / "platform")
    found = source_config.parse_source(".")
    assert found.name == "platform"
    assert str(tmp_path) in str(found.target)


@pytest.mark.parametrize("name", ["Bad", "-a", "a_b", "a b", "x" * 60])
def test_a_name_that_cannot_be_one_is_told_with_what_to_write(name: str) -> None:
    with pytest.raises(SourceError, match="write NAME=URL"):
        source_config.parse_source(f"{name}=https://git.example.com/x.git")


def test_two_sources_of_one_name_are_told() -> None:
    one, other = (source_config.parse_source(f"https://{host}.example.com/platform.git") for host in "ab")
    told = "two sources are called 'platform'; the other is https://a.example.com/platform.git"
    with pytest.raises(SourceError, match=told):
        source_config.create_mirrors([one, other], lambda: False)
    derived = [source_config.parse_source(f"/srv/{place}") for place in ("a/My_Repo", "b/my.repo")]
    with pytest.raises(SourceError, match="two sources are called 'my-repo'"):
        source_config.create_mirrors(derived, lambda: False)


def test_a_directory_is_read_as_it_lies(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    (tmp_path / "broken.yaml").write_text("a: [")
    catalog = source_config.load_catalog(locations.read_location(str(tmp_path)), source="platform")
    assert [item.manifest["metadata"]["name"] for item in catalog.objects] == ["a"]
    assert catalog.unreadable_files == {"broken.yaml"}
    assert catalog.source == "platform"


def test_a_place_that_does_not_exist_is_told() -> None:
    with pytest.raises(SourceError, match="does not exist"):
        locations.read_location("/no/such/place")


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("/srv/My_Apps.2", "my-apps-2"),
        ("/srv/platform", "platform"),
        ("https://git.example.com/shop/The%20Shop.git", "the-20shop"),
        ("/srv/___", "source"),
        (f"/srv/{'a' * 51}_b", "a" * 51),
    ],
)
def test_what_is_only_looked_at_gets_a_name_that_can_be_one(place: str, name: str) -> None:
    assert source_config.derive_name(place) == name
    assert source_config.parse_source(f"{name}={place}").name == name
