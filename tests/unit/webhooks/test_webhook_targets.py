"""Where deliveries may go."""

import ipaddress

import pytest

from antiphon.webhooks.targets import Policy, Target, embedded, parse_url, read_networks, shown


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "10.0.0.1",
        "172.16.5.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "240.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "::1",
        "::",
        "fe80::1",
        "fec0::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:0a00:0001::1",
    ],
)
def test_what_is_not_public_is_not_allowed_however_it_is_written(address: str) -> None:
    assert not Policy().allows(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::101:101"])
def test_what_is_public_is_allowed(address: str) -> None:
    assert Policy().allows(ipaddress.ip_address(address))


def test_what_the_configuration_names_is_allowed_and_nothing_beside_it() -> None:
    policy = Policy(networks=read_networks(("10.1.0.0/16", "127.0.0.1", "fd00::/8")))

    for address in ("10.1.2.3", "127.0.0.1", "fd12::1", "::ffff:10.1.2.3", "1.1.1.1"):
        assert policy.allows(ipaddress.ip_address(address)), address
    for address in ("10.2.0.1", "127.0.0.2", "fe80::1", "169.254.169.254"):
        assert not policy.allows(ipaddress.ip_address(address)), address


def test_plain_http_is_refused_unless_it_is_allowed() -> None:
    target = parse_url("http://example.com/x")

    assert "allow_http" in (Policy().refusal_of(target) or "")
    assert Policy(http=True).refusal_of(target) is None


def test_an_address_in_a_url_is_judged_at_once_and_a_name_when_it_is_looked_up() -> None:
    assert "allowed_networks" in (Policy().refusal_of(parse_url("https://127.0.0.1/")) or "")
    assert "allowed_networks" in (Policy().refusal_of(parse_url("https://[::1]:8443/")) or "")
    assert Policy().refusal_of(parse_url("https://localhost/")) is None


def test_a_url_is_taken_apart() -> None:
    assert parse_url("https://Example.com") == Target("https", "example.com", 443, "/")
    assert parse_url("http://example.com:8080/a%20b?c=d&e") == Target("http", "example.com", 8080, "/a%20b?c=d&e")
    ipv6 = parse_url("https://[2606:4700::1]:8443/x")
    assert (ipv6.origin, ipv6.authority) == ("https://[2606:4700::1]:8443", "[2606:4700::1]:8443")
    assert parse_url("https://example.com/x").authority == "example.com"
    assert parse_url("https://example.com/x").origin == "https://example.com:443"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://example.com/",
        "https://",
        "https:///x",
        "https://user:pass@example.com/",
        "https://@example.com/",
        "https://example.com/#part",
        "https://example.com/a b",
        "https://example.com/\r\nhost: evil",
        "https://example.com:99999/",
        "https://example.com:x/",
        "https://exämple.com/",
        "https://[::1/",
        "https://exa%6dple.com/",
        "https://example.com/" + "x" * 2048,
    ],
)
def test_what_is_no_target_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|host") as refused:
        parse_url(url)
    assert len(url) < 9 or url not in str(refused.value)


def test_what_stands_behind_a_question_mark_is_not_shown() -> None:
    assert shown("https://example.com/hook?token=secret") == "https://example.com/hook?…"
    assert shown("https://example.com/hook") == "https://example.com/hook"


def test_an_address_within_an_address_is_found() -> None:
    assert str(embedded(ipaddress.ip_address("::ffff:1.2.3.4"))) == "1.2.3.4"
    assert embedded(ipaddress.ip_address("1.2.3.4")) is None
    assert embedded(ipaddress.ip_address("2606:4700::1")) is None
