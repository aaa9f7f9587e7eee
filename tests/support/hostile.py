"""Texts that would take effect in a terminal, in Markdown or in a page if they were not escaped."""

ESCAPES = (
    *("\x1b[31mred\x1b[0m", "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07", "\x1b[2J\x1b[H"),
    *("\x9b31m", "bell\x07, back\x08space, null\x00, delete\x7f", "over\rwritten"),
    *("\u202eesrever\u202c and \u2066isolated\u2069", "tag\U000e0041\U000e0042"),
)
HALF_OF_A_PAIR = "half \ud83d of a surrogate pair"
MARKUP = ("[red]loud[/red] [link=https://evil.example]click[/link] :bomb:", "[/] [unclosed")
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

# What would run, load or lead somewhere in a web page.
HTML = (
    *("<script>alert(1)</script>", "<SCRIPT SRC=https://evil.example/x.js></SCRIPT>"),
    *("</script><script>alert(1)</script>", "</style><script>alert(1)</script>"),
    *("<style>body{display:none}</style>", "<style>@import 'https://evil.example/x.css';</style>"),
    *("<img src=x onerror=alert(1)>", "<img src=https://evil.example/pixel.png>"),
    *("<svg onload=alert(1)>", "<svg><script>alert(1)</script></svg>"),
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    *("<math><mi xlink:href='javascript:alert(1)'>x</mi></math>", "<body onload=alert(1)>"),
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    *("<object data=javascript:alert(1)></object>", "<embed src=javascript:alert(1)>"),
    "<a href=javascript:alert(1)>click</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>click</a>",
    "<form action=https://evil.example><input type=submit></form>",
    *("<button formaction=javascript:alert(1)>x</button>", "<input autofocus onfocus=alert(1)>"),
    *("<details open ontoggle=alert(1)>", "<video><source onerror=alert(1)></video>"),
    *("<audio src=x onerror=alert(1)>", "<marquee onstart=alert(1)>x</marquee>"),
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    *("<base href=https://evil.example/>", "<link rel=stylesheet href=https://evil.example/x.css>"),
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    *("<!-- comment --><b>bold</b><!-- unclosed", "<![CDATA[<script>alert(1)</script>]]>"),
    *("<?xml version='1.0'?><x/>", "<!DOCTYPE html><html>"),
    "</div></section></main></body></html><h1>outside</h1>",
    *("</p></article><script>alert(1)</script>", "</textarea><script>alert(1)</script>"),
    *("<title>other</title>", "<b unclosed attribute='", "<<script>alert(1)//<</script>"),
    *("<scr\x00ipt>alert(1)</scr\x00ipt>", "<img/src=`x`onerror=alert(1)>"),
    "&lt;script&gt;alert(1)&lt;/script&gt; &#x3C;b&#x3E; &nbsp; &copy;",
    *('" onmouseover="alert(1)" x="', "' onmouseover='alert(1)' x='", "` onmouseover=`alert(1)`"),
    "{{ 7 * 7 }} {% raw %} {# comment #} ${7*7} #{7*7} <%= 7*7 %>",
    *("\\u003cscript\\u003ealert(1)\\u003c/script\\u003e", "'];alert(1);//  \"}];alert(1);//"),
    *("</script><!--<script>", "\u2028alert(1)\u2029", "＜script＞alert(1)＜/script＞"),
    "javascript:alert(1) JaVaScRiPt:alert(1) java\tscript:alert(1)",
    "vbscript:msgbox(1) data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "expression(alert(1)) url(javascript:alert(1)) behavior:url(x)",
    "<div style='position:fixed;inset:0;background:red'>covered</div>",
    "<p id=__proto__ name=constructor>",
    "\U0001f469\u200d\U0001f4bb \u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "x\u0300" * 40,
)
ADDRESSES = (
    *("javascript:alert(1)", " javascript:alert(1)", "JAVASCRIPT:alert(1)"),
    *("java\nscript:alert(1)", "data:text/html,<script>alert(1)</script>", "vbscript:msgbox(1)"),
    *("file:///etc/passwd", "//evil.example", 'https://evil.example/" onmouseover="alert(1)'),
    "https://evil.example/'><script>alert(1)</script>",
)
