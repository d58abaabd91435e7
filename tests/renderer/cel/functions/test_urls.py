"""URLs, read as Go's net/url reads them."""

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import EvaluationError
from renderer.cel.functions.urls import get_query, is_url, url


def test_the_parts_of_a_url() -> None:
    parsed = url(Meter(), "https://ada@[::1]:80/a b?k=1#f")
    assert (parsed.scheme, parsed.user, parsed.host) == ("https", "ada", "[::1]:80")
    assert (parsed.path, parsed.query, parsed.fragment) == ("/a%20b", "k=1", "f")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("a/b", "it is not absolute and does not begin with /"),
        ("http://a:b/", "invalid port"),
        ("http://[::1/", "the ] of the address is missing"),
        ("/%zz", "% is not followed by two hexadecimal digits"),
        ("/\x00", "it contains a control character"),
    ],
)
def test_a_text_that_is_not_a_url(text: str, reason: str) -> None:
    assert not is_url(Meter(), text)
    with pytest.raises(EvaluationError, match="is not a URL") as caught:
        url(Meter(), text)
    assert reason in caught.value.message


def test_a_query_keeps_all_values_and_leaves_malformed_pairs_out() -> None:
    assert get_query(Meter(), url(Meter(), "/?k=1&k=a+b&x&bad=%z&s;t")) == {"k": ["1", "a b"], "x": [""]}
