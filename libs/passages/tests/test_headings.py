"""Headings of texts and of source code."""

from __future__ import annotations

import json

import pytest

from searchbus_passages.chunking import cut
from searchbus_passages.headings import CODE_SUFFIXES, find_code_headings, find_headings
from searchbus_testing.waiting import work_ends

PARAGRAPH = (
    "Participants noted that spending had grown at a solid pace in recent months and that the "
    "labor market had remained tight by any measure that the staff reviewed for the meeting. "
)


def test_headings_on_their_own_lines_are_sections():
    """As in the minutes since 2020; names and dates are not headings."""
    text = (
        "Minutes of a Committee\n\nJanuary 5-6, 2021\n\nPRESENT:\nJane Q. Doe, Chair\nJohn Roe\n\n"
        "Ann Poe, Secretary\n\nStaff Review of the Weather\n" + PARAGRAPH * 3 + "\n\n"
        "Members' Views on Rain and the Outlook\n" + PARAGRAPH * 2 + "\n\n"
        "Notation Vote\n" + PARAGRAPH
    )  # fmt: skip
    assert [h.title for h in find_headings(text)] == [
        "Staff Review of the Weather",
        "Members' Views on Rain and the Outlook",
        "Notation Vote",
    ]
    sections = [chunk.section for chunk in cut(text)]
    assert sections[0] is None
    assert sections[-1] == "Notation Vote"


def test_set_phrases_are_sections_in_texts_without_lines():
    """As in the minutes before 2020, where headings stand inside one long line."""
    text = (
        "A meeting was held. PRESENT: Mr. A, Chair Ms. B, Economist, Reserve Bank of Richmond "
        "Annual Organizational Matters4 In the agenda it was reported that advices were received. "
        "Developments in Financial Markets and the Federal Reserve's Balance Sheet The Manager "
        "reported. Staff Review of the Economic Situation The information reviewed suggested "
        "growth. The staff review of the economic situation was long. Staff Economic Outlook In "
        "the forecast, growth was slower. Committee Policy Action In their discussion, members "
        "agreed. The meeting adjourned. Notation VoteBy notation vote the minutes were approved."
    )
    assert [h.title for h in find_headings(text)] == [
        "Annual Organizational Matters",
        "Developments in Financial Markets and the Federal Reserve's Balance Sheet",
        "Staff Review of the Economic Situation",
        "Staff Economic Outlook",
        "Committee Policy Action",
        "Notation Vote",
    ]


def test_markdown_headings_are_sections_outside_of_code():
    """A comment in a code block is not a heading."""
    text = "# Title\n\nIntro.\n\n```sh\n# not this\n```\n\n## Use `it` ##\n\nMore.\n"
    assert [h.title for h in find_headings(text, markdown=True)] == ["Title", "Use `it"]


@pytest.mark.parametrize("markdown", [False, True])
@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("River life\n==========\n\nText.\n\nNests\n-----\nText.", ["River life", "Nests"]),
        ("=====\r\nNests\r\n=====\r\n\r\nText.", ["Nests"]),
        ("``sing``\n--------\n\nText.", ["sing"]),
        ("wren  9\n-----------\nrook  4\n-----------", []),
        ("---\ntitle: Nests\n---\n\nText.", []),
        ("A paragraph above a rule.\n---\n\nText.", []),
        ("Bird   Grams\n=====  =====\nwren   9\n=====  =====", []),
        ("| bird |\n|------|\n| wren |", []),
    ],
)
def test_underlined_titles_are_headings(text, titles, markdown):
    """Of reStructuredText, plain text and Markdown; no front matter, rule or table is one."""
    assert [h.title for h in find_headings(text, markdown=markdown)] == titles


@pytest.mark.parametrize("text", ["Sing\n~~~~\nls\n~~~~", "Sing\n****\n\nText."])
def test_what_else_underlines_is_another_thing_in_markdown(text):
    """A fence of code, and a break between paragraphs."""
    assert [h.title for h in find_headings(text)][:1] == ["Sing"]
    assert find_headings(text, markdown=True) == []


def test_an_underlined_title_leaves_the_others():
    """A text may have both."""
    text = f"Weather of the Week\n{PARAGRAPH}\n\nVotes\n-----\nAll.\n\nRain and Wind\n{PARAGRAPH}"
    titles = [heading.title for heading in find_headings(text)]
    assert titles == ["Weather of the Week", "Votes", "Rain and Wind"]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("```\n# no\n~~~\n# no\n```\n# yes\n~~~\n# no\n~~~  \n# yes", ["yes", "yes"]),
        ("```sh\n# no\n```py\n# no\n```\n# yes", ["yes"]),
        ("~~~\n# yes\n```\n# no\n```\n# yes", ["yes", "yes"]),
        ("```\n# yes\n```sh\n# yes", ["yes", "yes"]),
        ("# yes\n``` ", ["yes"]),
    ],
)
def test_code_ends_at_a_bare_fence_of_its_kind(text, titles):
    """One that nothing closes is text, and so are the headings below it."""
    assert titles == [h.title for h in find_headings(text, markdown=True)]


WORST = [
    "```a\n",
    "~~~ x\n",
    "```\n~~~\n",
    "# a  ",
    "# a #",
    " a",
    "a" + " " * 500,
    "\n \n",
    "\t",
    "#",
    "a\n===",
    '"' * 3,
    "===\n",
]


@pytest.mark.parametrize("markdown", [False, True])
@pytest.mark.parametrize("unit", WORST)
def test_time_grows_with_the_text(unit, markdown):
    """And not with its square, which would be given up."""
    work_ends(lambda text: find_headings(text, markdown=markdown), unit, end="\nb")


def test_set_phrases_are_found_without_copies_of_the_text_before_them():
    """Those would take quadratic time."""
    copied = []

    class Text(str):
        __slots__ = ()

        def __getitem__(self, key):
            copied.append(key)
            return str.__getitem__(self, key)

    found = find_headings(Text("as the Board Notation Vote The vote. " * 20))
    assert len(found) == 20
    assert copied == []


def test_real_minutes_of_every_era_have_their_sections(reference):
    """The headings that every reader of the minutes knows are found."""
    wanted = "Staff Review of the Economic Situation"
    for line in (reference / "data" / "fomc" / "docs.jsonl").open():
        row = json.loads(line)
        if row["type"] == "minutes" and row["date"] >= "2010" and wanted in row["text"]:
            assert wanted in {h.title for h in find_headings(row["text"])}, row["id"]


BODY = "    x = compute(x)\n" * 20


@pytest.mark.parametrize(
    ("suffix", "line"),
    [(".py", "async def sing(whale):"), (".js", "export const sing = (whale) => {"),
     (".ts", "export interface Whale {"), (".go", "func (w *Whale) Sing() error {"),
     (".rs", "pub(crate) fn sing(&self) {"), (".java", "public class Whale {"),
     (".java", "    public List<String> sing(int times) {"), (".c", "static int sing(struct whale *w) {"),
     (".cs", "public async Task Sing(int times) {"), (".rb", "def sing"), (".sh", "sing() {"),
     (".sql", "CREATE TABLE whales (")],
)  # fmt: skip
def test_functions_and_classes_begin_a_section(suffix, line):
    """By the language's own words."""
    text = f"# first\n{BODY}\n{line}\n{BODY}"
    (found,) = find_code_headings(text, suffix)
    assert text[found.start :].strip().startswith(line.strip())


def test_a_method_names_its_class():
    """A passage tells what it is part of."""
    text = f"class Whale:\n{BODY}\n    def sing(self):\n{BODY}"
    chunks = cut(text, code_suffix=".py")
    assert {chunk.section for chunk in chunks} == {"class Whale", "class Whale > def sing(self)"}


def test_short_functions_share_a_passage():
    """Each alone would say nothing."""
    text = "".join(f"def f{n}():\n    return {n}\n\n" for n in range(40))
    assert len(cut(text, code_suffix=".py")) <= len(text) // 250 + 1


@pytest.mark.parametrize("suffix", sorted(CODE_SUFFIXES))
def test_a_long_line_is_searched_once(suffix):
    """Minified code and hostile lines; quadratic time would not end."""
    for text in (
        "a" * 10**6,
        "a " * 500_000,
        " " * 10**6,
        "function(" * 100_000,
        "public " * 10**5,
    ):
        find_code_headings(text, suffix)
