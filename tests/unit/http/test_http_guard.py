"""Who may come in."""

import pytest

from antiphon.http.guard import Hosts, is_loopback


@pytest.mark.parametrize("host", ["localhost", "app.localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_what_stays_on_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "evil.example", "127.1"])
def test_all_else_is_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("authority", "allowed"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("localhost.:80", True),
        ("127.0.0.1:1", True),
        ("[::1]:8080", True),
        ("proxy.example", True),
        ("Proxy.Example:443", True),
        ("other.example", False),
        ("10.0.0.1", False),
        ("", False),
        (":80", False),
        ("localhost:80:80", False),
        ("localhost@evil.example", False),
        ("evil.example/localhost", False),
        ("[::1", False),
        ("::1", False),
    ],
)
def test_a_host_bound_to_loopback_is_known_by_loopback_and_configured_names(authority: str, allowed: bool) -> None:
    hosts = Hosts("127.0.0.1", ("proxy.example:8443",))
    assert hosts.allow(authority) is allowed
    assert hosts.allow(authority) is allowed


def test_a_host_open_to_the_network_is_known_by_any_address_but_by_no_name() -> None:
    hosts = Hosts("0.0.0.0", ())
    assert hosts.allow("10.0.0.1:80")
    assert hosts.allow("[fe80::1]:80")
    assert not hosts.allow("evil.example")
    assert not hosts.allow("")


def test_a_host_bound_to_a_name_is_known_by_it() -> None:
    assert Hosts("box.example", ()).allow("box.example:80")


def test_what_is_remembered_is_bounded() -> None:
    hosts = Hosts("127.0.0.1", ())
    assert all(hosts.allow(f"localhost:{port}") for port in range(1000))
    assert len(hosts._known) <= 64
