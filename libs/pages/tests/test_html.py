"""HTML to text with headings."""

from __future__ import annotations

import pytest

from searchbus_pages import html
from searchbus_pages.html import TooComplexError, read_html
from searchbus_testing.waiting import work_ends


def test_html_keeps_structure_and_drops_the_rest():
    """Headings, lists and tables stay; scripts and menus go."""
    title, text = read_html(
        "<title>T</title><body><nav>menu</nav><h2>Head</h2><p>One <b>two</b>.</p>"
        "<ul><li>a</li><li>b</li></ul><script>x()</script><footer>foot</footer></body>"
    )
    assert title == "T"
    assert text.split("\n\n") == ["## Head", "One two.", "- a", "- b"]


def test_row_of_a_table_is_one_line():
    """Also where cells have paragraphs, lists and blank lines; a layout keeps its paragraphs."""
    page = (
        "<table><tr><td><p>a <b>b</b></p><p>B</p></td>\n\n<td> c<br><br>C<ul><li>1<li>2</ul></td></tr>"
        "<tr><td><p>d</p><p>e</p></tr><tr><td>menu</td><td><h1>f</h1><p>g</p></td></tr></table>"
    )
    assert read_html(page).text.split("\n\n") == [
        "| a b B | c C 1 2 |", "d", "e", "| menu |", "# f", "g",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            "<ul><li><p>One.</p><p>Two.</p></li><li> <div>a</div></li><li></li></ul>",
            "- One.\n\nTwo.\n\n- a",
        ),
        ("<h2><div>Title</div></h2><h3></h3><p>One\n\ntwo.</p>", "## Title\n\nOne two."),
        ("<ul><li><h3>Title</h3><li>- <b>b</b></ul>", "### Title\n\n- - b"),
        ("One<br>two<br>\n<br>three", "One two\n\nthree"),
    ],
)
def test_marks_stand_before_their_text(page, text):
    """Whatever is around that; a blank line of the source is a space."""
    assert read_html(page).text == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            "<pre>\ndef f():\n    return 1\n\n\n# end</pre>",
            "```\ndef f():\n    return 1\n\n\n# end\n```",
        ),
        ("<pre><code>a<br><b>b</b>\n</code></pre>", "```\na\nb\n```"),
        ("<pre><div>a</div><div>b\tc</div></pre>", "```\na\nb    c\n```"),
        ("<pre>```\n</pre>", "~~~\n```\n~~~"),
        ("<pre> \n</pre>a", "a"),
    ],
)
def test_listing_keeps_its_lines(page, text):
    """Between fences, where no line is a heading."""
    assert read_html(page).text == text


def test_listing_in_an_item_has_its_fence_on_a_line_of_its_own():
    """Behind a mark it would be no fence, and its end the beginning of another one."""
    assert read_html("<ul><li><pre>a\n# b</pre></ul>").text == "```\na\n# b\n```"


def test_row_within_a_row_is_a_row_of_its_own():
    """A formula may hold such; a row that has one is no row of a table, or each is read again."""
    page = "<math><tr><td>a</td><td>b<tr><td>c</td><td>d</td></tr>"
    assert read_html(page).text.splitlines()[-1] == "| c | d |"


def test_empty_listings_within_each_other_are_read_once():
    work_ends(read_html, "<pre>", size=100_000)


def test_page_inside_of_a_form_is_read():
    """Some frameworks put the whole page into one; its fields have no text."""
    page = "<form><p>Text.</p><select><option>A</option></select><textarea>B</textarea></form>"
    assert read_html(page).text == "Text."


def test_what_is_around_the_content_is_read_where_there_is_nothing_else():
    """Without scripts."""
    page = "<header><h1>Closed</h1></header><footer>Until May.</footer><script>x()</script>"
    assert read_html(page).text == "# Closed\n\nUntil May."


def test_deeply_nested_html_is_read():
    """Without recursion."""
    assert read_html("<div>" * 10_000 + "deep" + "</div>" * 10_000).text == "deep"


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 40_000 + "deep" + "</div>" * 40_000,
        "<div>" * 5_000 + "<p></p>" * 100_000,
        "<div " + " ".join(f"a{number}=1" for number in range(40_000)) + ">x</div>",
        "<div " + "".join(f"a{number}='1'" for number in range(40_000)) + ">x</div>",
        "<div " + "/".join(f"a{number}" for number in range(40_000)) + ">x</div>",
        "<div></x>" * 40_000,
        "<div/>" * 40_000,
        "<rt>" * 40_000,
        "<optgroup>" * 40_000,
        "<div><!--</div>-->" * 40_000,
        "<div><script></div></script>" * 40_000,
        "<div><p title='></div>'>" * 40_000,
        "<p '>" + "<div>" * 40_000 + "'",
        "<svg>" + "<div/>" * 40_000,
        "<math>" + "<tr><td>a</td><td>" * 40_000,
        "<math>" + "<td>" * 40_000 + "</x>" * 40_000,
        "<g/>" * 40_000,
        "<svg>" + "<g class=i/>" * 40_000,
        "<svg>" + "<g class= />" * 40_000,
        "<p a=b='>" + "<div>" * 40_000 + "'",
    ],
)
def test_page_that_takes_quadratic_time_is_refused(page, monkeypatch):
    """Before it is parsed."""
    monkeypatch.delattr(html, "LexborHTMLParser")
    with pytest.raises(TooComplexError, match="too many tags or attributes"):
        read_html(page)


def test_long_pages_are_not_complex():
    """Nor such as leave elements open that the next one closes."""
    drawing = "<svg>" + "<path d='M0 0'/>" * 30_000 + "</svg>"
    data = "<img src='data:image/png;base64," + "a/b=" * 300_000 + "'>"
    table = "<svg>" + "<link/>" * 30_000 + "</svg><table>" + "<tr><td>a" * 30_000 + "</table>"
    ruby = "<ruby>a<rt>b</ruby>" * 30_000
    icons = "<svg class='i'/><math a=b /><svg/>" * 5_000 + "<input><img src=a/>" * 20_000
    page = icons + drawing + table + data + ruby + "<ul>" + "<li><p>One<br>two<img src=a>" * 30_000
    assert read_html(page).text.count("two") == 30_000


def test_title_of_a_drawing_is_not_the_pages():
    """Only the head's."""
    assert read_html("<body><svg><title>Menu</title></svg><p>Text.</p>") == (None, "Text.")


def test_selector_limits_the_page_to_its_content():
    """Where the page has no such part, the body is read."""
    page = "<body><p>menu</p><div id=main><p>text</p></div></body>"
    assert read_html(page, selector="#main, #other") == (None, "text")
    assert read_html(page, selector="#none") == (None, "menu\n\ntext")
    assert read_html("") == (None, "")


def test_too_large_page_is_refused(monkeypatch):
    """Before it is parsed."""
    monkeypatch.setattr(html, "MAX_HTML_CHARS", 10)
    with pytest.raises(ValueError, match="larger"):
        read_html("<p>0123456789</p>")
