"""Sessions over HTTP: keys of every kind, merge patches, revisions, lists, export and import."""

import http.client
import json
from urllib.parse import quote

import anyio.to_thread
import pytest

from doubles.door import TOKEN, Door

ODD_KEYS = [
    "a/b", "..", ".", "a+b c", "%2F?#&", "ключ😀", "x" * 256, "a%b", ";p=1", "//", "import", " ", "\u2028",
]  # fmt: skip


def request(port: int, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
    """A request whose path goes out exactly as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, json.dumps(body), {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


@pytest.mark.parametrize("key", ODD_KEYS)
async def test_a_key_of_any_kind_leads_to_its_session(door: Door, key: str) -> None:
    made = await door.session(key)
    path = f"/v1/sessions/{quote(key, safe='')}"
    status, shown = await anyio.to_thread.run_sync(request, door.port, "GET", path)
    assert (status, shown["key"], shown["id"]) == (200, key, made["id"])
    status, receipt = await anyio.to_thread.run_sync(request, door.port, "POST", f"{path}/messages", {"text": "x"})
    assert (status, receipt["session_key"]) == (202, key)
    assert await anyio.to_thread.run_sync(request, door.port, "DELETE", path) == (204, {})


@pytest.mark.parametrize("key", ["", "k" * 257, "a\nb", "\x00", "\x7f", "\x85", "ses_x", 5, [], None])
async def test_what_can_not_be_a_key_is_refused(door: Door, key: object) -> None:
    answer = await door.client.post("/v1/sessions", json={"agent": "parrot", "key": key})
    if key is None:
        assert answer.json()["key"] is None
    else:
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        assert answer.json()["errors"][0]["pointer"] == "/key"


@pytest.mark.parametrize("segment", ["%00", "a%0Ab", "%ff", "x" * 257, "%ED%A0%80"])
async def test_a_path_that_names_no_session_is_refused(door: Door, segment: str) -> None:
    status, problem = await anyio.to_thread.run_sync(request, door.port, "GET", f"/v1/sessions/{segment}")
    assert (status, problem["code"]) == (422, "invalid_request")


async def test_a_key_in_use_is_refused_or_its_session_returned(door: Door) -> None:
    made = await door.session("k")
    body = {"agent": "parrot", "key": "k"}
    taken = await door.client.post("/v1/sessions", json=body)
    assert (taken.status_code, taken.json()["code"], taken.json()["session_id"]) == (
        409, "session_exists", made["id"],
    )  # fmt: skip
    found = await door.client.post("/v1/sessions", json=body | {"if_exists": "return"})
    assert (found.status_code, found.json()["id"]) == (200, made["id"])
    assert found.headers["location"] == f"/v1/sessions/{made['id']}"


async def test_a_patch_merges_and_the_revision_guards_it(door: Door) -> None:
    made = await door.session(title="first", labels={"a": "1", "b": "2"}, settings={"x": {"y": 1, "z": 2}})
    path = "/v1/sessions/s"
    patch = {"title": None, "labels": {"a": None, "c": "3"}, "settings": {"x": {"y": None}}, "when_busy": "collect"}
    changed = await door.client.patch(path, json=patch, headers={"If-Match": f'"{made["revision"]}"'})
    shown = changed.json()
    assert changed.status_code == 200
    assert (shown["title"], shown["labels"], shown["settings"]) == (None, {"b": "2", "c": "3"}, {"x": {"z": 2}})
    assert shown["when_busy"] == "collect"
    assert changed.headers["etag"] == f'"{shown["revision"]}"'
    stale = await door.client.patch(path, json={"title": "x"}, headers={"If-Match": str(made["revision"])})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    assert (await door.client.get(path)).json()["title"] is None


@pytest.mark.parametrize("value", ["x", "", 'W/"1"', '"1', "-1", "1, 2", "1.0"])
async def test_an_if_match_that_is_no_revision_is_refused(door: Door, value: str) -> None:
    await door.session()
    answer = await door.client.patch("/v1/sessions/s", json={"title": "x"}, headers={"If-Match": value})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("patch", "pointer"),
    [
        ({"bogus": 1}, "/bogus"),
        ({"title": 7}, "/title"),
        ({"title": "t" * 501}, "/title"),
        ({"labels": {"a": 1}}, "/labels/a"),
        ({"labels": {"": "x"}}, "/labels/"),
        ({"labels": {"n" * 65: "x"}}, f"/labels/{'n' * 65}"),
        ({"labels": {f"n{n}": "x" for n in range(65)}}, "/labels"),
        ({"cwd": "relative"}, "/cwd"),
        ({"when_busy": "bogus"}, "/when_busy"),
        ({"settings": []}, "/settings"),
        ({"settings": {"x": "y" * 17_000}}, "/settings"),
        ({"settings": {"x": 2**64}}, "/settings"),
        ({"key": "other"}, "/key"),
    ],
)
async def test_a_patch_of_the_wrong_form_names_the_field(door: Door, patch: object, pointer: str) -> None:
    await door.session()
    answer = await door.client.patch("/v1/sessions/s", json=patch)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert pointer in answer.json()["detail"]


async def test_sessions_are_listed_in_pages_and_by_what_they_are(door: Door) -> None:
    for number in range(3):
        await door.session(f"k{number}", labels={"n": f"={number}"}, title=f"title {number}")
    keys: list[str] = []
    cursor, pages = "", 0
    while pages < 5:
        page = (await door.client.get(f"/v1/sessions?limit=1{cursor}")).json()
        keys += [item["key"] for item in page["items"]]
        pages += 1
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={quote(page['next_cursor'])}"
    assert keys == ["k2", "k1", "k0"]
    await door.client.post("/v1/sessions/k1/stop")
    for query, found in {
        "status=stopped": ["k1"],
        "status=stopped&status=dormant": ["k1", "k2", "k0"],
        "label=n%3D%3D2": ["k2"],
        "q=title%200": ["k0"],
        "agent=nobody": [],
    }.items():
        items = (await door.client.get(f"/v1/sessions?{query}")).json()["items"]
        assert sorted(item["key"] for item in items) == sorted(found), query


@pytest.mark.parametrize(
    "query",
    [
        "limit=x", "limit=-1", "limit=0", "limit=201", "limit=1&limit=2", "cursor=x", "cursor=", "status=x", "label=x",
        "bogus=1", "q=%00", "q=%ff", "q=",
    ],
)  # fmt: skip
async def test_a_query_of_the_wrong_form_is_refused(door: Door, query: str) -> None:
    answer = await door.client.get(f"/v1/sessions?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text


async def test_a_session_stops_resumes_clears_and_is_deleted(door: Door) -> None:
    made = await door.session()
    assert (await door.client.post("/v1/sessions/s/stop")).json()["status"] == "stopped"
    refused = await door.send("no")
    assert (refused.status_code, refused.json()["code"]) == (409, "session_stopped")
    assert (await door.client.post("/v1/sessions/s/resume")).json()["status"] != "stopped"
    assert (await door.client.post("/v1/sessions/s/clear")).json()["generation"] == made["generation"] + 1
    assert (await door.client.delete("/v1/sessions/s")).status_code == 204
    gone = await door.client.get(f"/v1/sessions/{made['id']}")
    assert (gone.status_code, gone.json()["code"]) == (404, "session_not_found")


async def test_an_export_can_be_imported_with_its_transcript(door: Door) -> None:
    await door.session("kept")
    await door.send("remember", "kept", Prefer="wait=5")
    exported = await door.client.get("/v1/sessions/kept/export")
    assert exported.json()["antiphon_export"] == 1
    assert "attachment" in exported.headers["content-disposition"]
    await door.client.delete("/v1/sessions/kept")
    made = await door.client.post("/v1/sessions/import", content=exported.content)
    assert (made.status_code, made.json()["key"]) == (201, "kept")
    transcript = await door.client.get(f"{made.headers['location']}/transcript")
    assert [line["text"] for line in transcript.json()["items"]] == ["remember", "parrot: remember"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"antiphon_export": 2}', b'{"x": NaN}', b"[" * 300, b'{"a":"\\u0000"}']
)
async def test_an_import_of_something_else_is_refused(door: Door, body: bytes) -> None:
    answer = await door.client.post("/v1/sessions/import", content=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text


@pytest.mark.parametrize("cwd", ["/" + "x" * 4000, "/nowhere/at/all", "/dev/null", "/dev/null/x"])
async def test_a_directory_that_is_none_is_refused(door: Door, cwd: str) -> None:
    answer = await door.client.post("/v1/sessions", json={"agent": "parrot", "cwd": cwd})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    await door.session()
    answer = await door.client.patch("/v1/sessions/s", json={"cwd": cwd})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_messages_that_wait_in_an_import_run_only_when_it_is_resumed(door: Door) -> None:
    await door.session("busy")
    held = (await door.send("[[hold]] first", "busy")).json()["id"]
    queued = (await door.send("second", "busy")).json()["id"]
    exported = await door.client.get("/v1/sessions/busy/export")
    made = (await door.client.post("/v1/sessions/import", content=exported.content)).json()
    assert (made["status"], made["queued"]) == ("stopped", 1)
    [copied] = (await door.client.get(f"/v1/sessions/{made['id']}/queue")).json()["items"]
    assert "resume" in copied["waiting_for"]
    await door.client.post(f"/v1/sessions/{made['id']}/resume")
    wait = {"Prefer": "wait=5"}
    assert (await door.client.get(f"/v1/messages/{copied['id']}", headers=wait)).json()["reply"] == "parrot: second"
    door.parrot.release()
    for message_id in (held, queued):
        assert (await door.client.get(f"/v1/messages/{message_id}", headers=wait)).json()["state"] == "answered"
