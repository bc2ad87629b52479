"""Words of other languages."""

from __future__ import annotations

from searchbus_toolindex.glossary import Glossary, load_glossary

TABLE = "# comment\nweather\twetter* 天気\nforecast\tprevisão 予報\nno tab\n"


def test_words_are_found_whole_and_by_their_start():
    """Accents and case do not count; an unknown word gives nothing."""
    glossary = Glossary(TABLE)
    assert glossary.translate("Wetterbericht") == ["weather"]
    assert glossary.translate("PREVISAO") == ["forecast"]
    assert glossary.translate("previsaos") == []
    assert glossary.translate("comment") == []


def test_unspaced_text_gives_every_known_word_in_it():
    """In order, unknown characters skipped."""
    assert Glossary(TABLE).translate("明日の天気予報") == ["weather", "forecast"]


def test_shipped_table_is_read():
    """The commonest words of several languages."""
    glossary = load_glossary()
    for word in ("Wettervorhersage", "météo", "погода"):
        assert any("weather" in english for english in glossary.translate(word)), word
