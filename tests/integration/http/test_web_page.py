"""The page's files, as they are served."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.web import page
from doubles.door import Door


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation that was made without the page."""
    page.index.cache_clear()
    page.assets.cache_clear()
    monkeypatch.setattr(page, "built", lambda: False)
    yield
    page.index.cache_clear()
    page.assets.cache_clear()


async def test_the_page_loads_only_its_own_files_which_are_there(door: Door) -> None:
    answer = await door.client.get("/")
    loaded: list[str] = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    assert len(loaded) == 3
    for path in loaded:
        assert path.startswith("/assets/")
        file = await door.client.get(path)
        assert file.status_code == 200
        assert file.headers["content-type"].partition(";")[0] in page.MEDIA_TYPES.values()
        assert file.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<style|<script(?! type=\"module\" src=)|\son\w+=", answer.text)


async def test_a_browser_that_has_a_file_is_not_sent_it_again(door: Door) -> None:
    first = await door.client.get("/")
    again = await door.client.get("/", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = await door.client.get("/", headers={"If-None-Match": '"another"'})
    assert other.status_code == 200


@pytest.mark.parametrize("name", ["none.js", "..%2findex.html", "%2e%2e", "main.py"])
async def test_nothing_else_is_served_as_a_file_of_the_page(door: Door, name: str) -> None:
    answer = await door.client.get(f"/assets/{name}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_an_installation_without_the_page_says_how_to_get_it(door: Door, unbuilt: Any) -> None:
    answer = await door.client.get("/")
    assert answer.status_code == 200
    assert "make\npage" in answer.text
    assert "<script" not in answer.text
    assert (await door.client.get("/assets/favicon.svg")).status_code == 404
