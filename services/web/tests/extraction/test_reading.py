"""Parsing of pages of every kind."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from searchbus_fakes.web import ARTICLE, article, pdf_of
from searchbus_pages import TooComplexError
from searchbus_web.extraction import reading
from searchbus_web.extraction.reading import (
    Answer,
    PageBytes,
    PageText,
    RobotsAnswer,
    RobotsQuestion,
    answer,
    read_page,
)


def read(body: bytes, media_type: str = "text/html", charset: str | None = None):
    return read_page(PageBytes("http://a.org/", body, media_type, charset))


def test_article_becomes_markdown():
    """Headings, tables, lists and code are kept; menu, scripts and footer are not."""
    text = read(ARTICLE.encode()).text
    for kept in ("# Songs of whales", "| Blue | 30 m |", "- first item", 'return "la" * n'):
        assert kept in text
    for gone in ("Shop now", "steal()", "newsletter"):
        assert gone not in text


def test_short_page_is_kept_whole():
    """Extractors find no article in it."""
    assert read(b"<html><body><p>Closed on Mondays.</p></body></html>").text == "Closed on Mondays."


@pytest.mark.parametrize(
    ("body", "media_type", "text"),
    [
        (b'{"a":[1,{"b":"\xc3\xa5"}]}', "application/json", '"b": "å"'),
        (b"not json", "application/json", "not json"),
        (b" Plain. \n", "text/plain", "Plain."),
        (b"<rss><item>News</item></rss>", "application/rss+xml", "<item>News</item>"),
        (
            pdf_of("The blue whale in a PDF file."),
            "application/pdf",
            "The blue whale in a PDF file.",
        ),
    ],
)
def test_other_kinds_of_text(body, media_type, text):
    """JSON is indented; XML stays as it is."""
    assert text in read(body, media_type).text


@pytest.mark.parametrize(
    ("body", "media_type", "problem"),
    [
        (b"<html><body></body></html>", "text/html", "empty"),
        (b"  ", "text/plain", "empty"),
        (b"", "application/json", "empty"),
        (b"%PDF-nonsense", "application/pdf", "parse_error"),
        (pdf_of(""), "application/pdf", "scanned"),
    ],
)
def test_pages_without_text_have_a_problem(body, media_type, problem):
    """And no text."""
    found = read(body, media_type)
    assert (found.text, found.problem) == ("", problem)


def test_page_of_a_pdf_that_cannot_be_read_costs_itself_only():
    """A line says which; a PDF without any other page is broken."""
    whole = pdf_of("The blue whale.")
    two = whole.replace(b"/Kids [3 0 R] /Count 1", b"/Kids [9 0 R 3 0 R] /Count 2")
    assert read(two, "application/pdf").text == "[Page 1 cannot be read.]\n\nThe blue whale."
    none = whole.replace(b"/Kids [3 0 R]", b"/Kids [9 0 R]")
    assert read(none, "application/pdf").problem == "parse_error"


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title>A  whale\n&amp; <b>more</title><p>x", "A whale & <b>more"),
        ("<head><title>\u202eWhales <img src=x></title></head><p>x", "Whales < img src=x>"),
        ("<p>x<svg><title>A drawing</title></svg>", ""), (f"<title>{'x' * 9000}</title>y", "x" * 500),
    ],
)  # fmt: skip
def test_title_is_one_line_without_live_markup(html, title):
    """As the text: it is shown too. A page without a title has an empty one."""
    assert read(html.encode()).title == title


@pytest.mark.parametrize(
    ("given", "title"), [(b"(The  blue whale)", "The blue whale"), (b"<FEFF0041D800>", "")]
)
def test_title_of_a_pdf(given, title):
    """One that is cut in the middle of a character costs itself only."""
    body = pdf_of("Whales.").replace(b"/Root 1 0 R", b"/Root 1 0 R /Info 5 0 R")
    found = read(body.replace(b"/Helvetica", b"/Helvetica /Title " + given), "application/pdf")
    assert (found.text, found.title) == ("Whales.", title)


def test_pdf_is_read_up_to_a_number_of_pages(monkeypatch):
    """A last line says so."""
    monkeypatch.setattr(reading, "MAX_PDF_PAGES", 0)
    assert read(pdf_of("x"), "application/pdf").text == "[The first 0 of 1 pages.]"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("shift_jis", "鯨の歌は海を渡る。"), ("windows-1251", "Песни китов слышны далеко. "),
     ("gb18030", "鲸鱼的歌声穿越海洋。"), ("euc-jp", "鯨の歌は海を渡る。")],
)  # fmt: skip
def test_charset_of_the_page_is_used_where_the_header_is_wrong(encoding, text):
    """By its meta element."""
    body = article("x", charset=encoding, text=text * 12).encode(encoding)
    assert text in read(body, charset="utf-8").text


def test_feed_names_its_charset_in_its_declaration():
    """As XML does."""
    feed = '<?xml version="1.0" encoding="windows-1251"?><rss><item>Киты</item></rss>'
    assert "Киты" in read(feed.encode("cp1251"), "application/rss+xml").text


def test_page_without_an_article_is_read_whole():
    """Its links and lists, without what is around them."""
    rows = "".join(f"<li><a href='/{n}'>Report number {n} of the year</a></li>" for n in range(60))
    page = f"<nav>Shop now</nav><form><ul>{rows}</ul></form><footer>Imprint</footer>"
    text = read(page.encode()).text
    assert "Report number 0 of the year" in text
    assert "Report number 59 of the year" in text
    assert "Shop now" not in text


@pytest.mark.parametrize(
    "html",
    ["<p " + "".join(f"a{n}=1 " for n in range(30_000)) + ">", "<div>" * 30_000, "<b>" * 30_000],
)
def test_page_that_takes_quadratic_time_is_refused_before_any_parser(html, monkeypatch):
    """With 400,000 attributes the parser of articles took longer than its process may."""
    monkeypatch.setattr(reading, "_content", None)  # calling it would fail
    with pytest.raises(TooComplexError):
        read_page(PageBytes("http://a.example/", html.encode(), "text/html"))


def test_page_of_very_many_tags_is_read_whole(monkeypatch):
    """Telling its content from its menus would take longer than its process may."""
    monkeypatch.setattr(reading, "MAX_TAGS", 100)
    html = b"<title>Rows</title>" + b"<p>A row of a table of names.</p>" * 200
    with monkeypatch.context() as patch:
        patch.setattr(reading, "_content", None)
        whole = read_page(PageBytes("http://a.example/", html, "text/html"))
    assert whole.text.count("A row of a table of names.") == 200
    few = read_page(PageBytes("http://a.example/", html[:1000], "text/html"))
    assert few.problem is None


def test_parsers_are_loaded_with_the_first_page_only():
    """The service itself need not have them in memory."""
    assert "pypdfium2" not in vars(sys.modules["searchbus_web.extraction.reading"])


def test_text_is_clean_and_limited(monkeypatch):
    """Here, where the process may be killed, and not on the service's loop."""
    page = PageBytes("", b"![a](http://e.org/) <img src=x> \xc2\xadb", "text/plain")
    assert read_page(page).text == "[image: a] < img src=x> b"
    monkeypatch.setattr(reading, "MAX_TEXT_CHARS", 5)
    page = PageBytes("", b"0123456789", "text/plain")
    assert read_page(page).text == "01234\n\n[The first 5 of 10 characters.]"


def test_text_of_invisible_characters_is_empty():
    """It has nothing to show."""
    page = PageBytes("", "\u200b\u00ad".encode(), "text/plain")
    assert read_page(page) == PageText(problem="empty")


def test_robots_txt_is_read_as_well():
    """Undecodable bytes do no harm."""
    rules = b"User-agent: *\nDisallow: /a\xff*b\n"
    assert answer(RobotsQuestion(rules, "http://e.org/c", "searchbus")) == RobotsAnswer(True)
    groups = b"user-agent: a\n" * 5000
    assert answer(RobotsQuestion(groups, "http://e.org/c", "x")) == RobotsAnswer(False)
    assert answer(RobotsQuestion(b"User-agent: *\nDisallow: /", "http://e.org/c", "x")) == (
        RobotsAnswer(False)
    )


@pytest.mark.parametrize(
    ("error", "problem"), [(MemoryError(), "too_complex"), (ZeroDivisionError(), "parse_error")]
)
def test_errors_of_parsers_are_problems(monkeypatch, error, problem):
    """The next page is parsed all the same."""

    def answer(page: PageBytes) -> PageText:
        if page.body == b"bad":
            raise error
        return PageText("good")

    monkeypatch.setattr(reading, "answer", answer)
    questions = (
        msgspec.msgpack.encode(PageBytes("", text, "text/plain")) for text in (b"bad", b"good")
    )
    found = [msgspec.msgpack.decode(reading.answered(one), type=Answer) for one in questions]
    assert found == [PageText(problem=problem), PageText("good")]


def test_parsers_alone_are_imported():
    """A process that parses pages starts in a moment, and has no client of HTTP or of the bus."""
    done = subprocess.run(
        [sys.executable, "-c", "import searchbus_web.extraction.reading, sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    modules = set(done.stdout.split())
    assert not modules & {"asyncio", "cryptography", "httpx", "nats", "opentelemetry", "rich"}
