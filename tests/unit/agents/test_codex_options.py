import os
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.codex import CodexAgent
from antiphon.agents.codex import options as codex_options
from antiphon.agents.codex.options import INSTALL, BadOptions, CodexOptions


def test_a_table_may_be_empty() -> None:
    assert CodexOptions.read({}) == CodexOptions()


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"comand": "codex"}, "comand"),
        ({"sandbox": "none"}, "sandbox"),
        ({"approval_policy": "ask"}, "approval_policy"),
        ({"environment": {"A": 1}}, "environment"),
    ],
)
def test_a_wrong_table_is_refused_and_the_fault_is_named(table: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOptions, match=named):
        CodexAgent("codex", table)


@pytest.mark.parametrize("command", [sys.executable, [sys.executable, "-m", "x"]])
def test_a_configured_command_is_used_as_it_is(command: Any) -> None:
    words = [command] if isinstance(command, str) else command
    assert CodexOptions(command=command).arguments() == [*words, "app-server"]


def test_the_configuration_becomes_overrides_in_toml() -> None:
    config = {"model": 'a "b"', "features": {"plugins": False}, "a": {"b": {"c": [1, 2]}}, "x.y": 1.5}
    words = CodexOptions(command=sys.executable, config=config).arguments()
    assert words[2:] == [
        *("-c", 'model="a \\"b\\""'),
        *("-c", "features.plugins=false"),
        *("-c", "a.b.c=[1,2]"),
        *("-c", "x.y=1.5"),
    ]


@pytest.mark.parametrize("value", [None, [{"a": 1}], [["a"]]])
def test_a_value_that_is_no_plain_toml_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(BadOptions, match=r"config\.a\.b"):
        CodexOptions(command=sys.executable, config={"a": {"b": value}}).arguments()


def test_the_environment_is_what_the_host_gives_and_the_options_add(tmp_path: Path) -> None:
    options = CodexOptions(command="codex", home=str(tmp_path), environment={"KEY": "value", "LANG": "C"})
    variables = options.variables({"PATH": "/bin", "LANG": "de"})
    assert variables == {"PATH": "/bin", "LANG": "C", "KEY": "value", "CODEX_HOME": str(tmp_path)}


def test_without_a_home_codex_uses_the_persons_own() -> None:
    assert "CODEX_HOME" not in CodexOptions(command="codex").variables({"HOME": "/home/ada"})


def test_the_tools_beside_the_installed_codex_are_on_its_path() -> None:
    pytest.importorskip("codex_cli_bin", reason="pip install 'antiphon[codex]'")
    first, *others = CodexOptions().variables({"PATH": "/bin"})["PATH"].split(os.pathsep)
    assert (Path(first).is_dir(), others) == (True, ["/bin"])


def without_package(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(codex_options, "_bundled", lambda _: None)
    monkeypatch.setenv("PATH", path)


def test_codex_on_the_path_is_found_when_the_package_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    without_package(monkeypatch, str(tmp_path))
    assert CodexOptions().arguments() == [str(program), "app-server"]


async def test_a_codex_that_is_not_installed_is_missing_and_how_to_get_it_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_package(monkeypatch, str(tmp_path))
    assert await CodexAgent("codex", {}).missing() == INSTALL
    assert "pip install 'antiphon[codex]'" in INSTALL
