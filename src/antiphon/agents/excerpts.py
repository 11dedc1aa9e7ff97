"""The outputs of tools, which may be of any length, as far as a journal should keep them."""

OUTPUT_MAX = 32_768
"""Characters of an output that are kept: half of its beginning, half of its end."""


def shortened(text: str) -> str:
    """A text of at most `OUTPUT_MAX` characters and a remark on what was left out."""
    if len(text) <= OUTPUT_MAX:
        return text
    half = OUTPUT_MAX // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
