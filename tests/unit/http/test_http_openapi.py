"""The OpenAPI document: valid, complete, and kept beside the documentation."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from antiphon.http import problems
from antiphon.http.html import answer, reference
from antiphon.http.openapi import document
from antiphon.http.table import ROUTES

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "openapi.json"
DOCUMENT = document()
OPERATIONS = [(path, method) for path, item in DOCUMENT["paths"].items() for method in item]


def references(value: Any) -> set[str]:
    return set(re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(value)))


def test_every_reference_leads_to_a_shape_and_every_shape_is_used() -> None:
    used, schemas = references(DOCUMENT["paths"]), DOCUMENT["components"]["schemas"]
    while more := {name for shape in used for name in references(schemas[shape])} - used:
        used |= more
    assert used | {"EventView"} == set(schemas)


def test_every_route_is_in_it_once() -> None:
    assert len(OPERATIONS) == len(ROUTES)
    names = [DOCUMENT["paths"][path][method]["operationId"] for path, method in OPERATIONS]
    assert len(set(names)) == len(names)
    assert DOCUMENT["openapi"].startswith("3.1")


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_an_operation_says_what_it_is_and_how_it_refuses(path: str, method: str) -> None:
    operation = DOCUMENT["paths"][path][method]
    assert operation["summary"]
    refusals = {status for status in operation["responses"] if status >= "400"}
    assert {"403", "500"} <= refusals
    assert path.startswith("/v1") == ("security" in operation) == ("422" in refusals)
    for status in refusals:
        assert set(operation["responses"][status]["content"]) == {problems.MEDIA_TYPE}


def test_the_document_beside_the_documentation_is_this_one() -> None:
    assert json.loads(REFERENCE.read_text()) == DOCUMENT, "run `make docs`"


def test_the_pages_may_load_and_run_nothing() -> None:
    unbuilt = files("antiphon.web").joinpath("unbuilt.html").read_text()
    for html in (reference(DOCUMENT), unbuilt):
        assert not re.search(r"<script|\bsrc=|@import|url\(|\son\w+=|style=", html)
        assert not re.search(r'href="(?!/|#)', html)
        policy = answer(html).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_every_problem_has_a_place_in_the_docs() -> None:
    html = reference(DOCUMENT)
    assert all(f'id="{code}"' in html for code in problems.STATUSES)
