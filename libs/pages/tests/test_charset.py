"""Bytes to text."""

from __future__ import annotations

import codecs
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_pages import charset as charset_module
from searchbus_pages.charset import charset_of, decode_text, looks_binary
from searchbus_testing.waiting import work_ends

SENTENCES = [
    ("shift_jis", "鯨の歌は海を渡る。クジラは歌う。"),
    ("windows-1251", "Песни китов слышны далеко в океане. "),
    ("koi8-r", "Песни китов слышны далеко в океане. "),
    ("gb18030", "鲸鱼的歌声穿越海洋。它们在夜里唱歌。"),
    ("big5", "鯨魚的歌聲穿越海洋，牠們在夜裡唱歌。"),
    ("euc-kr", "고래의 노래는 바다를 건넌다. 밤에 노래한다. "),
    ("cp1253", "Τα τραγούδια των φαλαινών ακούγονται μακριά. "),
    ("cp1252", "Les chants des baleines s’entendent à des kilomètres; été, garçon. "),
    ("iso-2022-jp", "鯨の歌は海を渡る。"),
    ("utf-8", "鯨の歌は海を渡る。"),
]


@pytest.mark.parametrize(("charset", "text"), SENTENCES)
def test_undeclared_charset_is_detected(charset, text):
    """From a few sentences."""
    assert decode_text((text * 4).encode(charset)) == text * 4


@pytest.mark.parametrize(("charset", "text"), [*SENTENCES, ("euc-jp", "鯨の歌は海を渡る。")])
def test_declared_charset_is_used(charset, text):
    """By the header, the meta element, or the XML declaration."""
    assert decode_text(text.encode(charset), charset) == text
    for declaration in (
        f'<meta charset="{charset}">',
        f"<meta http-equiv=content-type content='text/html; charset={charset}'>",
        f'<?xml version="1.0" encoding="{charset}"?>',
    ):
        page = f"{declaration}<p>{text}"
        assert decode_text(page.encode(charset), markup=True) == page


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [("text/html; charset=UTF-8; boundary=x", "UTF-8"), ("text/html;Charset = 'koi8-r'", "koi8-r"),
     ('text/html; a=b; charset="x y', "x"), ("text/html; a=charset", None), ("", None),
     ("text/html; charset=", None)],
)  # fmt: skip
def test_header_names_a_charset_beside_other_parameters(content_type, charset):
    """As others write it."""
    assert charset_of(content_type) == charset


def test_wrong_header_is_ignored():
    """The next declaration that fits is used."""
    page = '<meta charset="windows-1251"><p>Песни китов'
    assert decode_text(page.encode("cp1251"), "utf-8", markup=True) == page


@pytest.mark.parametrize("label", ["utf-16", "UTF-16LE", "utf16"])
def test_page_that_calls_itself_utf_16_in_ascii_is_none(label):
    """As programs write it that make the text in memory; the HTML standard takes UTF-8."""
    for page in (f'<?xml version="1.0" encoding="{label}"?><p>Été', f"<meta charset={label}>Wale."):
        for text in (page, f"{page}."):
            assert decode_text(text.encode(), markup=True) == text


def test_byte_order_mark_decides():
    """Whatever is declared."""
    assert decode_text("\ufeffå".encode("utf-16-le"), "utf-8") == "å"
    assert decode_text("\ufeffå".encode("utf-16-be"), "utf-8") == "å"
    assert decode_text(b"\xef\xbb\xbf\xc3\xa5", "latin1") == "å"


@pytest.mark.parametrize(
    ("label", "charset", "text"),
    [("iso-8859-1", "cp1252", "€"), ("gb2312", "gb18030", "㐀"), ("x-sjis", "cp932", "①"),
     (" Latin1 ", "cp1252", "é"), ("tis-620", "cp874", "เพลง")],
)  # fmt: skip
def test_labels_stand_for_what_browsers_decode(label, charset, text):
    """Often a larger charset."""
    assert decode_text(text.encode(charset), label) == text


@pytest.mark.parametrize(
    "label", ["utf-7", "unicode_escape", "idna", "punycode", "rot13", "cp037", "undefined", "hex",
              "utf-32", "x" * 1000, "å", "\0"],
)  # fmt: skip
def test_codecs_that_are_no_charset_of_the_web_are_not_used(label):
    """A page cannot choose how else it is decoded."""
    body = b"+ADw-script+AD4- \\u0041 xn--a"
    assert decode_text(body, label) == body.decode()
    page = f'<meta charset="{label[:40]}">'.encode()
    assert decode_text(page, markup=True) == page.decode()


SHORT = [
    ("latin-1", "naïve"),
    ("latin-1", "Die Wale singen über große Entfernungen; café, naïve."),
    ("latin-1", "Café au lait is £5, 5 °C ± 1."),
    ("cp1252", "It’s “big” — über"),
    ("cp1252", "El niño mañana ¿qué? São Paulo não há razão."),
    ("cp1251", "Report: Песни китов"),
    ("cp1251", "имя;город\nИван;Москва\n"),
    ("cp1250", "Žluťoučký kůň úpěl ďábelské ódy."),
]


@pytest.mark.parametrize(("charset", "text"), SHORT, ids=lambda value: value[:12])
def test_short_texts_are_detected(charset, text):
    """Few letters beyond ASCII are taken for Windows-1252, which most such files are."""
    assert decode_text(text.encode(charset)) == text


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["Wale: große Entfernungen", "Песни китов", "鲸鱼的歌声\n穿越海洋。\n"]
)
def test_utf_16_needs_no_mark(charset, text):
    """Its NUL bytes give the byte order; a text with single NUL characters stays UTF-8."""
    assert decode_text(text.encode(charset)) == text
    assert decode_text(f"{text}\0{text}".encode()) == f"{text}\0{text}"


def test_declaration_counts_in_markup_only():
    """A text about HTML is not HTML."""
    text = 'Write <meta charset="windows-1251"> — é.'
    assert decode_text(text.encode()) == text


def test_page_that_was_cut_in_a_character_keeps_its_charset():
    """As does one with a few bytes of another charset."""
    body = ("Über Wale. " * 30).encode()
    assert decode_text(body + b"\xc3", "utf-8").startswith("Über Wale. ")
    assert decode_text(body + b"\xe4 " + body).count("Über") == 60


@given(
    st.binary(max_size=400),
    st.sampled_from([None, "utf-8", "x-unknown", "utf-7", "shift_jis", "idna"]),
    st.booleans(),
)
def test_any_bytes_become_text(body, charset, markup):
    """Whatever charset is declared."""
    assert isinstance(decode_text(body, charset, markup=markup), str)


@pytest.mark.parametrize(
    "codec", ["punycode", "idna", "utf-7", "unicode_escape", "raw_unicode_escape"]
)
@pytest.mark.parametrize(
    "page", ["{}", '<meta charset="{}">', '<?xml version="1.0" encoding="{}"?>']
)
def test_codecs_that_are_no_charsets_are_never_used(codec, page, monkeypatch):
    """Punycode takes quadratic time; markup may hide in the others. Here they would end the test."""
    find = codecs.lookup

    def lookup(name):
        found = find(name)
        if found.name not in charset_module._ALLOWED:
            found = codecs.CodecInfo(None, None, name=found.name)  # its use raises
        return found

    monkeypatch.setattr(codecs, "lookup", lookup)
    body = page.format(codec) + " <p>+AGE- \\u0061 xn--a-ecp x-"
    declared = codec if page == "{}" else None
    assert decode_text(body.encode(), declared, markup=True) == body


PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" * 40
BINARY = {
    "program": PROGRAM,
    "picture": b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(range(256)) * 40),
    "noise": random.Random(1).randbytes(4000),
    "utf-32": "Whales sing.".encode("utf-32"),
}


@pytest.mark.parametrize("body", BINARY.values(), ids=BINARY)
def test_bytes_that_are_no_text_look_binary(body):
    """Whatever charset they were taken for."""
    assert looks_binary(decode_text(body))


@pytest.mark.parametrize(
    "text",
    ["", "Whales\r\n\tsing.\f\x1a", "\x1b[31mred\x1b[0m", "鯨の歌。", "Wal " * 100 + "\ufffd\0"],
    ids=ascii,
)
def test_text_does_not(text):
    """Not with colours of a terminal, nor with a few characters that are lost."""
    assert not looks_binary(text)


@pytest.mark.parametrize("unit", ["<meta ", "<meta charset=", "<meta charset ", "charset= ", "="])
@pytest.mark.parametrize("end", ["", "charset=" + " " * 20_000])
def test_declaration_is_looked_for_once(unit, end, monkeypatch):
    """However many elements may contain it, and blanks stand in it."""
    monkeypatch.setattr(charset_module, "_HEAD_BYTES", 10**7)
    work_ends(lambda text: decode_text(text.encode(), markup=True), unit, end=end)
