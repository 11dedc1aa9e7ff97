"""What a host's configuration may say."""

from pathlib import Path

import pytest

from antiphon.config import ConfigError, read_config

DURATIONS = (
    "agent_idle_s",
    "open_timeout_s",
    "cancel_grace_s",
    "close_patience_s",
    "drain_s",
    "stall_after_s",
    "permission_deadline_s",
)


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("value", ["-1", "-0.5", "nan", "inf"])
def test_a_duration_that_is_none_is_refused_by_its_name(name: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(f"[host]\n{name} = {value}\n")
    with pytest.raises(ConfigError, match=rf"host\.{name} must be a number of seconds"):
        read_config(path, required=True)


@pytest.mark.parametrize("name", ["queue_max", "max_sessions"])
def test_a_negative_number_of_things_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(f"[host]\n{name} = -1\n")
    with pytest.raises(ConfigError, match=rf"host\.{name} must be at least"):
        read_config(path, required=True)


def test_a_duration_may_be_nought_and_a_whole_number(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text("[host]\ndrain_s = 0\ncancel_grace_s = 2\n")
    config = read_config(path, required=True)
    assert (config.host.drain_s, config.host.cancel_grace_s) == (0, 2)
