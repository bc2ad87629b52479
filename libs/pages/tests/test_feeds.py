"""Feeds as sites write them, and as nobody should."""

from __future__ import annotations

import pytest

from searchbus_pages import FeedEntry, FeedError, read_feed
from searchbus_pages import feeds as module
from searchbus_testing.waiting import work_ends

RSS = """<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://example.com/rss.dtd">
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel>
<title>News &nbsp; & more</title>
<item><title>Wale &amp; M&uuml;nchen</title><link>/a?x=1&y=2#top</link><guid>1</guid>
<pubDate>Tue, 03 Mar 2026 23:30:00 -0500</pubDate>
<content:encoded><![CDATA[<p>Sie singen &nbsp; laut & lange \x0b&#0;</p>]]></content:encoded></item>
<item><title><![CDATA[<b>Short</b>]]></title><link>http://example.com/b</link>
<pubDate>Tue, 03 Mar 99999999999999999999 23:30:00 GMT</pubDate>
<description>A summary.</description></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://example.com/">
<entry><id>tag:1</id><title type="text">1 &lt; 2</title><updated>2026-03-05T01:00:00Z</updated>
<published>2026-03-04T01:00:00+02:00</published>
<link rel="edit" href="/edit"/><link href="/one"/>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>They <b>sing</b>.</p></div></content>
</entry></feed>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
xmlns:dc="http://purl.org/dc/elements/1.1/"><channel/><item><title>Old</title>
<link>http://example.com/old</link><dc:date>2026-03-01</dc:date></item></rdf:RDF>"""
BOMB = """<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><rss>&b;</rss>"""


def listing(text: str) -> list[FeedEntry]:
    return read_feed(text.encode(), "http://example.com/feed")


def test_rss_is_read_with_its_usual_faults():
    """References of HTML, a stray &, a control character, another charset, an impossible date."""
    first, second = listing(RSS)
    assert first[:4] == ("1", "Wale & München", "http://example.com/a?x=1&y=2", "2026-03-04")
    assert first.whole
    assert "laut &amp; lange </p>" in first.text
    assert (second.title, second.key, second.day) == ("Short", "http://example.com/b", "")
    assert not second.whole


def test_entry_about_entities_is_read():
    """Only a document type could declare some."""
    text = '<rss><item><guid>1</guid><description><![CDATA[<pre>&lt;!DOCTYPE a [<!ENTITY b "c">]]]></description></item></rss>'
    (entry,) = listing(text)
    assert "<!ENTITY b" in entry.text
    for before in ("<!-- -->", "<?xml-stylesheet href='a'?>", ""):
        with pytest.raises(FeedError, match="declarations"):
            listing(before + BOMB)


def test_atom_is_read_with_its_xhtml():
    """The published day in UTC, the alternate link, the content without prefixes of namespaces."""
    (entry,) = listing(ATOM)
    assert entry[:4] == ("tag:1", "1 < 2", "http://example.com/one", "2026-03-03")
    assert "<p>They <b>sing</b>.</p>" in entry.text


def test_rss_1_0_is_read():
    """Its items are beside the channel."""
    (entry,) = listing(RDF)
    assert (entry.url, entry.day, entry.whole) == ("http://example.com/old", "2026-03-01", False)


def test_long_description_is_the_text():
    """Many feeds have nothing else."""
    text = "w " * module.WHOLE_TEXT_CHARS
    (entry,) = listing(
        f"<rss><item><link>http://a.example/</link><description>{text}</description></item></rss>"
    )
    assert entry.whole


def test_entry_without_id_and_link_is_known_by_its_text():
    """So that it is the same at the next sync."""
    feed = (
        "<rss><channel><item><title>a</title></item><item><title>b</title></item></channel></rss>"
    )
    keys = [entry.key for entry in listing(feed)]
    assert keys == [entry.key for entry in listing(feed)]
    assert len(set(keys)) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, "declarations"),
        (f"\x01{BOMB}", "declarations"),
        (f"\ufeff\ufeff{BOMB}", "declarations"),
        (f"a{BOMB}", "not well-formed"),
        (
            f'<!-- --><!DOCTYPE rss [<!ATTLIST x a CDATA "{"a" * 9}">]><rss><x/></rss>',
            "declarations",
        ),
        (f"<feed><entry><content>{'<b>' * 9999}{'</b>' * 9999}</content></entry></feed>", "deep"),
        ("<html><body>Sign in</body></html>", "<html>: no feed and no sitemap"),
        ("<rss><channel><item>", "not well-formed"),
        ("", "not well-formed"),
        ("{}", "not well-formed"),
    ],
)
def test_other_files_are_refused(text, problem):
    """The message says why."""
    with pytest.raises(FeedError, match=problem):
        listing(text)


def test_too_many_elements_are_refused(monkeypatch):
    """Before they fill the memory."""
    monkeypatch.setattr(module, "MAX_ELEMENTS", 1000)
    with pytest.raises(FeedError, match="1,000 elements"):
        listing("<rss>" + "<item>" * 2000)


@pytest.mark.parametrize(
    "unit", ["<", "&", "&#", "<!DOCTYPE ", "<?xml ", "<item>", "&amp", "<item/>", "</item>", " "]
)
def test_hostile_text_takes_linear_time(unit):
    """Also in a title."""

    def read(text: str) -> None:
        for before in ("<rss>", "", "<rss><item><title><![CDATA["):
            try:
                listing(before + text)
            except FeedError:
                pass
        listing(f"<rss><item><title><![CDATA[{text}]]></title></item></rss>")

    work_ends(read, unit)
