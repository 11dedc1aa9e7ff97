"""Several hosts over one PostgreSQL: any door for every session, one owner of each, and others that take over."""

import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.driver import Host, types, until
from real_postgres import RealPostgres

PATIENCE_S = 30.0

Starter = Callable[..., Host]


@pytest.fixture
def start(antiphon_command: str, tmp_path: Path, real_postgres: RealPostgres) -> Iterator[Starter]:
    """Starts hosts by name, over one database of this test's own."""
    with starter(antiphon_command, tmp_path, real_postgres.new_database()) as started:
        yield started


@pytest.fixture
def mortal_postgres() -> Iterator[RealPostgres]:
    """A server that a test may stop."""
    server = RealPostgres()
    server.start()
    yield server
    server.close()


@contextlib.contextmanager
def starter(antiphon_command: str, tmp_path: Path, database: str) -> Iterator[Starter]:
    """Starts hosts by name; all are ended with the block."""
    hosts: list[Host] = []

    def started(name: str, **environment: str) -> Host:
        host = Host(antiphon_command, tmp_path / f"{name}-{len(hosts)}")
        host.environment |= {"ANTIPHON__HOST__NAME": name, **environment}
        hosts.append(host)
        return host.start("--store", database)

    try:
        yield started
    finally:
        for host in hosts:
            if host.process and host.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(host.process.pid, signal.SIGCONT)
            host.close()


@pytest.fixture
def key() -> str:
    return f"chat:{uuid.uuid4().hex}"


def make(host: Host, key: str, **fields: Any) -> str:
    """A session that no machine's files bind."""
    answer = host.api("POST", "/sessions", {"agent": "echo", "key": key} | fields)
    assert answer.status == 201, answer
    return answer.json["id"]


def started(host: Host, message_id: str) -> dict[str, Any]:
    """The receipt of a message whose turn runs."""

    def running() -> dict[str, Any] | None:
        now = host.receipt(message_id)
        return now if now["state"] == "running" else None

    return until(running, f"{message_id} runs", PATIENCE_S)


def agent_of(host: Host, session_id: str) -> int:
    """The process of a session's agent, once it is up."""

    def pid() -> int | None:
        pids = [event["data"]["pid"] for event in host.events(session_id) if event["type"] == "agent.started"]
        return pids[-1] if pids else None

    return until(pid, "an agent", PATIENCE_S)


def insist(host: Host, ref: str, text: str) -> str:
    """Send as every client does: under a key, again when the store can't be reached; the message's id."""
    name = uuid.uuid4().hex

    def accepted() -> str | None:
        answer = host.api("POST", f"/sessions/{ref}/messages", {"text": text}, Idempotency_Key=name)
        assert answer.status in (200, 201, 202, 503), answer
        return answer.json["id"] if answer.status != 503 else None

    return until(accepted, "a message that is accepted", PATIENCE_S)


def let_go(host: Host, session_id: str, gate: str = "gate") -> None:
    """Let a turn go on that this host's agent holds."""
    place = host.data / "workspaces" / session_id
    place.mkdir(parents=True, exist_ok=True)
    (place / gate).touch()


def states(host: Host) -> dict[str, tuple[str, int]]:
    """What is told of each host: its state, and how many sessions it owns."""
    answer = host.api("GET", "/hosts")
    assert answer.status == 200, answer
    return {peer["name"]: (peer["state"], peer["sessions"]) for peer in answer.json["items"]}


def owned_by(host: Host, name: str, sessions: int) -> None:
    """Wait until a host owns so many sessions."""

    def look() -> bool:
        return states(host).get(name) == ("serving", sessions)

    until(look, f"{name} owns {sessions}", PATIENCE_S)


def test_a_message_through_any_door_is_answered_by_the_owner_and_told_at_every_door(start: Starter, key: str) -> None:
    alpha, beta = start("alpha"), start("beta")
    session_id = make(alpha, key)
    first = alpha.cli("session", "message", key, "to its owner")
    assert (first.code, first.out.strip()) == (0, "echo: to its owner"), first
    owned_by(beta, "alpha", 1)

    second = beta.cli("session", "message", key, "through another door")

    assert (second.code, second.out.strip()) == (0, "echo: through another door"), second
    said = [(item["role"], item["text"]) for item in beta.transcript(session_id)]
    assert said == [(item["role"], item["text"]) for item in alpha.transcript(session_id)]
    assert said[2:] == [("user", "through another door"), ("assistant", "echo: through another door")]
    assert states(beta)["alpha"][1] == 1
    assert states(beta)["beta"][1] == 0
    assert beta.api("GET", f"/sessions/{session_id}").json["host"] == "alpha"
    assert "alpha" in beta.cli("session", "show", key).out


def test_a_running_turn_is_refused_cancelled_and_followed_through_another_door(start: Starter, key: str) -> None:
    alpha, beta = start("alpha"), start("beta")
    session_id = make(alpha, key)
    running = started(beta, alpha.post(key, "[[hold gate]] long").json["id"])

    refused = beta.post(key, "not now", when_busy="refuse")
    waiting = beta.post(key, "later")
    cancelled = beta.api("POST", f"/turns/{running['turn_id']}/cancel")

    assert (refused.status, refused.json["code"]) == (409, "session_busy")
    assert running["turn_id"] in waiting.json["waiting_for"]
    assert (cancelled.status, cancelled.json["confirmed"]) == (200, True), cancelled
    assert beta.ended(running["id"], PATIENCE_S)["state"] == "cancelled"
    assert beta.ended(waiting.json["id"], PATIENCE_S)["reply"] == "echo: later"
    assert types(beta.events(session_id)) == types(alpha.events(session_id))


def test_a_permission_is_answered_through_another_door(start: Starter, key: str) -> None:
    alpha, beta = start("alpha"), start("beta")
    make(alpha, key)
    message_id = alpha.post(key, "[[ask May I?]] please").json["id"]

    def asked() -> dict[str, Any] | None:
        found = beta.api("GET", "/permissions?state=pending").json["items"]
        return found[0] if found else None

    permission = until(asked, "a question", PATIENCE_S)
    answer = beta.api("POST", f"/permissions/{permission['id']}", {"decision": "allow"})

    assert answer.status == 200, answer
    assert alpha.ended(message_id, PATIENCE_S)["state"] == "answered"


def test_when_the_owner_is_killed_another_settles_its_turn_and_runs_what_waits(start: Starter, key: str) -> None:
    alpha, beta = start("alpha"), start("beta")
    session_id = make(alpha, key)
    cut = started(beta, alpha.post(key, "[[hold gate]] cut").json["id"])
    waits = beta.post(key, "after it").json["id"]
    waiter = beta.later("message", "wait", waits)

    alpha.kill()

    assert beta.ended(cut["id"], PATIENCE_S)["state"] == "interrupted"
    done = waiter.finish()
    assert (done.code, done.out.strip()) == (0, "echo: after it"), done
    ends = [event["message_id"] for event in beta.events(session_id) if event["type"] == "message.ended"]
    assert sorted(ends) == sorted([cut["id"], waits])
    owned_by(beta, "beta", 1)
    assert states(beta)["alpha"][0] == "away"


def test_a_frozen_owner_is_overtaken_and_what_it_does_afterwards_counts_for_nothing(start: Starter, key: str) -> None:
    alpha, beta = start("alpha"), start("beta")
    session_id = make(alpha, key)
    cut = started(beta, alpha.post(key, "[[hold gate]] frozen").json["id"])
    agent = agent_of(beta, session_id)
    alpha.signal(signal.SIGSTOP)

    assert beta.ended(cut["id"], PATIENCE_S)["state"] == "interrupted"
    assert beta.ended(beta.post(key, "meanwhile").json["id"], PATIENCE_S)["reply"] == "echo: meanwhile"
    let_go(alpha, session_id)  # so that the old agent has an answer as soon as its host wakes
    alpha.signal(signal.SIGCONT)

    assert alpha.ended(insist(alpha, key, "and then"), PATIENCE_S)["reply"] == "echo: and then"
    until(lambda: not Path(f"/proc/{agent}").exists(), "the end of the old agent", PATIENCE_S)
    replies = [item["text"] for item in beta.transcript(session_id) if item["role"] == "assistant"]
    assert replies == ["echo: meanwhile", "echo: and then"]
    assert types(beta.events(session_id)).count("turn.ended") == 3


def test_a_drained_host_hands_over_and_goes_on_answering(start: Starter, key: str) -> None:
    alpha, beta = start("alpha"), start("beta")
    make(alpha, key)
    assert alpha.ended(alpha.post(key, "one").json["id"], PATIENCE_S)["reply"] == "echo: one"

    drained = beta.cli("host", "drain", "alpha")

    assert drained.code == 0, drained
    assert states(beta)["alpha"] == ("drained", 0)
    assert alpha.ended(alpha.post(key, "two").json["id"], PATIENCE_S)["reply"] == "echo: two"
    assert states(alpha)["beta"][1] == 1
    assert beta.cli("host", "drain", "alpha", "--undo").code == 0
    assert states(beta)["alpha"][0] == "serving"
    assert beta.cli("host", "drain", "gamma").code == 4


def test_a_session_whose_files_are_on_a_machine_waits_for_that_machine(start: Starter, key: str) -> None:
    alpha, beta = start("alpha"), start("beta")
    make(alpha, key, cwd=str(alpha.work), labels={"host": "alpha"})
    alpha.kill()
    message_id = beta.post(key, "are you there?").json["id"]

    def told() -> bool:
        return "host alpha" in (beta.receipt(message_id)["waiting_for"] or "")

    until(told, "what it waits for", PATIENCE_S)
    back = start("alpha")

    assert beta.ended(message_id, PATIENCE_S)["reply"] == "echo: are you there?"
    assert states(back)["alpha"] == ("serving", 1)


def test_hosts_that_are_restarted_one_after_another_lose_nothing(start: Starter, key: str) -> None:
    """A rolling upgrade: what runs may end, what waits is taken over, and nothing is interrupted."""
    hosts = {name: start(name, ANTIPHON__HOST__DRAIN_S="60") for name in ("alpha", "beta")}
    keys = [f"{key}:{number}" for number in range(6)]
    for each in keys:
        make(hosts["alpha"], each)
    sent: dict[str, str] = {}
    for name in ("alpha", "beta"):
        others = [host for other, host in hosts.items() if other != name]
        for number, each in enumerate(keys):
            text = f"{name} {number}"
            sent[others[0].post(each, f"[[sleep 0.05]] {text}").json["id"]] = text
        assert hosts[name].stop(90) == 0
        hosts[name] = start(name, ANTIPHON__HOST__DRAIN_S="60")
    for message_id, text in sent.items():
        end = hosts["alpha"].ended(message_id, PATIENCE_S)
        assert (end["state"], (end["reply"] or "").strip()) == ("answered", f"echo: {text}"), end


def test_while_the_database_is_away_senders_are_told_and_agents_go_on(
    antiphon_command: str, tmp_path: Path, mortal_postgres: RealPostgres, key: str
) -> None:
    with starter(antiphon_command, tmp_path, mortal_postgres.url) as start:
        alpha, beta = start("alpha"), start("beta")
        session_id = make(alpha, key)
        running = started(beta, alpha.post(key, "[[hold gate]] long").json["id"])
        agent_of(beta, session_id)
        mortal_postgres.stop(signal.SIGINT)

        for host in (alpha, beta):
            refused = host.post(key, "not now")
            assert (refused.status, refused.json["code"]) == (503, "store_unavailable"), refused
            assert int(refused.headers["Retry-After"]) > 0
        let_go(alpha, session_id)  # what its agent says now is kept until it can be written
        mortal_postgres.start()

        end = beta.ended(running["id"], PATIENCE_S)
        assert (end["state"], end["reply"]) == ("answered", "echo: long"), end
        assert beta.ended(insist(beta, key, "and then"), PATIENCE_S)["reply"] == "echo: and then"
        events = types(beta.events(session_id))
        assert (events.count("turn.started"), events.count("agent.started")) == (2, 1), "nobody took it over"


def test_a_session_that_another_host_deleted_ends_the_wait_for_its_message(start: Starter, key: str) -> None:
    alpha, beta = start("alpha"), start("beta")
    make(alpha, key)
    running = started(alpha, alpha.post(key, "[[hold gate]] long").json["id"])
    waiter = alpha.later("message", "wait", running["id"])
    until(lambda: alpha.api("GET", "/status").json["turns_running"], "the turn", PATIENCE_S)

    assert beta.api("DELETE", f"/sessions/{key}").status == 204

    assert waiter.finish().code in (4, 7)  # cancelled; or gone, where it asked after that
