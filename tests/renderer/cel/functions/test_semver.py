"""Semantic versions."""

import pytest

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.semver import is_semver, semver

IN_ORDER = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0", "1.10.0"]


def test_versions_have_the_order_of_the_specification() -> None:
    assert sorted(sorted(IN_ORDER), key=lambda text: semver(text).sort_key) == IN_ORDER


def test_build_metadata_is_ignored() -> None:
    assert semver("1.0.0+a") == semver("1.0.0+b")


@pytest.mark.parametrize("text", ["v1.2", "01.2.3", "1.2", "1.2.3.4", "1.2.3-"])
def test_a_text_that_is_not_a_version(text: str) -> None:
    assert not is_semver(text)
    with pytest.raises(EvaluationError, match=r"semver\(text, true\) also reads v1\.2"):
        semver(text)


def test_a_lenient_form_can_be_read() -> None:
    assert semver("v1.02", True) == semver("1.2.0")
    assert not is_semver("x", True)
