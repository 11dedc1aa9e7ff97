"""The echo agent itself: a child process that obeys the directives in a prompt and then says `echo: ` and the rest.

    python -I -S program.py        (or, compiled beforehand, by importing it and calling `main`)

It speaks lines, each a JSON array of strings. It hears

    ["prompt", TURN, TEXT]
    ["steer", TURN, MESSAGE, TEXT]
    ["cancel", TURN]
    ["answer", REQUEST, "allow"|"deny", NOTE]

and leaves at the end of its input. It says

    ["text", TURN, TEXT]                    a piece of the answer
    ["tool", TURN, TOOL, NAME]              a tool has started
    ["tool_ended", TURN, TOOL, OUTPUT]
    ["ask", TURN, REQUEST, QUESTION]        it waits for the answer
    ["steered", TURN, MESSAGE, "taken"|"late"]
    ["ended", TURN, "completed"|"cancelled"|"failed", DETAIL, INPUT_WORDS, OUTPUT_WORDS]

Whatever it does, it listens: a cancel is heard within a moment, a steer is taken at once and answered after the text
before it. It starts with every session, so it imports as little as can be: `_json` and `_signal` are the C halves of
`json` and `signal`, of which the whole costs 5 to 20 ms more each. For the same reason it is one file.
"""

# ruff: noqa: TID251
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from json.encoder import encode_basestring

    def scanstring(string: str, end: int) -> tuple[str, int]:
        """The text that begins after a quotation mark, and the place after its end."""
        ...
else:
    try:
        import _signal as signal
        from _json import encode_basestring, scanstring
    except ImportError:  # a Python without these halves: slower to start, otherwise the same
        import signal
        from json.decoder import scanstring
        from json.encoder import encode_basestring

HOLD_POLL_S = 0.02
LONGEST_POLL_S = 60.0
PIECE_BYTES = 1 << 16
SPAWNED_LIFE_S = 3600
LONGEST_DIRECTIVE = 4096
ROW = "The quick brown fox jumps over the lazy dog, 0123456789 times.\n"
CUT_TEXT = "é ü 漢字 😀 👩\u200d👩\u200d👧\n"


class Cancelled(Exception):
    """The turn is to stop."""


class Failed(Exception):
    """The turn is to fail, for this reason."""


def encode(*words: str) -> bytes:
    """A line. Lone surrogates, which a prompt may hold, survive."""
    return f"[{','.join(map(encode_basestring, words))}]\n".encode(errors="surrogatepass")


def decode(line: bytes) -> list[str]:
    """The words of a line, which has no spaces between them."""
    text, place = line.decode(errors="surrogatepass"), 1
    words: list[str] = []
    while text[place] == '"':
        word, place = scanstring(text, place + 1)
        words.append(word)
        place += text[place] == ","
    return words


def number(word: str) -> float:
    """A finite number that is not negative.

    Raises:
        ValueError: It is none.
    """
    value = float(word)
    if not 0 <= value < float("inf"):
        raise ValueError(word)
    return value


class Turn:
    """A turn, from its prompt on."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.rest = ""
        self.cancelled = False
        self.stubborn = False
        self.late_s: float | None = None
        self.steers: list[str] = []
        self.count = self.words_in = self.words_out = 0


class Program:
    """One conversation. The turn that runs is the first of `turns`."""

    def __init__(self) -> None:
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)
        self.heard = b""
        self.unsaid = bytearray()
        self.leaving = False
        self.turns: list[Turn] = []
        self.answers: dict[str, tuple[bool, str]] = {}

    @property
    def turn(self) -> Turn:
        """The turn that runs."""
        return self.turns[0]

    # Listening and speaking

    def tell(self, *words: str) -> None:
        """Say a line, together with what follows at once: whoever listens is woken once for all of it."""
        self.unsaid += encode(*words)
        if len(self.unsaid) >= PIECE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Say what was not said yet; before anything is waited for or done."""
        said, self.unsaid = self.unsaid, bytearray()
        self.write(1, said)

    @staticmethod
    def write(fd: int, data: bytes | bytearray) -> None:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]

    def say(self, text: str) -> None:
        """Say a piece of the answer."""
        self.turn.words_out += len(text.split())
        self.tell("text", self.turn.name, text)

    def listen(self, timeout_s: float) -> None:
        """Take in what the host says, if need be after waiting for it."""
        if timeout_s > 0:
            self.flush()
        if not self.poll.poll(min(timeout_s, LONGEST_POLL_S) * 1000):
            return
        data = os.read(0, 1 << 16)
        if not data:
            self.poll.unregister(0)
            self.leaving = True
        *lines, self.heard = (self.heard + data).split(b"\n")
        for line in lines:
            self.take(decode(line))
        if self.leaving and not (self.turns and self.turn.stubborn):
            self.flush()
            os._exit(0)

    def take(self, words: list[str]) -> None:
        """Take in one line."""
        match words:
            case ["prompt", name, text]:
                self.turns.append(Turn(name, text))
            case ["cancel", name]:
                for turn in self.turns:
                    turn.cancelled |= turn.name == name and not turn.stubborn
            case ["steer", name, message, text]:
                takers = [turn for turn in self.turns if turn.name == name and not turn.cancelled]
                for turn in takers:
                    turn.steers.append(text)
                self.tell("steered", name, message, "taken" if takers else "late")
            case ["answer", request, decision, note]:
                self.answers[request] = (decision == "allow", note)
            case _:
                sys.exit("echo: heard a line that means nothing to it")

    def wait(self, seconds: float) -> None:
        """Listen for so long.

        Raises:
            Cancelled: The turn is to stop.
        """
        deadline = time.monotonic() + seconds
        while True:
            left_s = deadline - time.monotonic()
            self.listen(max(0.0, left_s))
            self.heed()
            if left_s <= 0:
                return

    def heed(self) -> None:
        """Stop when a cancel was heard.

        Raises:
            Cancelled: It was.
        """
        if self.turn.cancelled:
            raise Cancelled

    # Turns

    def run(self) -> None:
        """Answer prompts until the input ends."""
        while True:
            while not self.turns:
                self.listen(LONGEST_POLL_S)
            turn = self.turn
            outcome, detail = self.answer(turn)
            self.tell("ended", turn.name, outcome, detail, str(turn.words_in), str(turn.words_out))
            self.flush()
            del self.turns[0]
            if turn.stubborn:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self.leaving:
                os._exit(0)

    def answer(self, turn: Turn) -> tuple[str, str]:
        """Run a turn to its end: how it ended, and why."""
        try:
            self.obey(turn.text)
            while turn.steers:
                self.say("\n")
                self.obey(turn.steers.pop(0))
        except Failed as failure:
            return "failed", str(failure)
        except Cancelled:
            if turn.late_s is not None:
                self.linger(turn.late_s)
                self.say(f"echo: {turn.rest}")
            return "cancelled", ""
        return "completed", ""

    def linger(self, seconds: float) -> None:
        """Go on for so long although the turn was cancelled."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            self.listen(left_s)

    def obey(self, text: str) -> None:
        """Do what the directives say, in their order, then say the rest."""
        self.turn.words_in += len(text.split())
        actions, self.turn.rest = self.read(text)
        for action, arguments in actions:
            self.wait(0)
            self.flush()
            action(self, *arguments)
        self.wait(0)
        self.say(f"echo: {self.turn.rest}")
        self.wait(0)

    def read(self, text: str) -> tuple[list[tuple["Callable[..., None]", list[str]]], str]:
        """Split a text into its directives and the rest. What is no directive is text, also in double brackets.

        A directive takes the white space after it along, and with one in it the rest is stripped at both ends; a text
        without any comes back as it is.
        """
        actions: list[tuple[Callable[..., None], list[str]]] = []
        kept: list[str] = []
        place = end = 0
        while (start := text.find("[[", place)) >= 0:
            if end < start + 2 and (end := text.find("]]", start + 2)) < 0:
                break
            action = directive(text[start + 2 : end]) if end - start < LONGEST_DIRECTIVE else None
            kept.append(text[place : start if action else start + 1])
            place = start + 1
            if action:
                actions.append(action)
                place = end + 2
                while text[place : place + 1].isspace():
                    place += 1
        rest = "".join(kept) + text[place:]
        return actions, rest.strip() if actions else rest

    # Directives

    def sleep(self, seconds: str) -> None:
        """`[[sleep S]]`."""
        self.wait(number(seconds))

    def hold(self, name: str) -> None:
        """`[[hold NAME]]`: until there is a file of that name in the working directory."""
        while not os.path.lexists(name):
            self.wait(HOLD_POLL_S)

    def stream(self, count: str, every_ms: str) -> None:
        """`[[stream N every MS]]`."""
        for place in range(int(number(count))):
            if place:
                self.wait(number(every_ms) / 1000)
            self.say(f"{place + 1} ")

    def flood(self, count: str) -> None:
        """`[[bytes N]]`."""
        left = int(number(count))
        while left > 0:
            size = min(left, PIECE_BYTES)
            self.say((ROW * (size // len(ROW) + 1))[:size])
            left -= size
            self.wait(0)

    def tool(self, name: str) -> None:
        """`[[tool NAME]]`."""
        self.turn.count += 1
        tool = f"tool_{self.turn.count}"
        self.tell("tool", self.turn.name, tool, name)
        self.wait(0)
        self.tell("tool_ended", self.turn.name, tool, f"{name} is done")

    def ask(self, question: str) -> None:
        """`[[ask QUESTION]]`."""
        self.turn.count += 1
        request = f"{self.turn.name}:{self.turn.count}"
        self.tell("ask", self.turn.name, request, question)
        while request not in self.answers:
            self.listen(LONGEST_POLL_S)
            self.heed()
        allowed, note = self.answers.pop(request)
        if not allowed:
            self.say(f"denied: {question}{f' ({note})' if note else ''}\n")

    def fail(self, message: str) -> None:
        """`[[fail MESSAGE]]`."""
        raise Failed(message)

    def leave(self, code: str) -> None:
        """`[[exit CODE]]`."""
        os._exit(int(number(code)) & 0xFF)

    def ignore_cancel(self) -> None:
        """`[[ignore-cancel]]`: neither a cancel, nor the end of the input, nor SIGTERM impresses it in this turn."""
        self.turn.stubborn = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def late(self, seconds: str) -> None:
        """`[[late S]]`."""
        self.turn.late_s = number(seconds)

    def stderr(self, count: str) -> None:
        """`[[stderr N]]`."""
        left = int(number(count))
        while left > 0:
            size = min(left, PIECE_BYTES)
            self.write(2, (ROW * (size // len(ROW) + 1))[:size].encode())
            left -= size
            self.wait(0)

    def split_utf8(self) -> None:
        """`[[split-utf8]]`: every character of more than one byte is cut by the end of a write."""
        line, start = encode("text", self.turn.name, CUT_TEXT), 0
        self.turn.words_out += len(CUT_TEXT.split())
        for place in range(1, len(line)):
            if line[place] & 0xC0 == 0x80 and line[place - 1] & 0xC0 == 0xC0:
                self.write(1, line[start:place])
                start = place
                time.sleep(0.001)  # a cancel must not come between the halves, so this does not listen
        self.write(1, line[start:])

    def spawn(self) -> None:
        """`[[spawn]]`: a grandchild that hides in a session of its own and ignores every polite signal."""
        if os.fork():
            return
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        os.setsid()
        os.close(0)
        time.sleep(SPAWNED_LIFE_S)
        os._exit(0)

    def pid(self) -> None:
        """`[[pid]]`."""
        self.say(f"pid {os.getpid()}\n")


def numbers(words: list[str]) -> bool:
    """Whether all of the words are numbers."""
    try:
        return all(number(word) >= 0 for word in words)
    except ValueError:
        return False


def is_file_name(word: str) -> bool:
    """Whether a word can name a file in the working directory, and none elsewhere."""
    try:
        return "/" not in word and "\0" not in word and word not in {".", ".."} and bool(os.fsencode(word))
    except UnicodeEncodeError:
        return False


def directive(inner: str) -> "tuple[Callable[..., None], list[str]] | None":
    """What the text between double brackets calls for, with its arguments; None when it is no directive."""
    name, _, argument = inner.partition(" ")
    words, argument = argument.split(), argument.strip()
    if name == "stream" and len(words) == 3 and words[1] == "every" and numbers(words[::2]):
        return Program.stream, words[::2]
    if name == "hold" and len(words) == 1 and is_file_name(argument):
        return Program.hold, words
    if name in WITH_NUMBER and len(words) == 1 and numbers(words):
        return WITH_NUMBER[name], words
    if name in WITH_TEXT and argument:
        return WITH_TEXT[name], [argument]
    return (ALONE[name], []) if name in ALONE and not argument else None


WITH_NUMBER = {
    "sleep": Program.sleep,
    "bytes": Program.flood,
    "exit": Program.leave,
    "late": Program.late,
    "stderr": Program.stderr,
}
WITH_TEXT = {"tool": Program.tool, "ask": Program.ask, "fail": Program.fail}
ALONE = {
    "ignore-cancel": Program.ignore_cancel,
    "split-utf8": Program.split_utf8,
    "spawn": Program.spawn,
    "pid": Program.pid,
}


def main() -> None:
    """Answer prompts until the input ends."""
    Program().run()


if __name__ == "__main__":
    main()
