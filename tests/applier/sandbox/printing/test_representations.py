"""Shapes that a client may ask for."""

from __future__ import annotations

import pytest

from applier.sandbox.printing.representations import negotiate_shape
from applier.sandbox.wire import Refusal

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("accept", "is_list", "shape"),
    [
        ("", True, "whole"),
        ("application/json", False, "whole"),
        (TABLE, True, "table"),
        ("application/yaml,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", False, "metadata"),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", True, "metadata"),
    ],
)
def test_the_first_shape_that_can_be_served(accept: str, is_list: bool, shape: str) -> None:
    assert negotiate_shape(accept, is_list=is_list) == shape


@pytest.mark.parametrize(
    ("accept", "is_list"), [("application/yaml", True), ("application/json;as=PartialObjectMetadata", True)]
)
def test_a_shape_that_is_refused(accept: str, is_list: bool) -> None:
    with pytest.raises(Refusal) as refusal:
        negotiate_shape(accept, is_list=is_list)
    assert refusal.value.code == 406
