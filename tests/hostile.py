"""Texts that would take effect in a terminal or in Markdown if they were not escaped."""

ESCAPES = (
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07",
    "\x1b[2J\x1b[H",
    "\x9b31m",
    "bell\x07, back\x08space, null\x00, delete\x7f",
    "over\rwritten",
    "\u202eesrever\u202c and \u2066isolated\u2069",
    "tag\U000e0041\U000e0042",
)
HALF_OF_A_PAIR = "half \ud83d of a surrogate pair"
MARKUP = (
    "[red]loud[/red] [link=https://evil.example]click[/link] :bomb:",
    "[/] [unclosed",
)
MARKDOWN = (
    "<script>alert(1)</script> <b>bold</b> <!-- hidden --> &lt;i&gt; &#60;",
    "[click](https://evil.example) <https://evil.example>",
    "![image](https://evil.example/pixel.png)",
    "[1]: https://evil.example\n\n[1] [^1]\n\n[^1]: note",
    "https://evil.example www.evil.example evil.example ftp://evil.example //evil.example",
    "someone@evil.example @someone mailto:someone@evil.example xmpp:a@evil.example/b",
    "# Heading\n\nSetext\n===\n\nSetext\n---\n\n***\n\n- - -",
    "- item\n+ item\n* item\n1. item\n2) item\n- [ ] task",
    "> quote\n\n    code\n\n```\ncode\n```\n\n~~~\ncode\n~~~",
    "**strong** _emphasis_ __strong__ ~~struck~~ `code` $math$ a*b*c",
    "| a | b |\n|---|---|\n| c | d |",
    "back\\slash \\* \\[x\\](y) two  \nlines\\\nmore",
)
HOSTILE = (*ESCAPES, *MARKUP, *MARKDOWN, "long" * 500)
