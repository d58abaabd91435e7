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
        ("http://[::1]x/", "invalid port"),
        ("http://[a]/", "the text in brackets is not an IPv6 address"),
        ("http://[1.2.3.4]/", "the text in brackets is not an IPv6 address"),
        ("http://[::1%eth0]/", "the text in brackets is not an IPv6 address"),
        ("http://[::1%25]/", "the zone of the address is invalid"),
        ("http://[::1%25%00]/", "the zone of the address is invalid"),
        ("http://[::1%25e%2Fh]/", "the zone of the address is invalid"),
        ("http://a[::1]/", "the host contains a ["),
        ("http://a:80:80/", "invalid port ':80:80'"),
        ("http://a%41/", "the host contains a % that escapes no letter beyond ASCII"),
        ("http://a%/", "the host contains a % that escapes no letter beyond ASCII"),
        ("http://a b/", "the host contains a forbidden character"),
        ("/%zz", "% is not followed by two hexadecimal digits"),
        ("/\x00", "it contains a control character"),
    ],
)
def test_a_text_that_is_not_a_url(text: str, reason: str) -> None:
    assert not is_url(Meter(), text)
    with pytest.raises(EvaluationError, match="is not a URL") as caught:
        url(Meter(), text)
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http://a%C3%A9%25:80/", "aé%:80"),
        ("http://[fe80::1%25eth%200]:80/", "[fe80::1%eth 0]:80"),
        ("http://[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]"),
        ("postgres://a:1,b:2/", "a:1,b:2"),
        ("http://:80/", ":80"),
    ],
)
def test_a_host_is_unescaped(text: str, host: str) -> None:
    assert url(Meter(), text).host == host


def test_a_query_keeps_all_values_and_leaves_malformed_pairs_out() -> None:
    assert get_query(Meter(), url(Meter(), "/?k=1&k=a+b&x&bad=%z&s;t")) == {"k": ["1", "a b"], "x": [""]}
