"""What is known of a collection's documents, so that a question finds the right one of several.

A profile is a file `<collection>.toml`:

    date_field = "date"                     # fields with each document's date and type
    type_field = "type"
    opposites = [["raise", "increase"], ["lower", "cut"]]
    subject = ["Fed"]
    others = [["ECB", "European Central Bank"]]

    [types.minutes]
    names = ["minutes"]                     # "the minutes of March" means them
    asked_by = ["argued", "discussed"]      # they rather than others say who argued what
    asked_of_others = ["left out"]          # they say what was left out of a statement

    [synonyms]                              # they weigh less than a question's own words
    "voting against" = ["dissent", "went against"]

    [events]
    "2001-09/2001-12" = ["twin towers"]

    [facts.votes]                           # see documents/facts.py
    types = ["minutes"]
    asked_by = ["dissent", "voted"]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from .dates import months_between
from .periods import Period
from .words import Phrases


class DocumentType(Struct, forbid_unknown_fields=True):
    """One type of documents.

    Args:
        names: that questions call it by.
        asked_by: words of questions that this type answers better than others.
        asked_of_others: words of questions that it answers although they name another type: what a
            document no longer says does not stand in it.
        has_quantities: they rather than others answer questions with amounts, rates or shares.
        repeats: these documents say again what earlier ones said, so that of several that match a
            question alike the earliest answers it.
        compared: they rather than others answer what changed between two dates.
    """

    names: tuple[str, ...] = ()
    asked_by: tuple[str, ...] = ()
    asked_of_others: tuple[str, ...] = ()
    has_quantities: bool = False
    repeats: bool = False
    compared: bool = False


class FactSource(Struct, forbid_unknown_fields=True):
    """Where facts of one name are read, and which questions they answer.

    Args:
        types: of documents that have them; empty: all.
        asked_by: words of questions that passages with them answer better than others.
    """

    types: tuple[str, ...] = ()
    asked_by: tuple[str, ...] = ()


class Profile(Struct, forbid_unknown_fields=True, dict=True):
    """What is known of one collection's documents.

    Args:
        date_field: metadata field with the date of what a document tells.
        type_field: metadata field with its type.
        types: value of that field → the type.
        opposites: groups of words; what one group says excludes what the others say.
        synonyms: words of the documents → phrases of questions that mean them.
        events: two months, "2001-09/2001-12" → phrases of questions about what happened then.
        facts: name of facts → where they are read.
        others: names, in all spellings, of whom the documents are not about.
        subject: words for whom or what all documents are about, which tell none from another.
    """

    date_field: str | None = None
    type_field: str | None = None
    types: dict[str, DocumentType] = {}
    opposites: tuple[tuple[str, ...], ...] = ()
    synonyms: dict[str, tuple[str, ...]] = {}
    events: dict[str, tuple[str, ...]] = {}
    facts: dict[Literal["votes", "decision"], FactSource] = {}
    others: tuple[tuple[str, ...], ...] = ()
    subject: tuple[str, ...] = ()

    @cached_property
    def named(self) -> dict[str, re.Pattern[str]]:
        """Type → finds its names in a question."""
        return _patterns({kind: t.names for kind, t in self.types.items()})

    @cached_property
    def asked(self) -> dict[str, re.Pattern[str]]:
        """Type → finds the words that ask for it."""
        return _patterns({kind: t.asked_by for kind, t in self.types.items()})

    @cached_property
    def asked_of_others(self) -> dict[str, re.Pattern[str]]:
        """Type → finds the words that ask it about another type."""
        return _patterns({kind: t.asked_of_others for kind, t in self.types.items()})

    @cached_property
    def names_of_others(self) -> list[re.Pattern[str]]:
        """For each of the others, what finds its names."""
        return list(_patterns({names[0]: names for names in self.others if names}).values())

    @cached_property
    def phrases(self) -> Phrases[str]:
        """Phrases of questions, and how the documents say it."""
        return Phrases(self.synonyms)

    @cached_property
    def dated_phrases(self) -> Phrases[Period]:
        """Phrases of questions, and when that was."""
        return Phrases({months_between(*m.split("/")): p for m, p in self.events.items()})

    def __post_init__(self) -> None:
        """Read the events, so that a wrong one is found where the profile is loaded."""
        try:
            _ = self.dated_phrases
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'events: not two months, such as "2001-09/2001-12": {error}'
            ) from error

    @cached_property
    def asked_facts(self) -> dict[str, re.Pattern[str]]:
        """Name of facts → finds the words that ask for them."""
        return _patterns({name: source.asked_by for name, source in self.facts.items()})


def load_profiles(folder: Path | None = None) -> dict[str, Profile]:
    """Collection → its profile: those of this package, and of a folder, which come first.

    Raises:
        ValueError: a file is not a profile; the message names it.
        OSError: the folder cannot be read.
    """
    return _shipped() | (_read(sorted(folder.iterdir())) if folder is not None else {})


@cache
def _shipped() -> dict[str, Profile]:
    """Read once: the files take longer than opening an empty library."""
    return _read(files("searchbus_retrieval").joinpath("profiles").iterdir())


def _read(found: Iterable[Traversable]) -> dict[str, Profile]:
    profiles = {}
    for file in found:
        if not file.name.endswith(".toml"):
            continue
        try:
            profiles[file.name.removesuffix(".toml")] = msgspec.toml.decode(
                file.read_bytes(), type=Profile
            )
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"The profile {file} cannot be read: {error}") from error
    return profiles


def _patterns(words: Mapping[str, tuple[str, ...]]) -> dict[str, re.Pattern[str]]:
    return {
        kind: re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, phrases))})(?!\w)", re.I)
        for kind, phrases in words.items()
        if phrases
    }
