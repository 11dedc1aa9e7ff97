"""What hatchling does when antiphon is built: it has the page built, from `web/`, and takes it along.

The source distribution carries the built page, so a wheel that is made of it needs no Node.js. A wheel made of a
checkout does; where there is none, the package index brings one to the build.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _page() -> ModuleType:
    """`web/build.py`, which is no package."""
    spec = importlib.util.spec_from_file_location("antiphon_page", Path(__file__).parent / "web" / "build.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError("web/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class PageHook(BuildHookInterface[Any]):
    """Builds the page before anything is packed. An editable installation goes without it rather than fail."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        page = _page()
        return [] if page.is_current() or page.find_node() else [page.WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page; `version` is the kind of distribution."""
        del build_data
        page = _page()
        try:
            page.build()
        except page.CannotBuild as error:
            if version != "editable":
                raise
            self.app.display_warning(f"{error}\nThe page was not built; everything else works without it.")
