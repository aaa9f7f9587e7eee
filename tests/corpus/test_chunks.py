import zipfile
from pathlib import Path

import pytest
from support.pdf_files import pdf

from attribot_rag import Document
from attribot_rag.corpus import CHUNK_CHARACTERS, read_chunks, retrieve
from attribot_rag.errors import InvalidInput

CORPUS = Path(__file__).parents[2] / "examples" / "corpus"


def test_chunks_cover_every_file_in_order_and_do_not_overlap() -> None:
    chunks = read_chunks([CORPUS])
    files = sorted(CORPUS.iterdir())
    assert list(dict.fromkeys(chunk.metadata["file"] for chunk in chunks)) == list(map(str, files))
    for file in files:
        text = file.read_text(encoding="utf-8")
        own = [chunk for chunk in chunks if chunk.metadata["file"] == str(file)]
        assert [chunk.id for chunk in own] == [f"{file.name}#{n + 1}" for n in range(len(own))]
        end = 0
        for chunk in own:
            start = chunk.metadata["start"]
            assert text[start : start + len(chunk.text)] == chunk.text
            assert not text[end:start].strip()
            end = start + len(chunk.text)
            assert len(chunk.text) <= CHUNK_CHARACTERS[1]
        assert not text[end:].strip()


def test_markdown_is_cut_at_its_headings() -> None:
    chunks = read_chunks([CORPUS / "festival.md"])
    assert [chunk.text.split("\n")[0] for chunk in chunks] == [
        "# Lamp Night",
        "## The programme",
        "## Food and drink",
    ]


def test_a_file_counts_once_and_equal_names_get_different_ids(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "notes.txt").write_text(f"Notes of {folder}.")
    chunks = read_chunks([tmp_path, tmp_path / "a" / "notes.txt"])
    assert [chunk.text for chunk in chunks] == ["Notes of a.", "Notes of b."]
    assert [chunk.id for chunk in chunks] == [
        f"{tmp_path.as_posix()}/{folder}/notes.txt#1" for folder in ("a", "b")
    ]


def test_folders_are_searched_through_but_for_hidden_and_other_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "deep" / ".hidden").mkdir(parents=True)
    (tmp_path / "deep" / "READ.MD").write_text("# Read me")
    (tmp_path / "deep" / ".hidden" / "secret.md").write_text("# Secret")
    (tmp_path / "deep" / "price-list.xyz").write_text("a,b")
    (tmp_path / "empty.txt").write_text("")
    assert [chunk.id for chunk in read_chunks([tmp_path])] == ["READ.MD#1"]
    empty, other = caplog.messages
    assert empty == f"Skipped: {tmp_path / 'empty.txt'} is empty"
    assert other.startswith(f"Skipped: {Path('deep', 'price-list.xyz')} (only .md, ")
    for number in range(30):
        (tmp_path / f"{number:02}.png").touch()
    read_chunks([tmp_path])
    assert caplog.messages[-1].startswith("Skipped: 00.png, 01.png, ")
    assert "09.png and 21 more (only" in caplog.messages[-1]


PAGE = """<!DOCTYPE html><title>Home</title><style>p { color: red }</style><!-- none -->
<script>alert("script")</script><h1>Ferry</h1>
<p>The <b>ferry</b> carries <a href="javascript:alert(1)">84 passengers</a>.<br>It is_red*.</p>
<table><tr><td>Kind</td><td>Price</td></tr><tr><td>child</td><td>9&nbsp;crowns</td></tr></table>"""
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
SCHEMAS = "http://schemas.openxmlformats.org"


def docx(file: Path, body: str) -> Path:
    """A DOCX file with these elements as its body, in the namespace `w`."""
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{SCHEMAS}/package/2006/content-types">'
        f'<Override PartName="/word/document.xml" ContentType="{MAIN}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{SCHEMAS}/package/2006/relationships"><Relationship '
        f'Id="r" Type="{SCHEMAS}/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{SCHEMAS}/wordprocessingml/2006/main">'
        f"<w:body>{body}</w:body></w:document>",
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return file


def test_html_is_read_as_markdown_without_what_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE, "utf-8")
    (chunk,) = read_chunks([tmp_path])
    assert chunk.text == (
        "# Ferry\n\nThe ferry carries 84 passengers.\nIt is_red*.\n\n"
        "| Kind | Price |\n| --- | --- |\n| child | 9\xa0crowns |"
    )
    assert chunk.id == "page.html#1"


def test_docx_is_read_with_its_headings_and_tables(tmp_path: Path) -> None:
    def paragraph(text: str, style: str = "") -> str:
        named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
        return f"<w:p>{named}<w:r><w:t>{text}</w:t></w:r></w:p>"

    row = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("child", "9 crowns"))
    table = f"<w:tbl><w:tr>{row}</w:tr></w:tbl>"
    file = docx(tmp_path / "prices.docx", paragraph("Prices", "Heading1") + table)
    (chunk,) = read_chunks([file])
    assert chunk.text == "# Prices\n\n| child | 9 crowns |\n| --- | --- |"


def test_csv_is_read_line_by_line(tmp_path: Path) -> None:
    lines = [f"{number};Ferry {number};{number + 10} crowns" for number in range(200)]
    (tmp_path / "prices.csv").write_text("\n".join(["number;ferry;price", *lines]), "utf-8")
    chunks = read_chunks([tmp_path])
    assert "\n".join(chunk.text for chunk in chunks).split("\n") == ["number;ferry;price", *lines]
    assert "7;Ferry 7;17 crowns" in retrieve("What is the price of Ferry 7?", chunks, 1)[0].text


def test_byte_order_mark_and_other_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "windows.txt"
    file.write_bytes("\ufeffOne.\r\nTwö.\r\n".encode())
    assert [chunk.text for chunk in read_chunks([file])] == ["One.\nTwö."]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.txt", "there is no file"),
        ("page.xyz", "is not a .md, .txt, .csv, .html, .htm, .docx or .pdf file"),
        ("empty.txt", "is empty"),
        (f"{'long' * 100}.txt", "cannot be read: "),
    ],
)
def test_a_missing_or_unsuitable_file_is_named(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "page.xyz").write_text("<p>")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InvalidInput, match=message) as raised:
        read_chunks([tmp_path / name])
    assert str(tmp_path / name) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("latin.txt", "na\xefve".encode("latin-1"), "is not UTF-8 text"),
        ("blank.md", b" \n\n", "is empty"),
        ("paper.pdf", b"%PDF", "cannot be read: Failed to load document"),
        ("letter.docx", b"PK", "cannot be read as DOCX"),
        ("deep.html", b"<div>" * 5000 + b"deep", "cannot be read as HTML"),
        ("bare.html", b"<script>alert(1)</script>", "is empty"),
    ],
)
def test_an_unreadable_file_is_named_and_does_not_stop_its_folder(
    tmp_path: Path, name: str, content: bytes, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=message) as raised:
        read_chunks([tmp_path / name])
    assert str(tmp_path / name) in str(raised.value)
    (tmp_path / "bell.txt").write_text("The bell is green.")
    assert [chunk.id for chunk in read_chunks([tmp_path])] == ["bell.txt#1"]
    (logged,) = caplog.messages
    assert logged.startswith(f"Skipped: {tmp_path / name} ")


def test_links_out_of_a_folder_are_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inside, outside = tmp_path / "served", tmp_path / "secret"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "bell.txt").write_text(f"The bell is {folder.name}.")
    (inside / "link.txt").symlink_to(outside / "bell.txt")
    (inside / "folder").symlink_to(outside)
    (inside / "same.md").symlink_to(inside / "bell.txt")
    assert [chunk.text for chunk in read_chunks([inside])] == ["The bell is served."]
    assert any("link.txt is a link out of the folder" in message for message in caplog.messages)
    named = read_chunks([inside / "link.txt"])
    assert [chunk.text for chunk in named] == ["The bell is secret."]
    by_link = tmp_path / "by link"
    by_link.symlink_to(inside)
    assert [chunk.text for chunk in read_chunks([by_link])] == ["The bell is served."]


def test_a_folder_without_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(InvalidInput, match="file with text is in the folder") as raised:
        read_chunks([tmp_path])
    assert str(tmp_path) in str(raised.value)


def test_a_folder_s_scanned_pdf_is_left_out_unless_it_is_named_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scanned = pdf(tmp_path / "scanned.pdf", [""])
    with pytest.raises(InvalidInput, match="file with text is in the folder"):
        read_chunks([tmp_path])
    (tmp_path / "bell.txt").write_text("The bell is green.")
    (tmp_path / "blank.md").write_text("\n")
    caplog.clear()
    assert [chunk.id for chunk in read_chunks([tmp_path])] == ["bell.txt#1"]
    blank, textless = caplog.messages
    assert "blank.md is empty" in blank and "scanned.pdf has no text" in textless
    with pytest.raises(InvalidInput, match="has no text"):
        read_chunks([tmp_path, scanned])


def test_a_pdf_s_chunks_know_their_pages(tmp_path: Path) -> None:
    lines = [f"The harbour crane lifted {number} crates of fish.\n" for number in range(1, 31)]
    pages = ["".join(lines[:10]), "".join(lines[10:12]) + "The crane was", "purple in 1931."]
    chunks = read_chunks([pdf(tmp_path / "harbour.pdf", pages).parent])
    assert [chunk.metadata["page_label"] for chunk in chunks] == ["1", "2–3"]
    assert "The crane was\npurple in 1931." in chunks[1].text
    assert [chunk.id for chunk in chunks] == ["harbour.pdf#1", "harbour.pdf#2"]


def test_the_best_chunks_come_first() -> None:
    chunks = read_chunks([CORPUS])
    retrieved = retrieve("When was Lamp Night first held?", chunks, 3)
    assert [chunk.id for chunk in retrieved] == ["festival.md#1", "festival.md#3", "festival.md#2"]


def test_chunks_without_a_word_of_the_question_are_left_out() -> None:
    chunks = [Document(text) for text in ("Seals sleep.", "Puffins nest.", "Puffins fly away.")]
    assert retrieve("Where do puffins live?", chunks, 2) == [chunks[1], chunks[2]]
    assert retrieve("Where do seals live?", chunks, 2) == [chunks[0]]


@pytest.mark.parametrize(
    ("question", "answer", "fillers"),
    [
        (
            "灯塔是哪一年点亮的？",
            "灯塔于一八六八年首次点亮，塔高三十八米。",
            ["渡轮每天九点从码头出发。", "博物馆星期日不开放。", "学校的果园在秋天出售苹果。"],
        ),
        (
            "घंटी किसने बनाई?",
            "पुरानी घंटी एक लोहार ने बनाई थी।",
            ["नाव नौ बजे जाती है।", "संग्रहालय मंगलवार को बंद है।", "सेब पतझड़ में बिकते हैं।"],
        ),
    ],
)
def test_retrieval_in_scripts_without_spaces_and_with_combining_vowels(
    question: str, answer: str, fillers: list[str]
) -> None:
    chunks = [Document(text) for text in [*fillers, answer]]
    assert retrieve(question, chunks, 2)[0].text == answer


@pytest.mark.parametrize("question", ["Zebras?", "Is it?", "?"])
def test_a_question_without_a_known_word_is_an_error(question: str) -> None:
    chunks = [Document(f"Puffins nest in {year}.") for year in range(1990, 2000)]
    with pytest.raises(InvalidInput, match="none of the 10 chunks has a word of the question"):
        retrieve(question, chunks, 4)
