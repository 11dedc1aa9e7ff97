"""How programs that speak ACP are pointed to a model server on this machine, by variables of their environment."""

from pathlib import Path
from typing import Any

import msgspec

from antiphon.agents.loopback import MODEL


def variables(model_url: str) -> dict[str, str]:
    """For opencode, claude-agent-acp, and what goes by the usual variables of OpenAI's and Anthropic's libraries.

    No program minds the variables of another, so nobody need know which one it is.
    """
    return {
        "OPENAI_BASE_URL": f"{model_url}/v1",
        "OPENAI_API_KEY": "not a key",
        "OPENAI_MODEL": MODEL,
        "ANTHROPIC_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": "not a key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "IS_SANDBOX": "1",
        "OPENCODE_CONFIG_CONTENT": msgspec.json.encode(opencode(model_url)).decode(),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


def furnish(home: Path) -> None:
    """Write into a home what keeps opencode from npm: when it starts it installs a package beside its configuration,
    unless that looks as if it were there.

    Source: `Npm.install` in opencode 1.18.
    """
    settings = home / ".config" / "opencode"
    (settings / "node_modules").mkdir(parents=True, exist_ok=True)
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    (settings / "package-lock.json").write_bytes(msgspec.json.encode(lock))


def opencode(model_url: str, permission: str = "allow") -> dict[str, Any]:
    """A configuration of opencode that reaches nothing but the model server; `permission` is `allow` or `ask`."""
    return {
        "autoupdate": False,
        "share": "disabled",
        "model": f"loopback/{MODEL}",
        "small_model": f"loopback/{MODEL}",
        "enabled_providers": ["loopback"],
        "provider": {
            "loopback": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "loopback",
                "options": {"baseURL": f"{model_url}/v1", "apiKey": "not a key"},
                "models": {MODEL: {"name": MODEL}},
            }
        },
        "permission": {"bash": permission, "edit": permission},
    }
