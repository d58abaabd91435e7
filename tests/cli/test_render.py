"""`levelgate render`: the stable JSON, YAML that can be applied, folders, and what a person reads (docs/reference.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitops.cli import invoke
from renderer.identity import ObjectKey, applyset_id
from tests.support.properties.repositories import GROUP, UNREADABLE, config_map, definition, instance, plain


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    waiting = config_map("w", "a")
    waiting["template"]["data"]["host"] = "${a.metadata.annotations.host}"
    nodes = [config_map("a"), config_map("b", "a"), waiting, config_map("out", includeWhen=["${schema.spec.on}"])]
    given = {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}}
    folder = tmp_path / "platform"
    folder.mkdir()
    for name, text in {
        "link.json": definition("Link", [*nodes, given]),
        "z.json": instance("Link", "z", on=False),
        "x.json": instance("Link", "x"),
        "p.json": plain("p", "q"),
        "q.json": plain("q"),
    }.items():
        (folder / name).write_text(text)
    return folder


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert invoke(["render", *arguments]) == code
    return capsys.readouterr().out


def test_json_has_one_entry_for_each_item_of_a_collection(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    many = config_map("many", name="m-${n}", forEach=[{"n": "${['a', 'b']}"}])
    reader = config_map("reader")
    reader["template"]["data"] = {"all": "${many.map(m, m.metadata.name).join(' ')}"}
    same = config_map("same", name="s", forEach=[{"n": "${['a', 'b']}"}])
    same["template"]["metadata"]["namespace"] = "${n == 'a' ? 'x' : 'x'}"
    (tmp_path / "l.yaml").write_text(definition("Link", [many, reader, same]))
    (tmp_path / "x.yaml").write_text(instance("Link", "x"))
    (one,) = json.loads(printed(capsys, str(tmp_path), "-o", "json"))["instances"]
    found = {node["id"]: node for level in one["levels"] for node in level}
    assert found.keys() == {"many/0", "many/1", "reader", "same/0", "same/1"}
    assert found["reader"]["dependsOn"] == ["many/0", "many/1"]
    assert found["reader"]["manifest"]["data"] == {"all": "m-a m-b"}
    assert [error["id"] for error in one["errors"]] == ["same/0", "same/1"]


def test_json_has_its_stable_shape(capsys: pytest.CaptureFixture[str], repository: Path) -> None:
    found = json.loads(printed(capsys, str(repository), "-o", "json"))
    assert found.keys() == {"revision", "instances", "objects", "problems"}
    assert [one["instance"]["name"] for one in found["instances"]] == ["x", "z"]
    one = found["instances"][1]
    assert one.keys() == {"instance", "applyset", "levels", "waiting", "errors", "excluded"}
    assert one["instance"] == {"apiVersion": f"{GROUP}/v1", "kind": "Link", "namespace": "default", "name": "z"}
    assert one["applyset"] == applyset_id(ObjectKey(GROUP, "Link", "default", "z"))
    assert [[(node["id"], node["dependsOn"]) for node in level] for level in one["levels"]] == [
        [("a", [])],
        [("b", ["a"]), ("w", ["a"])],
    ]
    assert one["levels"][0][0]["manifest"]["metadata"] == {"name": "z-a", "namespace": "default"}
    assert {"id": "w", "for": "a.metadata.annotations.host"} in one["waiting"]
    assert one["excluded"] == [{"id": "out", "because": "${schema.spec.on} is false"}]
    assert [[node["manifest"]["kind"] for node in level] for level in found["objects"]["levels"]] == [
        ["ConfigMap", "CustomResourceDefinition"],
        ["ConfigMap", "Link", "Link"],
    ]
    assert found["problems"] == []


def test_instances_come_by_kind_namespace_and_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(definition("Beta", [config_map("a")]))
    (tmp_path / "a.json").write_text(definition("Alpha", [config_map("a")]))
    for index, (kind, namespace, name) in enumerate(
        [("Beta", "a", "a"), ("Alpha", "z", "a"), ("Alpha", "a", "z"), ("Alpha", "a", "b")]
    ):
        (tmp_path / f"{index}.json").write_text(instance(kind, name).replace('"default"', f'"{namespace}"'))
    found = json.loads(printed(capsys, str(tmp_path), "-o", "json"))
    assert [tuple(one["instance"][part] for part in ("kind", "namespace", "name")) for one in found["instances"]] == [
        ("Alpha", "a", "b"),
        ("Alpha", "a", "z"),
        ("Alpha", "z", "a"),
        ("Beta", "a", "a"),
    ]


def test_problems_are_told_by_file_line_and_path_and_exit_1(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    (repository / "broken.yaml").write_text(UNREADABLE)
    (repository / "y.json").write_text(instance("Link", "y", txt="a"))
    found = json.loads(printed(capsys, str(repository), "-o", "json", code=1))
    assert [(problem["file"], problem["path"]) for problem in found["problems"]] == [
        ("broken.yaml", ""),
        ("y.json", "spec.txt"),
    ]
    assert all(problem.keys() == {"file", "line", "path", "message"} for problem in found["problems"])
    assert len(found["instances"]) == 3


def test_yaml_holds_everything_that_can_be_written_in_an_order_to_apply_it(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    names = [value["metadata"]["name"] for value in yaml.safe_load_all(printed(capsys, str(repository), "-o", "yaml"))]
    assert names.index("q") < names.index("p")
    assert names.index(f"links.{GROUP}") < names.index("x") < names.index("x-a") < names.index("x-b")
    assert "x-w" not in names
    assert "s" not in names


def test_a_table_names_what_waits_is_read_and_is_left_out(capsys: pytest.CaptureFixture[str], repository: Path) -> None:
    out = printed(capsys, str(repository))
    for part in (
        "Link default/z",
        "waits for a.metadata.annotations.host",
        "excluded: ${schema.spec.on} is false",
        "Secret/s",
    ):
        assert part in out


def test_output_dir_has_a_folder_for_each_instance_and_a_file_for_each_level(
    capsys: pytest.CaptureFixture[str], repository: Path, tmp_path: Path
) -> None:
    printed(capsys, str(repository), "--output-dir", str(tmp_path / "out"))
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.yaml")}
    assert written == {
        "objects/level-0.yaml",
        "objects/level-1.yaml",
        *(f"Link.g.test/default/{name}/{part}.yaml" for name in "xz" for part in ("parent", "level-0", "level-1")),
    }
    level = (tmp_path / "out/Link.g.test/default/z/level-1.yaml").read_text()
    assert [value["metadata"]["name"] for value in yaml.safe_load_all(level)] == ["z-b"]


def test_rendering_twice_prints_the_same_bytes(capsys: pytest.CaptureFixture[str], repository: Path) -> None:
    """I7 offline."""
    assert printed(capsys, str(repository), "-o", "json") == printed(capsys, str(repository), "-o", "json")


def test_an_empty_directory_is_empty_and_no_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found: Any = json.loads(printed(capsys, str(tmp_path), "-o", "json"))
    assert (found["instances"], found["problems"]) == ([], [])


def test_output_dir_keeps_kinds_of_two_groups_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "platform"
    folder.mkdir()
    for group in ("g.test", "h.test"):
        text = definition("Link", [config_map("a", name=group)]).replace("g.test", group)
        (folder / f"{group}.json").write_text(text)
        (folder / f"x.{group}.json").write_text(instance("Link", "x").replace("g.test", group))
    printed(capsys, str(folder), "--output-dir", str(tmp_path / "out"))
    text = "".join(path.read_text() for path in (tmp_path / "out").glob("Link*/**/*.yaml"))
    assert "g.test" in text
    assert "h.test" in text


def test_output_dir_does_not_keep_what_is_rendered_no_more(
    capsys: pytest.CaptureFixture[str], repository: Path, tmp_path: Path
) -> None:
    printed(capsys, str(repository), "--output-dir", str(tmp_path / "out"))
    (repository / "z.json").unlink()
    printed(capsys, str(repository), "--output-dir", str(tmp_path / "out"))
    assert not list((tmp_path / "out/Link.g.test/default").glob("z/*.yaml"))


def test_long_ids_of_nodes_move_what_stands_beside_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nodes = [config_map("a", name="one"), config_map("configurationOfTheStore", name="two")]
    (tmp_path / "link.json").write_text(definition("Link", nodes))
    (tmp_path / "x.json").write_text(instance("Link", "x"))
    rows = [line for line in printed(capsys, str(tmp_path)).splitlines() if "ConfigMap/" in line]
    assert len({row.index("ConfigMap/") for row in rows}) == 1
