"""A host goes on with a copy of its store: old receipts, keys of retries, webhooks and schedules are what they were."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.ports.timetable import Schedule
from antiphon.store.sqlite import SqliteStore
from antiphon.system import SystemClock
from doubles.receiver import Reply, receiving
from e2e.driver import Answer, Host, until
from real_postgres import RealPostgres

PATIENCE_S = 60.0
DOWN, UP = Reply(503), Reply()


@pytest.fixture
def host(antiphon_command: str, tmp_path: Path) -> Iterator[Host]:
    """A host on SQLite that may deliver to this machine."""
    host = Host(antiphon_command, tmp_path)
    host.data.mkdir()
    (host.data / "antiphon.toml").write_text(
        '[webhooks]\nallowed_networks = ["127.0.0.1"]\nallow_http = true\nfirst_pause_s = 0.2\n'
    )
    try:
        yield host.start()
    finally:
        host.close()


def keyed(host: Host, text: str) -> Answer:
    """Send under the same idempotency key."""
    return host.api("POST", "/sessions/desk/messages", {"text": text}, Idempotency_Key="once")


async def add_missed_run(data: Path) -> None:
    """Keep a schedule whose run was due while no host was there, and is made up for."""
    now = SystemClock().now()
    store = await SqliteStore.open(data, clock=SystemClock())
    schedule = Schedule(
        id="sch_" + "0" * 32,
        session="ticks",
        text="tick",
        cron="* * * * *",
        time_zone="UTC",
        missed="run_once",
        create={"agent": "echo"},
        created_at=now - 600_000,
        wakes_at=now - 300_000,
    )
    assert await store.timetable.add(schedule, limit=9)
    await store.close()


@pytest.mark.timeout(300)
def test_a_host_goes_on_with_a_copy_in_postgresql_and_back(host: Host, real_postgres: RealPostgres) -> None:
    database = real_postgres.new_database()
    answers = {"reply": DOWN}
    with receiving(lambda _request: answers["reply"]) as receiver:
        assert host.api("POST", "/webhooks", {"url": receiver.url}).status == 201
        host.session(key="desk")
        old = host.ended(keyed(host, "hello").json["id"])
        cursor, place = host.events("desk")[1]["cursor"], host.api("GET", "/events").json["next_cursor"]
        place = host.api("GET", "/events?after=another:0").json["next_cursor"]
        held, first = host.held("desk", "first")
        waiting = host.post("desk", "second").json
        receiver.wait(1, PATIENCE_S)
        assert host.cli("store", "copy", str(host.data), database).code == 1, "a host runs on it"
        host.kill()
        held.kill()
        asyncio.run(add_missed_run(host.data))

        done = host.cli("store", "copy", str(host.data), database, "--json", seconds=PATIENCE_S)
        assert done.code == 0, done.err
        outcome = json.loads(done.out)
        assert (outcome["complete"], outcome["damaged"], outcome["rows"]["sessions"]) == (True, 0, 1)
        answers["reply"] = UP
        host.start("--store", database)

        assert host.api("GET", "/status").json["store"] == "postgresql"
        assert host.receipt(old["id"]) == old
        again = keyed(host, "hello")
        assert (again.json["id"], again.json["state"]) == (old["id"], "answered")
        assert keyed(host, "other words").status == 422
        assert host.ended(first["id"], PATIENCE_S)["state"] == "interrupted"
        assert host.ended(waiting["id"], PATIENCE_S)["reply"] == "echo: second"
        after = host.api("GET", f"/sessions/desk/events?after={cursor}").json["items"]
        assert (after[0]["type"], after) == (host.events("desk")[2]["type"], host.events("desk")[2:])
        everywhere = host.api("GET", f"/events?after={place}").json["items"]
        assert [event["type"] for event in everywhere[:2]] == ["gap", "snapshot"], "places in the feed are not the same"
        feed = host.api("GET", f"/events?after={place}")
        assert feed.status == 422 or feed.json["items"][0]["type"] == "gap", "the feed's positions are other ones now"
        told = {old["id"], first["id"], waiting["id"]}

        def all_told() -> bool:
            delivered = host.api("GET", "/deliveries?state=delivered").json["items"]
            return told <= {each["message_id"] for each in delivered}

        until(all_told, "everything to be told, also what was pending in the old store", PATIENCE_S)

        def made_up() -> str | None:
            run = host.api("GET", "/schedules").json["items"][0]["last_run"]
            return run and run["message_id"]

        assert host.ended(until(made_up, "the run that was missed", PATIENCE_S))["reply"] == "echo: tick"

        before = host.api("GET", "/sessions/desk/export").json
        host.stop()
        back = host.home / "back"
        assert host.cli("store", "copy", database, str(back), seconds=PATIENCE_S).code == 0
        for name in ("antiphon.db", "antiphon.db-wal", "antiphon.db-shm"):
            (host.data / name).unlink(missing_ok=True)
        (back / "antiphon.db").rename(host.data / "antiphon.db")
        host.start()
        assert host.api("GET", "/status").json["store"] == "sqlite"
        assert host.api("GET", "/sessions/desk/export").json["entries"][: len(before["entries"])] == before["entries"]
        assert host.receipt(waiting["id"])["reply"] == "echo: second"
