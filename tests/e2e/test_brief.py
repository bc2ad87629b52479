"""research_brief over documents of several kinds: its passages contain the answers."""

from __future__ import annotations

import pytest
from mcp import Client

from searchbus_passages import count

pytestmark = pytest.mark.slow

CLUB = """# Rowing club handbook

## Membership

Anybody who can swim two hundred metres may join. The committee decides within three weeks of an
application, and new members are on trial until the end of their first season.

The yearly fee is 84 crowns. Students and pensioners pay half of it, and families with three or more
members pay for two only. Whoever joins after the first of August pays for the rest of the season.

## Boat house

The key hangs in the box beside the door; the code of the box changes every month. Close the shutters
when the wind is above force six. The last one to leave switches off the compressor.

## Damage

Report each damage in the red book on the same day. The boat master decides whether a boat stays on land,
and the club pays for repairs beyond the first fifty crowns, unless somebody was careless.
"""
BOATS = "# Boats\n\n| Boat | Seats | Built | Least weight of the crew | Berth |\n|---|---|---|---|---|\n" + "\n".join(
    f"| {name} | {seats} | {year} | {weight} kg | {berth} |"
    for name, seats, year, weight, berth in (
        ("Heron", 1, 2011, 60, "A1"), ("Kingfisher", 2, 2015, 125, "A2"),
        ("Cormorant", 4, 2008, 270, "B1"), ("Grebe", 8, 1999, 560, "B4"),
        ("Moorhen", 2, 2021, 110, "C2"), ("Osprey", 4, 2018, 290, "C3"),
    )
)  # fmt: skip
SAFETY = """# Safety on the river

Before you go out:

- Sign the log and write down when you mean to be back.
- Wear a life jacket from October to April.
- Take the horn; it hangs above the log.
- Look up the water level: above 310 cm nobody rows.

If a boat capsizes:

1. Stay with the boat, since it floats.
2. Blow the horn three times.
3. Call the lock keeper, whose number is painted inside of the hull.

# Regatta

The regatta takes place on the second Saturday of June. Each crew pays 30 crowns, and the winner of the
eights keeps the silver oar for one year. In 2019 the storm broke both starting rafts.
"""
MINUTES = """Minutes of the yearly meeting

Present were forty-one members. Ottilie Brandt led the meeting, and Jonas Weir wrote the minutes.

The treasurer reported a surplus of 2,310 crowns, mostly since the winter training brought more guests
than in other years. The meeting thanked him and discharged the committee.

After a long debate the meeting decided to buy a second-hand motor boat for the trainers, for at most
9,500 crowns. Eleven members voted against it, since they would rather repair the pontoon first.

Ludmila Farr was elected boat master. She follows Peter Quill, who moved away in March.
"""
DOCUMENTS = {"handbook.md": CLUB, "boats.md": BOATS, "safety.md": SAFETY, "minutes.txt": MINUTES}
QUESTIONS = (
    ("How far must I be able to swim to become a member?", "two hundred metres"),
    ("How long does the committee take to decide on an application?", "within three weeks"),
    ("What is the yearly membership fee?", "84 crowns"),
    ("Do students pay less for membership?", "pay half"),
    ("When should the shutters of the boat house be closed?", "force six"),
    ("Where is the key of the boat house?", "in the box beside the door"),
    ("What has to be switched off by the last one to leave?", "the compressor"),
    ("Where do I report a damage?", "red book"),
    ("How much of a repair do I pay before the club pays?", "first fifty crowns"),
    ("How many seats does the Grebe have?", "Grebe | 8"),
    ("In which berth does the Osprey lie?", "C3"),
    ("What crew weight does the Cormorant need?", "270 kg"),
    ("When was the Moorhen built?", "2021"),
    ("In which months do I wear a life jacket on the river?", "October to April"),
    ("Above which water level does nobody row?", "310 cm"),
    ("How often do I blow the horn when a boat capsizes?", "three times"),
    ("When does the regatta take place?", "second Saturday of June"),
    ("How large was the surplus that the treasurer reported?", "2,310 crowns"),
    ("How much may the motor boat for the trainers cost?", "9,500 crowns"),
    ("Who was elected boat master?", "Ludmila Farr"),
)


@pytest.fixture(scope="module")
def club(stack, tmp_path_factory):
    folder = tmp_path_factory.mktemp("club")
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text)
    done = stack.command("ingest", str(folder), "--collection", "club")
    assert done.returncode == 0, done.stderr
    return stack


async def test_answers_stand_in_the_brief(club):
    """Nine of ten, seven of ten in its first passage of these documents; 800 tokens of JSON."""
    shown, first, tokens = [], [], []
    async with Client(club.url + "/mcp/connector") as client:
        for question, answer in QUESTIONS:
            result = await client.call_tool("research_brief", {"question": question})
            brief = result.structured_content
            sources = {s["citation"]: s["source"] for s in brief["sources"]}
            texts = [
                p["text"] for p in brief["passages"] if sources[p["citation"]] == "documents/club"
            ]
            shown.append(any(answer in " ".join(text.split()) for text in texts))
            first.append(bool(texts) and answer in " ".join(texts[0].split()))
            tokens.append(count(result.content[0].text))
    missed = [question for (question, _), there in zip(QUESTIONS, shown, strict=True) if not there]
    assert sum(shown) >= 0.9 * len(QUESTIONS), missed
    assert sum(first) >= 0.7 * len(QUESTIONS)
    assert sum(tokens) <= 800 * len(QUESTIONS)
