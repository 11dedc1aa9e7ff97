"""Mutants take minutes: they run when asked for, with `-m mutants`, or by `python tests/mutants/run.py`."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the mutants out unless they are asked for."""
    if "mutants" in str(config.getoption("markexpr")):
        return
    left_out = [item for item in items if item.get_closest_marker("mutants")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
