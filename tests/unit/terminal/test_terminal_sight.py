"""What others wrote, made fit for the eye."""

from hypothesis import given
from hypothesis import strategies as st
from markdown_it.token import Token

from antiphon.cli.output import visible
from antiphon.terminal.sight import markdown_parser, plain, row, source

NASTY = (
    st.text(st.sampled_from("a b[]<>&#x;\\`*_~|\n\r\t\x1b\x9b\x07\x00\x85\u2028\u202e\u2066(https://)!-1.")) | st.text()
)


def texts(tokens: list[Token]) -> str:
    """All that could be drawn."""
    words: list[str] = []
    for token in tokens:
        words += [token.content, token.info, *map(str, token.attrs.values()), texts(token.children or [])]
    return "".join(words)


@given(NASTY)
def test_nothing_that_is_drawn_holds_a_control_character(text: str) -> None:
    drawn = plain(text).plain + texts(markdown_parser().parse(source(text)))
    assert visible(drawn) == drawn
    assert "\n" not in row(text).plain


@given(st.sampled_from([0x202E, 0x9B, 0x1B, 0x200F, 0x2066]))
def test_a_character_that_an_entity_hides_is_shown_too(code: int) -> None:
    for entity in (f"&#{code};", f"&#x{code:x};", f"[x](http://h/&#{code};)", f"```&#{code};\nx\n```"):
        drawn = texts(markdown_parser().parse(source(entity)))
        assert visible(drawn) == drawn


def test_html_and_markup_are_text() -> None:
    assert "<script>" in texts(markdown_parser().parse("<script>x</script>"))
    assert plain("[red]x[/red] [@click=app.quit]y[/]").plain == "[red]x[/red] [@click=app.quit]y[/]"
    assert plain("[red]x[/red]").spans == []
