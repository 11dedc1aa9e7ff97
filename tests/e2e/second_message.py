"""What a second message does, told by the receipts of all involved: stories that each real agent must live through."""

from typing import Any

from e2e.driver import Host, types, until
from e2e.model import Model

END_S = 60.0
Receipt = dict[str, Any]


def steer_during_text(host: Host, model: Model, agent: str) -> None:
    """A steer comes while the model speaks."""
    session_id = host.session(agent=agent, key="text")
    first = host.post("text", "[[say so far]] [[hold gate]] maple").json
    until(lambda: "turn.text" in types(host.events(session_id)), "the first words", END_S)
    steer = host.post("text", "and birch", when_busy="steer").json
    _handed_over(host, session_id)
    model.release("gate")
    _steered_or_queued(host, session_id, first, steer)


def steer_during_a_tool(host: Host, model: Model, agent: str) -> None:
    """A steer comes while a tool runs."""
    session_id = host.session(agent=agent, key="tool")
    first = host.post("tool", "[[shell until test -e go; do sleep 0.1; done]] maple").json
    until(lambda: "turn.tool_started" in types(host.events(session_id)), "a tool that runs", END_S)
    steer = host.post("tool", "and birch", when_busy="steer").json
    _handed_over(host, session_id)
    (host.work / "go").touch()
    _steered_or_queued(host, session_id, first, steer)


def _handed_over(host: Host, session_id: str) -> None:
    until(lambda: "turn.steer_requested" in types(host.events(session_id)), "the steer in the agent's hands", END_S)


def _steered_or_queued(host: Host, session_id: str, first: Receipt, steer: Receipt) -> None:
    """Both are answered, the steer in the running turn or in its own, and its receipt says which."""
    told, joined = host.ended(first["id"], END_S), host.ended(steer["id"], END_S)
    assert (told["state"], joined["state"]) == ("answered", "answered"), (told, joined)
    assert "model: maple" in told["reply"]
    assert "model: and birch" in joined["reply"]
    assert (told["delivered_as"], told["substitute"]) == ("turn", None)
    if joined["delivered_as"] == "steer":
        assert (joined["turn_id"], joined["substitute"]) == (told["turn_id"], None)
        assert "turn.steered" in types(host.events(session_id))
    else:
        assert (joined["delivered_as"], joined["substitute"]) == ("turn", "queue")
        assert joined["turn_id"] > told["turn_id"]
    said = "".join(line["text"] for line in host.transcript(session_id) if line["role"] == "assistant")
    assert said.count("model: and birch") == 1
    assert types(host.events(session_id)).count("message.ended") == 2


def interrupt_during_a_tool(host: Host, model: Model, agent: str) -> None:
    """An interrupt comes while a tool runs, and another message waits already."""
    session_id = host.session(agent=agent, key="cut")
    cut = host.post("cut", "[[say so far]] [[shell sleep 300]] maple").json
    until(lambda: "turn.tool_started" in types(host.events(session_id)), "a tool that runs", END_S)
    queued = host.post("cut", "queued").json
    newest = host.post("cut", "newest", when_busy="interrupt").json
    old, later, next_ = (host.ended(each["id"], END_S) for each in (cut, queued, newest))
    assert [end["state"] for end in (old, next_, later)] == ["cancelled", "answered", "answered"]
    assert "so far" in old["reply"]
    assert "maple" not in old["reply"]
    assert (next_["reply"], later["reply"]) == ("model: newest", "model: queued")
    assert old["turn_id"] < next_["turn_id"] < later["turn_id"]
    turns = host.api("GET", f"/sessions/{session_id}/turns").json["items"]
    assert old["ended_at"] <= turns[1]["started_at"], "the agent had stopped before the next turn began"
    told = types(host.events(session_id))
    assert told.count("turn.tool_ended") == told.count("turn.tool_started")
    assert told.count("message.ended") == 3


def collect_of_a_burst(host: Host, model: Model, agent: str) -> None:
    """Three messages are to be collected while a turn runs."""
    session_id = host.session(agent=agent, key="burst")
    first = host.post("burst", "[[hold burst]] maple").json
    until(lambda: "turn.started" in types(host.events(session_id)), "a turn that runs", END_S)
    burst = [host.post("burst", word, when_busy="collect").json for word in ("birch", "cedar", "larch")]
    model.release("burst")
    told = host.ended(first["id"], END_S)
    ends = [host.ended(each["id"], END_S) for each in burst]
    assert (told["state"], told["reply"]) == ("answered", "model: maple")
    assert {(end["state"], end["delivered_as"], end["turn_id"]) for end in ends} == {
        ("answered", "collect", ends[0]["turn_id"])
    }
    assert ends[0]["turn_id"] > told["turn_id"]
    assert all(word in end["reply"] for end in ends for word in ("birch", "cedar", "larch"))
    assert len({end["id"] for end in ends}) == 3
    assert types(host.events(session_id)).count("turn.started") == 2


def fork_from_the_first_turn(host: Host, _model: Model, agent: str) -> None:
    """A session that begins after the first of two turns remembers that turn and not the second, also later on."""
    host.session(agent=agent, key="origin")
    first, second = (host.ended(host.post("origin", word).json["id"], END_S) for word in ("maple", "birch"))
    assert (first["state"], second["state"]) == ("answered", "answered")
    fork = host.api("POST", "/sessions/origin/fork", {"turn_id": first["turn_id"], "key": "fork"})
    assert (fork.status, fork.json["forked_from"]["turn_id"]) == (201, first["turn_id"])
    ends = [host.ended(host.post(ref, f"[[recall]] {word}").json["id"], END_S) for ref, word in _WORDS]
    replies = [end["reply"].partition("model:")[0] for end in ends]
    assert replies == ["maple / cedar", "maple / birch / larch", "maple / cedar / willow"], ends
    assert next(line["text"] for line in host.transcript("fork") if line["role"] == "user") == "maple"


_WORDS = (("fork", "cedar"), ("origin", "larch"), ("fork", "willow"))
STORIES = (
    steer_during_text,
    steer_during_a_tool,
    interrupt_during_a_tool,
    collect_of_a_burst,
    fork_from_the_first_turn,
)
