"""What a configuration says of agents: what is common to all, profiles, and what the environment says of both."""

from pathlib import Path

import pytest

from antiphon.config import Config, ConfigError, read_config
from antiphon.host.policy import own_environment
from antiphon.overrides import overridden

TOML = """
[agents.claude]
model = "opus"
memory_mb = 2048
allow_tools = ["Read"]
inherit = ["ANTHROPIC_API_KEY", "NOT_SET"]
home = "/srv/claude"
[agents.claude.environment]
A = "1"
[agents.claude.profiles.fast]
model = "haiku"
[agents.claude.profiles.fast.environment]
B = "2"
"""


def read(tmp_path: Path, text: str = TOML, **environment: str) -> Config:
    (tmp_path / "antiphon.toml").write_text(text)
    return read_config(tmp_path / "antiphon.toml", required=True, environment=environment)


def test_what_every_agent_may_be_set_to_is_kept_from_its_adapter(tmp_path: Path) -> None:
    table = read(tmp_path).agents["claude"]
    assert table.options == {"home": "/srv/claude", "environment": {"A": "1"}}
    assert (table.adapter, table.settings.model, table.settings.memory_mb) == ("claude", "opus", 2048)


def test_a_profile_is_an_agent_with_what_its_table_changes(tmp_path: Path) -> None:
    table = read(tmp_path).agents["claude:fast"]
    assert table.options == {"home": "/srv/claude", "environment": {"A": "1", "B": "2"}}
    assert (table.adapter, table.settings.model, table.settings.memory_mb) == ("claude", "haiku", 2048)
    assert table.profile_of == "claude"


def test_an_agent_inherits_what_it_is_told_to_and_has_its_limit(tmp_path: Path) -> None:
    settings = read(tmp_path).settings({"ANTHROPIC_API_KEY": "k", "OTHER": "o"})
    assert own_environment("claude", settings) == {"ANTHROPIC_API_KEY": "k", "AGENT_MEMORY_MB": "2048"}
    assert own_environment("echo", settings) == {}


@pytest.mark.parametrize(
    ("name", "value", "path", "expected"),
    [
        ("ANTIPHON__HOST__MAX_AGENTS", "3", ("host", "max_agents"), 3),
        ("ANTIPHON__AGENTS__CLAUDE__MODEL", "opus", ("agents", "claude", "model"), "opus"),
        ("ANTIPHON__AGENTS__MY_AGENT__COMMAND", '["a", "b"]', ("agents", "my-agent", "command"), ["a", "b"]),
        ("ANTIPHON__AGENTS__NEW__ADAPTER", "echo", ("agents", "new", "adapter"), "echo"),
        ("ANTIPHON__AGENTS__CLAUDE__ENVIRONMENT__Key", "v", ("agents", "claude", "environment", "Key"), "v"),
        ("ANTIPHON__HOST__ECHO", "false", ("host", "echo"), False),
    ],
)
def test_the_environment_wins(name: str, value: str, path: tuple[str, ...], expected: object) -> None:
    document = {"host": {"max_agents": 1}, "agents": {"my-agent": {"adapter": "command"}}}
    found: object = overridden(document, {name: value, "ANTIPHON_URL": "http://x"})
    for key in path:
        assert isinstance(found, dict)
        found = found[key]
    assert found == expected
    assert document == {"host": {"max_agents": 1}, "agents": {"my-agent": {"adapter": "command"}}}


def test_the_environment_alone_makes_a_configuration(tmp_path: Path) -> None:
    environment = {"ANTIPHON__AGENTS__GREP__ADAPTER": "command", "ANTIPHON__AGENTS__GREP__COMMAND": '["grep", "x"]'}
    config = read_config(tmp_path / "none.toml", required=False, environment=environment)
    assert config.agents["grep"].options == {"command": ["grep", "x"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[agents.a]\nadapter = 3", "agents.a.adapter"),
        ("[agents]\na = 3", "agents.a must be a table"),
        ("[agents.a]\nmemory_mb = -1", "agents.a.memory_mb"),
        ('[agents.a]\nmemory_mb = "much"', "agents.a: .*memory_mb"),
        ("[agents.a]\noutput_mb = 0", "agents.a.output_mb"),
        ("[agents.a]\nstall_after_s = nan", "agents.a.stall_after_s"),
        ('[agents.a]\npermission_default = "ask"', "agents.a.permission_default"),
        ('[agents.a]\nallow_tools = "Read"', "agents.a: .*allow_tools"),
        ("[agents.a]\nprofiles = 1", "agents.a.profiles"),
        ("[agents.a.profiles]\nb = 1", "agents.a.profiles.b must be a table"),
        ("[host]\nmemory_mb = -1", "host.memory_mb"),
        ("[host]\noutput_mb = 0", "host.output_mb"),
        ("[host]\nend_stalled_after_s = -1", "host.end_stalled_after_s"),
    ],
)
def test_what_can_not_be_used_is_told_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        read(tmp_path, text)
