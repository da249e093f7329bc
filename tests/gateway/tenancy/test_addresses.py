"""The address that IP rules look at."""

import pytest

from gateway.tenancy.addresses import client_address, is_allowed, parse_networks

PROXIES = parse_networks(["10.0.0.0/8", "2001:db8::/32"])


@pytest.mark.parametrize(
    ("peer", "header", "expected"),
    [
        ("198.51.100.7", None, "198.51.100.7"),
        ("198.51.100.7", "203.0.113.9", "198.51.100.7"),  # not a proxy: its header is a claim
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "1.2.3.4, 203.0.113.9", "203.0.113.9"),  # the left part was sent by the caller
        ("10.0.0.1", "1.2.3.4, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "nonsense, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("2001:db8::1", "2001:db9::5", "2001:db9::5"),
        (None, "203.0.113.9", None),
    ],
)
def test_rightmost_untrusted_address(peer: str | None, header: str | None, expected: str | None) -> None:
    assert client_address(peer, header, PROXIES) == expected


def test_header_is_ignored_without_trusted_proxies() -> None:
    assert client_address("10.0.0.1", "203.0.113.9", ()) == "10.0.0.1"


def test_allow_list() -> None:
    allowed = parse_networks(["203.0.113.0/24", "2001:db9::7"])
    assert is_allowed("203.0.113.200", allowed)
    assert is_allowed("::ffff:203.0.113.200", allowed)
    assert is_allowed("2001:db9::7", allowed)
    assert not is_allowed("203.0.114.1", allowed)
    assert not is_allowed(None, allowed)
    assert is_allowed(None, ())


def test_rule_that_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError, match="example"):
        parse_networks(["example.org"])
