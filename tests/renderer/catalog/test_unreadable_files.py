"""Objects that stood in files that cannot be read are not removed from Git."""

import pytest

from renderer.catalog.unreadable_files import UnreadableFiles


@pytest.mark.parametrize(
    ("file", "unreadable", "protected"),
    [
        ("a.yaml", {"a.yaml"}, True),
        ("a.yaml", {"b.yaml"}, False),
        ("moved.yaml", {"b.yaml"}, True),
        ("moved.yaml", set(), False),
    ],
)
def test_an_object_is_kept_where_its_file_may_still_declare_it(
    file: str, unreadable: set[str], protected: bool
) -> None:
    assert UnreadableFiles({"a.yaml", "b.yaml"}, unreadable).protects(file) is protected
