"""What profiles say of collections."""

from __future__ import annotations

import pytest

from searchbus_retrieval.question.profiles import load_profiles


def test_profile_of_a_folder_comes_before_the_shipped_one(tmp_path):
    """Other files do not matter."""
    (tmp_path / "laws.toml").write_text(
        'date_field = "passed"\n[types.act]\nnames = ["act (new)"]\n'
    )
    (tmp_path / "fomc.toml").write_text("")
    (tmp_path / "notes.txt").write_text("[")
    profiles = load_profiles(tmp_path)
    assert profiles["laws"].date_field == "passed"
    assert profiles["laws"].named["act"].search("the ACT (new) of 1990") is not None
    assert profiles["fomc"].types == {}
    shipped = load_profiles()["fomc"]
    assert {name: kind.repeats for name, kind in shipped.types.items()} == {
        "minutes": False,
        "statement": True,
    }
    assert len(shipped.opposites) == 3
    # A phrase that stands twice means one thing only.
    assert len(shipped.phrases._meant) == sum(map(len, shipped.synonyms.values()))
    assert len(shipped.dated_phrases._meant) == sum(map(len, shipped.events.values()))


@pytest.mark.parametrize(
    "text",
    [
        "[",
        'colour = "red"',
        "types = 3",
        '[events]\n"2001-9/x" = ["fire"]',
        '[events]\n"2001" = ["fire"]',
        '[events]\n"2001-12/2001-09" = ["fire"]',
    ],
)
def test_file_that_is_no_profile_is_named(tmp_path, text):
    """With what is wrong."""
    (tmp_path / "laws.toml").write_text(text)
    with pytest.raises(ValueError, match=r"laws\.toml cannot be read"):
        load_profiles(tmp_path)
