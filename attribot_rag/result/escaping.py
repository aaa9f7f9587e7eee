"""Text from documents and answers is data: nothing in it may take effect where it is shown."""

from __future__ import annotations

import re

# Terminal controls (C0, DEL, C1), marks that turn the reading direction, invisible tags, halves of
# surrogate pairs. Joiners stay: several scripts and emoji need them.
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSEEN = re.compile("[\u00ad\u200b\u2060\ufeff]")
_LINE_BREAK = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]")
_WORD_JOINER = "\u2060"

_MARKDOWN = re.compile(
    r"^\d+(?=[.)](?:\s|$))"  # the number of a list's item
    r"|^[-+=#:]"  # other items, headings, rules
    r"|[\\`*_\[\]|~^$]"  # emphasis, code, links, tables, math
    r"|\.(?=[^\W\d_])|:(?=[/A-Za-z])|(?<!\d):(?=[\d+-])|/(?=/)",  # addresses, emoji by name
    re.MULTILINE,
)


def visible(text: str) -> str:
    """The text with control characters shown instead of sent: ESC as `␛`, others as `<U+202E>`.

    Line breaks become a line feed, tabs stay, soft hyphens and zero-width spaces go.
    """
    text = _UNSEEN.sub("", _LINE_BREAK.sub("\n", text))
    return _ACTIVE.sub(lambda match: _picture(match.group()), text)


def on_one_line(text: str) -> str:
    """The text with all white space as single spaces, control characters shown."""
    return " ".join(visible(text).split())


def file_name(path: str) -> str:
    """An absolute path without its folders, which readers elsewhere must not see; else the text."""
    return re.split(r"[\\/]", path)[-1] or path if _ABSOLUTE.match(path) else path


def escape_markdown(text: str) -> str:
    """The text so that Markdown (CommonMark, GitHub's) shows it and follows nothing in it.

    No HTML, link, image, address, mention, heading, list, quote, table, code, math or emphasis
    takes effect. Lines stay lines; white space at their ends goes.
    """
    text = "\n".join(line.strip() for line in visible(text).split("\n"))
    text = _MARKDOWN.sub(_escaped, text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An escaped @ is still read as part of an address, so it is parted from what follows.
    return text.replace("@", "@" + _WORD_JOINER)


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def _escaped(match: re.Match[str]) -> str:
    mark = match.group()
    return f"{mark}\\" if mark.isdigit() else f"\\{mark}"
