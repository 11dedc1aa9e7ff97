"""What the echo program makes of a prompt that comes in one read with what is said of it right after."""

import json
import subprocess
import sys
from pathlib import Path

import antiphon.agents.echo as echo

PROGRAM = Path(echo.__file__).with_name("program.py")


def said_to(*lines: list[str], cwd: Path) -> list[list[str]]:
    """What the program answers to lines that it finds in its input all at once, up to the end of its turn."""
    given = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    command = [sys.executable, "-I", "-S", str(PROGRAM)]
    with subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin and program.stdout
        program.stdin.write(given)
        program.stdin.flush()
        answers: list[list[str]] = []
        for line in program.stdout:
            answers.append(json.loads(line))
            if answers[-1][0] == "ended":
                break
        program.stdin.close()
        return answers


def test_a_steer_right_behind_its_prompt_is_taken(tmp_path: Path) -> None:
    answers = said_to(["prompt", "turn_1", "[[sleep 0.05]] a"], ["steer", "turn_1", "msg_2", "b"], cwd=tmp_path)
    assert ["steered", "turn_1", "msg_2", "taken"] in answers
    assert "".join(words[2] for words in answers if words[0] == "text") == "echo: a\necho: b"


def test_a_cancel_right_behind_its_prompt_stops_it(tmp_path: Path) -> None:
    answers = said_to(["prompt", "turn_1", "[[sleep 0.2]] a"], ["cancel", "turn_1"], cwd=tmp_path)
    assert answers[-1][:3] == ["ended", "turn_1", "cancelled"]
    assert not [words for words in answers if words[0] == "text"]
