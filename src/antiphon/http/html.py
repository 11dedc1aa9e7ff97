"""Pages: served with a policy that lets them load and run nothing, and the readable form of the OpenAPI document."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from typing import Any

from starlette.responses import Response

from antiphon.http import problems

_STYLES = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_REFERENCES = re.compile(r"#/components/schemas/(\w+)")
_METHODS = ("get", "post", "patch", "delete")
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8884; border-radius: .4rem; }
section { border-top: 1px solid #8884; margin-top: 1.5rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; }
"""


@lru_cache(maxsize=8)
def _policy(page: str) -> str:
    """A content security policy under which nothing is loaded or run but the page's own style."""
    digests = [hashlib.sha256(style.encode()).digest() for style in _STYLES.findall(page)]
    styles = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests) or "'none'"
    return f"default-src 'none'; style-src {styles}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def answer(page: str) -> Response:
    """A page that needs nothing from anywhere."""
    headers = {
        "cache-control": "no-cache",
        "content-security-policy": _policy(page),
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
    }
    return Response(page, headers=headers, media_type="text/html")


def reference(document: dict[str, Any]) -> str:
    """The OpenAPI document as a page to read, with a place for every problem code."""
    info = document["info"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>antiphon: HTTP reference</title>',
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main>',
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        '<p>For machines: <a href="/openapi.json">openapi.json</a>.</p>',
        *_contents(document),
        *_operations(document),
        *_problem_codes(),
        "<section><h2>Shapes</h2>",
        *(
            f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{escape(schema.get("description", ""))}</p>{_code(schema)}'
            for name, schema in document["components"]["schemas"].items()
        ),
        "</section></main></body></html>",
    ]
    return "\n".join(parts)


def _each_operation(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield method.upper(), path, item[method]


def _contents(document: dict[str, Any]) -> Iterator[str]:
    yield "<nav><ul>"
    for method, path, operation in _each_operation(document):
        name = escape(operation["operationId"])
        yield f'<li><a href="#{name}"><code>{method} {escape(path)}</code></a> {escape(operation["summary"])}</li>'
    yield "</ul></nav>"


def _operations(document: dict[str, Any]) -> Iterator[str]:
    for method, path, operation in _each_operation(document):
        yield f'<section id="{escape(operation["operationId"])}"><h2><code>{method} {escape(path)}</code></h2>'
        yield f"<p>{escape(operation['summary'])}. {escape(operation.get('description', ''))}</p>"
        yield from _parameters(operation.get("parameters", []))
        if "requestBody" in operation:
            yield f"<h3>Body</h3>{_contents_of(operation['requestBody'])}"
        yield "<h3>Answers</h3><table>"
        for status, response in operation["responses"].items():
            told = escape(response["description"]) + (_contents_of(response) if status < "300" else "")
            yield f"<tr><th>{escape(status)}</th><td>{told}</td></tr>"
        yield "</table></section>"


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    if parameters:
        yield "<h3>Parameters</h3><table>"
        for each in parameters:
            name, place, told = escape(each["name"]), escape(each["in"]), escape(each.get("description", ""))
            yield f"<tr><th><code>{name}</code></th><td>{place}</td><td>{told}</td></tr>"
        yield "</table>"


def _contents_of(described: dict[str, Any]) -> str:
    content = described.get("content", {})
    return "".join(f"<p><code>{escape(kind)}</code></p>{_code(each['schema'])}" for kind, each in content.items())


def _code(schema: dict[str, Any]) -> str:
    """A schema, with its references to other shapes as links."""
    text = escape(json.dumps(schema, indent=2, ensure_ascii=False))
    linked = _REFERENCES.sub(r'<a href="#\1">\1</a>', text)
    return f"<pre>{linked}</pre>"


def _problem_codes() -> Iterator[str]:
    yield "<section><h2>Problems</h2><p>Every refusal is <code>application/problem+json</code> (RFC 9457).</p><table>"
    for code, status in problems.STATUSES.items():
        title = escape(problems.TITLES[code])
        yield f'<tr id="{code}"><th><code>{code}</code></th><td>{status}</td><td>{title}.</td></tr>'
    yield "</table></section>"
