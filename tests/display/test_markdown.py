import re

import cmarkgfm
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support.attributions import ISLAND, handmade
from support.hostile import HALF_OF_A_PAIR, HOSTILE

from attribot_rag import Document
from attribot_rag.display import render_markdown

EXPECTED = """\
The ferry carries 84 people. \\[1 or 2\\] A ticket costs 18 crowns. \\[1\\] It is a fine trip.

\\[1\\] **ferry\\.txt#2**
> The ferry carries 84 passengers.
>
> A single ticket costs 18 crowns.

\\[2\\] **Lamp Night (festival\\.md#3)**
> The ferry carries 84 passengers.

**Top 4 of 4 sources, in nats**

| Score | Share | Source | Document |
|---:|:---|:---|:---|
| 12.64 | ██████████ | The ferry carries 84 passengers. | \\[1 or 2\\] ferry\\.txt#2 or Lamp Night (festival\\.md#3) |
| 8.50 | ██████▊ | A single ticket costs 18 crowns. | \\[1\\] ferry\\.txt#2 |
| 0.00 | ▏ | The museum is open on Saturdays only. | document 3 |
| \\-0.45 | ░ | Book early. | Lamp Night (festival\\.md#3) |

Negative: the answer is more likely without that source.

*leave-one-out in 3.21 s on smollm2 (packed, float32, cpu), 635 prompt tokens, 11,794 tokens scored in 14 passes*
"""  # noqa: E501
TEXT_TAGS = {"p", "br", "strong", "em", "blockquote", "ul", "li"}
TABLE_TAGS = {"table", "thead", "tbody", "tr", "th", "td"}


def test_answer_citations_sources_and_provenance() -> None:
    assert render_markdown(ISLAND) == EXPECTED


def test_paragraphs_of_the_answer_stay() -> None:
    attribution = handmade("One.\n\n    Two.\nThree.", ["One."], {"One.": (3.0, 0.0, 0.0)})
    rendered = MarkdownIt("commonmark").render(render_markdown(attribution))
    assert rendered.startswith("<p>One. [1]</p>\n<p>Two.<br />\nThree.</p>")


@given(
    response=st.one_of(st.sampled_from(HOSTILE), st.text()),
    text=st.one_of(st.sampled_from((*HOSTILE, HALF_OF_A_PAIR)), st.text()),
    identifier=st.one_of(st.sampled_from((*HOSTILE, HALF_OF_A_PAIR)), st.text()),
)
def test_hostile_texts_take_no_effect(response: str, text: str, identifier: str) -> None:
    attribution = handmade(
        f"{response} Answer.",
        [Document(f"{text} Source.", identifier, {"title": text}), "Other."],
        {f"{text} Source.": (5.0,) * 9, "Other.": (1.0,)},
        notes=(text,),
    )
    markdown = render_markdown(attribution)
    unsafe = cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE
    for rendered in (
        cmarkgfm.github_flavored_markdown_to_html(markdown, options=unsafe),
        MarkdownIt("gfm-like").render(markdown),
    ):
        tags = re.findall(r"<\s*/?\s*(\w+)", rendered)
        assert set(tags) <= TEXT_TAGS | TABLE_TAGS
        assert rendered.count("<td") == 8
        assert rendered.count("<table") == rendered.count("<blockquote") == 1
        assert rendered.count("<em>") == 1
