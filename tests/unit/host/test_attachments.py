"""Files inside messages reach the agent as paths, and a name leads nowhere but into their own place."""

import base64
from pathlib import Path

import pytest

from antiphon.host.attachments import file_part, safe_name
from antiphon.host.host import Host
from antiphon.host.service import NewMessage, NewSession
from antiphon.ports.agent import OpenFailed
from antiphon.store.memory import MemoryStore
from antiphon.system import SystemClock, SystemIds
from antiphon.testing.scripted_agent import Say, ScriptedAgent

DATA = base64.b64encode(b"\x00\xffpicture").decode()


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("photo.png", "photo.png"),
        ("../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\x.txt", "x.txt"),
        ("..", "file"),
        (".", "file"),
        ("a/", "a"),
        ("/", "file"),
        ("n\x00u\nl", "n_u_l"),
        ("ключ😀.txt", "ключ😀.txt"),
    ],
)
def test_a_name_leads_nowhere_else(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_a_long_name_is_cut_between_characters() -> None:
    assert safe_name("é" * 300) == "é" * 100


def test_a_file_is_written_into_its_own_place(tmp_path: Path) -> None:
    part = file_part(
        {"name": "../p.png", "media_type": "image/png", "data": DATA}, place=tmp_path / "1", message_id="m"
    )
    assert part.path == str(tmp_path / "1" / "p.png")
    assert (part.media_type, part.message_id) == ("image/png", "m")
    assert (tmp_path / "1" / "p.png").read_bytes() == b"\x00\xffpicture"


def test_a_file_that_is_here_already_is_named_by_its_path(tmp_path: Path) -> None:
    assert file_part({"path": "/x/y"}, place=tmp_path / "1", message_id="m").path == "/x/y"
    assert not (tmp_path / "1").exists()


def test_a_place_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OpenFailed, match="can't be written"):
        file_part({"name": "x", "data": DATA}, place=tmp_path / "taken" / "1", message_id="m")


async def test_an_agent_is_given_the_paths_of_the_files_in_a_message(tmp_path: Path) -> None:
    host = Host(
        store=MemoryStore(),
        agents={"scripted": ScriptedAgent(lambda text: [Say(text)])},
        clock=SystemClock(),
        ids=SystemIds(),
        workspace=lambda session_id: str(tmp_path / session_id),
    )
    await host.start()
    files = ({"name": "same", "data": DATA}, {"name": "same", "data": ""}, {"path": "/x/y"})
    new = NewSession(agent="scripted", key="k")
    receipt = await host.send("k", NewMessage(text="look", files=files), create=new)
    end = await host.wait_message(receipt.id, 5)
    await host.stop()
    assert end.reply
    text, first, second, third = end.reply.split("\n")
    assert (text, third) == ("look", "/x/y")
    assert [Path(path).read_bytes() for path in (first, second)] == [b"\x00\xffpicture", b""]
