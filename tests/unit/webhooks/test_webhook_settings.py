"""The configuration of webhooks."""

import ipaddress
from pathlib import Path

import pytest

from antiphon.config import ConfigError, read_config


def read(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "antiphon.toml"
    file.write_text(text)
    return file


def test_nothing_private_and_no_plain_http_unless_it_is_said(tmp_path: Path) -> None:
    table = read_config(read(tmp_path, ""), required=True, environment={}).webhooks

    assert (table.policy.networks, table.policy.http) == ((), False)
    assert (table.settings.pace.give_up_s, table.settings.claim_s > table.timeout_s) == (86400.0, True)


def test_what_is_said_holds_also_from_the_environment(tmp_path: Path) -> None:
    file = read(tmp_path, '[webhooks]\nallowed_networks = ["10.1.0.0/16", "127.0.0.1"]\ntimeout_s = 3\n')
    environment = {"ANTIPHON__WEBHOOKS__ALLOW_HTTP": "true"}
    table = read_config(file, required=True, environment=environment).webhooks

    assert table.policy.http
    assert table.policy.allows(ipaddress.ip_address("10.1.2.3"))
    assert table.timeout_s == 3


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('allowed_networks = ["10.0.0.1/8"]', "allowed_networks"),
        ('allowed_networks = ["example.com"]', "allowed_networks"),
        ("timeout_s = 0", "timeout_s"),
        ("give_up_after_s = nan", "give_up_after_s"),
        ('timeout_s = "3"', "timeout_s"),
        ("nonsense = 1", "nonsense"),
    ],
)
def test_what_can_not_be_meant_is_told(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_config(read(tmp_path, f"[webhooks]\n{line}\n"), required=True, environment={})
