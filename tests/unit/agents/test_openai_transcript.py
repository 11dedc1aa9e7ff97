"""The transcript of a chat: what is in it after every kind of end, also a torn one."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.openai.transcript import CUT, NO_RESULT, REWRITE_FROM_BYTES, Missing, Transcript

ASK: dict[str, Any] = {"role": "user", "content": "what?"}
SAY: dict[str, Any] = {"role": "assistant", "content": "that"}
CALLS: dict[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": name, "type": "function", "function": {"name": "x", "arguments": "{}"}} for name in "ab"],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.jsonl"


def begun(path: Path, *messages: dict[str, Any]) -> Transcript:
    transcript = Transcript(path)
    transcript.begin("turn_1", ASK)
    for message in messages:
        transcript.add(message)
    return transcript


def turns(transcript: Transcript) -> list[list[dict[str, Any]]]:
    return [turn.messages for turn in transcript.past]


def test_a_conversation_is_the_same_when_it_is_gone_on_with(path: Path) -> None:
    transcript = begun(path)
    transcript.say("th")
    transcript.say("at")
    transcript.add(SAY)
    transcript.end("completed")
    assert turns(transcript) == turns(Transcript.open(path)) == [[ASK, SAY]]


def test_a_turn_that_was_cut_short_stays_with_what_was_said(path: Path) -> None:
    transcript = begun(path)
    transcript.say("th")
    transcript.say("a")
    killed = Transcript.open(path)
    transcript.end("cut")
    assert turns(transcript) == turns(killed) == [[ASK, {"role": "assistant", "content": f"tha\n\n{CUT}"}]]


def test_a_turn_that_was_cut_short_before_a_word_has_an_answer_that_says_so(path: Path) -> None:
    transcript = begun(path)
    assert not transcript.answered
    transcript.end("cut")
    assert turns(Transcript.open(path)) == [[ASK, {"role": "assistant", "content": CUT}]]


def test_a_turn_that_failed_before_a_word_is_not_there(path: Path) -> None:
    begun(path).end("dropped")
    assert turns(Transcript.open(path)) == []


def test_every_call_of_a_turn_that_was_cut_short_has_a_result(path: Path) -> None:
    result = {"role": "tool", "tool_call_id": "a", "content": "done"}
    begun(path, CALLS, result)
    missing = {"role": "tool", "tool_call_id": "b", "content": NO_RESULT}
    cut = {"role": "assistant", "content": CUT}
    assert turns(Transcript.open(path)) == [[ASK, CALLS, result, missing, cut]]


def test_a_file_that_is_torn_anywhere_is_gone_on_with(path: Path) -> None:
    transcript = begun(path, CALLS, {"role": "tool", "tool_call_id": "a", "content": "é 漢 😀"})
    transcript.say("that")
    transcript.add(SAY)
    transcript.end("completed")
    transcript.begin("turn_2", ASK)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        torn = Transcript.open(path)
        torn.begin("turn_3", ASK)
        torn.add(SAY)
        torn.end("completed")
        again = turns(Transcript.open(path))
        assert again == turns(torn)
        assert again[-1] == [ASK, SAY], f"what is written after a torn line is there ({size})"
        for turn in again:
            assert turn[0]["role"] == "user"
            assert turn[-1]["role"] == "assistant"


def test_what_is_left_out_stays_out(path: Path) -> None:
    transcript = Transcript(path)
    for number in range(3):
        transcript.begin(f"turn_{number}", {"role": "user", "content": str(number)})
        transcript.add(SAY)
        transcript.end("completed")
    transcript.leave_out(2)
    assert turns(Transcript.open(path)) == [[{"role": "user", "content": "2"}, SAY]]


def test_a_file_that_holds_mostly_what_is_left_out_is_written_anew(path: Path) -> None:
    transcript = begun(path, {"role": "assistant", "content": "y" * REWRITE_FROM_BYTES})
    transcript.end("completed")
    transcript.begin("turn_2", ASK)
    transcript.add(SAY)
    transcript.end("completed")
    transcript.leave_out(1)
    assert turns(Transcript.open(path)) == [[ASK, SAY]]
    assert path.stat().st_size < 1000
    assert turns(Transcript.open(path)) == [[ASK, SAY]]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_conversation_that_is_gone_is_not_begun_anew(path: Path) -> None:
    with pytest.raises(Missing, match="No such file"):
        Transcript.open(path)


def test_nobody_else_can_read_it(path: Path) -> None:
    begun(path)
    assert path.stat().st_mode & 0o777 == 0o600


def three_turns(path: Path) -> Transcript:
    transcript = Transcript(path)
    for number in range(3):
        transcript.begin(f"turn_{number}", {"role": "user", "content": str(number)})
        transcript.add(SAY)
        transcript.end("completed")
    return transcript


def test_a_branch_holds_what_was_said_until_that_turn_was_over_and_goes_its_own_way(path: Path) -> None:
    origin = three_turns(path)
    origin.begin("turn_3", ASK)
    before = path.read_bytes()
    branch = Transcript.branch(path, "turn_1", path.with_name("branch.jsonl"))
    assert branch.last_turn == "turn_1"
    branch.begin("turn_4", ASK)
    branch.end("cut")
    again = Transcript.open(path.with_name("branch.jsonl"))
    assert [turn.turn_id for turn in again.past] == ["turn_0", "turn_1", "turn_4"]
    assert path.read_bytes() == before, "the other one is as it was"


def test_a_branch_from_what_is_gone_is_none(path: Path) -> None:
    three_turns(path).leave_out(1)
    for file, turn_id in ((path, "turn_0"), (path, "turn_9"), (path.with_name("none"), "turn_1")):
        with pytest.raises(Missing):
            Transcript.branch(file, turn_id, path.with_name("branch.jsonl"))
    assert not path.with_name("branch.jsonl").exists()
