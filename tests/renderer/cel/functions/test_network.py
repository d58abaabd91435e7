"""IP addresses and CIDR ranges, read as Go reads them."""

import pytest

from renderer.cel.errors import EvaluationError
from renderer.cel.functions.network import cidr, contains_cidr, contains_ip, ip, is_canonical, is_global_unicast


@pytest.mark.parametrize("text", ["10.0.0.256", "010.0.0.1", "fe80::1%eth0", "::ffff:10.0.0.1", "", "10.0.0.1/8"])
def test_a_text_that_go_refuses_is_not_an_address(text: str) -> None:
    with pytest.raises(EvaluationError, match="is not an IP address; write an address"):
        ip(text)


@pytest.mark.parametrize("text", ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "/8"])
def test_a_text_that_is_not_a_range(text: str) -> None:
    with pytest.raises(EvaluationError, match="is not a CIDR range; write a range"):
        cidr(text)


def test_a_range_covers_addresses_and_smaller_ranges_of_its_family() -> None:
    range_ = cidr("10.1.2.3/8")
    assert contains_ip(range_, "10.255.0.1")
    assert not contains_ip(range_, "11.0.0.1")
    assert not contains_ip(range_, "::1")
    assert contains_cidr(range_, "10.1.0.0/16")
    assert not contains_cidr(range_, "0.0.0.0/0")


def test_private_addresses_are_global_in_the_sense_of_go() -> None:
    assert is_global_unicast(ip("10.0.0.1"))
    assert not is_global_unicast(ip("255.255.255.255"))
    assert not is_global_unicast(ip("127.0.0.1"))
    assert is_canonical("2001:db8::1")
    assert not is_canonical("2001:DB8::1")
