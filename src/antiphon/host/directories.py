"""Working directories, as this machine has them."""

from pathlib import Path


def is_directory(path: str) -> bool:
    """Whether an absolute path leads to a directory. One that can't be looked at, or is too long, does not."""
    try:
        return Path(path).is_absolute() and Path(path).is_dir()
    except (OSError, ValueError):
        return False
