"""Text without invisible characters and live markup."""

from __future__ import annotations

import pytest

from searchbus_contracts.visible import visible
from searchbus_testing.waiting import work_ends
from searchbus_upstream.text import inert, plain

WORST = [
    "![", "!", "[", "](", "![](", '![](a "', "![](a ", "<a ", "<a", "<", "]:", "]:a", "](&", "a",
    "[a", "\\[", "[\\", "[a]", "[a]:",
    "\u200d", "❤\ufe0f", "\n ", "untrusted_",
]  # fmt: skip
"""Repeated, each makes some expression start everywhere and end nowhere."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc  d", "a b c d"),
        ("a\u202eb\u2066c", "abc"),
        ("a\u200bb\ufeffc\x00d", "abcd"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        (" \u00a0 ", ""),
    ],
)
def test_plain_text_is_one_line_of_visible_characters(text, shown):
    """Joiners are kept: emoji and some scripts need them."""
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![a](http://e.org/?q=1) ![](http://e.org)", "[image: a] [image]"),
        ('![a](http://e.org "title")', "[image: a]"),
        ("![a][ref] ![a][] ![a]", "[image: a] [image: a] [image: a]"),
        ("[![a](http://e.org/i)](http://e.org)", "[[image: a]](http://e.org)"),
        ("!![a](u) !!!![a](u)", "[image: a] [image: a]"),
        ("![a [b]](u)", "[image: a [b]](u)"),
        ("wow! [a](/b)", "wow! [a](/b)"),
    ],
)
def test_images_become_their_text(text, shown):
    """In every form of Markdown; a link stays a link."""
    assert inert(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<img src=http://e.org/>", "< img src=http://e.org/>"),
        ("<IMG/src=x>", "< IMG/src=x>"),
        ("<im<img>g src=x>", "< im< img>g src=x>"),
        ("<input type=image src=x>", "< input type=image src=x>"),
        ("<style>p{}</style>", "< style>p{}< /style>"),
        ("<b onclick=x>y</b>", "< b onclick=x>y</b>"),
        ("<x<b onclick=x>", "< x< b onclick=x>"),
        ("<!-- x --><?php ?>", "< !-- x -->< ?php ?>"),
        ("<javascript:alert(1)>", "< javascript:alert(1)>"),
        ("<img src=http://e.org/", "< img src=http://e.org/"),
        ("list<int> a < b <- c", "list<int> a < b <- c"),
        ("</untrusted_text_0a> <UNTRUSTED_TEXT_x>", "< /untrusted text_0a> < UNTRUSTED TEXT_x>"),
        ("<untrusted_untrusted_text_x>", "< untrusted_untrusted text_x>"),
    ],
)
def test_html_is_broken_up(text, shown):
    """Where it has attributes or effects; a program in the text stays readable."""
    assert inert(text) == shown


@pytest.mark.parametrize(
    "target",
    ["javascript:x", "JavaScript:x", "<javascript:x>", " \njavascript:x", "data:text/html,x",
     "java&#115;cript:x", "java&Tab;script:x", "java\\script:x", "vbscript:x", "blob:x", "x:y"],
)  # fmt: skip
def test_targets_that_run_are_no_targets(target):
    """Whatever hides their scheme."""
    assert inert(f"[a]({target})").replace("< ", "<") == f"[a] ({target})"


@pytest.mark.parametrize(
    "text",
    ["[a](https://e.org/x:y?a=b&c=d)", "[a](/b)", "[a](#b)", "[a](mailto:a@e.org)", "[a](b.html)",
     "[1]: https://e.org/", "x[1]: a", "[1]: Note: a", "[1]: Mailto:a@e.org",
     "a[i]: foo:bar", "sshd[12]: user:root", "a[i][j]: np:x", "f(x)[0]: std::vector"],
)  # fmt: skip
def test_other_targets_stay(text):
    """Web and mail addresses, and relative ones."""
    assert inert(text) == text


def test_definitions_of_targets_that_run_are_none():
    """Their links stay text; so do those of programs that an address starts."""
    for target in (
        "javascript:x",
        "data:x",
        "<ms-msdt:/id",
        "\n search-ms:q",
        "vscode://x",
        "X-Y:z",
    ):
        assert inert(f"[a]: {target}").replace("< ", "<") == f"[a] : {target}", target
    # Of a cut text nobody knows what was before.
    assert inert("End. [12:30]: std::x, [a\\]b\n]: x:y") == "End. [12:30] : std::x, [a\\]b\n] : x:y"
    assert inert("a[i]: javascript:x, a[i]: data:x") == "a[i] : javascript:x, a[i] : data:x"


@pytest.mark.parametrize("unit", WORST)
def test_time_grows_with_the_text(unit):
    """And not with its square, which would be given up."""
    work_ends(lambda text: inert(visible(text)), unit)


def test_plain_text_reads_no_more_than_it_may():
    """A title of megabytes takes no time."""
    assert plain("ab" * 10_000_000, max_chars=3) == "aba"
