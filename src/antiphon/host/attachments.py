"""Files that came inside a message: written beside the session, so that its agent can read them by their path."""

import base64
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from antiphon.ports.agent import OpenFailed, Part

NAME_MAX_BYTES = 200


def file_part(file: Mapping[str, Any], *, place: Path, message_id: str) -> Part:
    """A file of a message as an agent is given it.

    Args:
        file: `{path}` of a file on this machine, or `{name, media_type?, data}` with its content in base64.
        place: A directory for this file alone, made if it is needed.
        message_id: The message that it belongs to.

    Raises:
        OpenFailed: The content can't be written.
    """
    path = file["path"] if "path" in file else _written(file, place)
    return Part(path=path, media_type=file.get("media_type"), message_id=message_id)


def _written(file: Mapping[str, Any], place: Path) -> str:
    path = place / safe_name(str(file["name"]))
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(file["data"]))
    except OSError as error:
        raise OpenFailed(f"A file of the message can't be written for the agent ({error.strerror}).") from error
    return str(path)


def safe_name(name: str) -> str:
    """The last part of a name, without what a file's name can't hold: it can lead nowhere else."""
    last = PurePosixPath(name.replace("\\", "/")).name
    kept = "".join(character if character.isprintable() else "_" for character in last)
    short = kept.encode()[:NAME_MAX_BYTES].decode(errors="ignore")
    return short if short.strip(". ") else "file"
