"""The documentation says what is so: its links lead somewhere, and what is generated from the code is current."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+\s+(.+?)\s*$", re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make, as code hosts make them."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_internal_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    text = FENCED.sub("", page.read_text())
    broken: list[str] = []
    for link in LINK.finditer(text):
        path, _, anchor = link["target"].partition("#")
        if re.match(r"\w+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link["target"])
    assert not broken


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        targets = (link["target"].partition("#")[0] for link in LINK.finditer(page.read_text()))
        waiting += [(page.parent / target).resolve() for target in targets if target and ":" not in target]
    assert not [name(page) for page in PAGES if page not in reached]


def test_what_is_generated_from_the_code_is_current() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
