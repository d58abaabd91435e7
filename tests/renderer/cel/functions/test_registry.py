"""The table of functions, filled by the signatures that libraries declare."""

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import NoOverloadError
from renderer.cel.functions.registry import FUNCTIONS, overload
from renderer.cel.values import UInt


def test_a_call_picks_the_overload_by_the_types_of_its_operands() -> None:
    absolute = FUNCTIONS["math.abs", False]
    assert absolute(Meter(), -1) == 1
    assert type(absolute(Meter(), UInt(1))) is UInt
    assert absolute.unary(Meter(), -1.5) == 1.5
    with pytest.raises(NoOverloadError, match=r"no such overload: math\.abs\(string\)"):
        absolute(Meter(), "1")


def test_a_method_counts_its_target_among_its_operands() -> None:
    split = FUNCTIONS["split", True]
    assert split.arities == {2, 3}
    assert split.format_call("string", "int") == "string.split(int)"
    assert not split.returns_bool
    assert FUNCTIONS["startsWith", True].returns_bool


def test_a_qualifier_that_is_a_type_may_be_part_of_a_name() -> None:
    assert ("ip.isCanonical", False) in FUNCTIONS
    assert ("family", True) in FUNCTIONS


@pytest.mark.parametrize("signature", ["nosuch", "a(nosuch): int", "a(int) int"])
def test_a_wrong_signature_is_refused(signature: str) -> None:
    with pytest.raises(ValueError, match="signature"):
        overload(signature)(str)
