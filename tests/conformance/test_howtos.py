"""The how-tos for authors of stores and agents work as they are written."""

import os
import sys
from pathlib import Path

import pytest

from e2e.console import carry_out

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"


@pytest.mark.parametrize("page", ["write-a-store.md", "write-an-adapter.md"])
def test_an_example_passes_the_contract_suite(page: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}

    assert carry_out(HOW_TO / page, tmp_path, environment | {"PATH": path, "NO_COLOR": "1"}) > 2
