"""Dates of questions."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_retrieval.question.dates import dates_of
from searchbus_retrieval.question.periods import Limit, NextTo, Period


def periods_of(question: str) -> list[Period]:
    return list(dates_of(question).periods)


def limits_of(question: str) -> list[Limit]:
    return list(dates_of(question).limits)


def beside_of(question: str) -> list[NextTo]:
    return list(dates_of(question).beside)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("why did rates rise in March 2022?", [("2022-03-01", "2022-04-01")]),
        ("the January 30-31, 2024 meeting", [("2024-01-30", "2024-02-01")]),
        ("on March 3, 2020", [("2020-03-03", "2020-03-05")]),
        ("statement 2008-12-16", [("2008-12-16", "2008-12-17")]),
        ("policy in Q3 2021", [("2021-07-01", "2021-10-01")]),
        ("the fourth quarter of 1999", [("1999-10-01", "2000-01-01")]),
        ("late 2019 strains", [("2019-09-01", "2020-01-01")]),
        (
            "from Sept. 2001 and in 2005",
            [("2001-09-01", "2001-10-01"), ("2005-01-01", "2006-01-01")],
        ),
        ("low at least through mid-2013", []),
        ("purchases by the end of the second quarter of 2011", []),
        ("a rate of 2000 basis points", [("2000-01-01", "2001-01-01")]),
        ("February 31, 2020", []),
        ("30 February 2015", []),
        ("2015-02-30 or 31/31/2015", []),
        ("the season 2019-20", [("2019-01-01", "2020-01-01")]),
        ("no dates at all", []),
    ],
)
def test_periods(question, expected):
    """Each form of a date, in the order of the question."""
    found = [(p.start.isoformat(), p.end.isoformat()) for p in periods_of(question)]
    assert found == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("low at least through mid-2013", [Limit(date(2013, 9, 1), before=True)]),
        ("to begin in October 2017", [Limit(date(2017, 11, 1), before=True)]),
        ("after the 2003 easing", [Limit(date(2004, 1, 1), before=False)]),
        ("until at least the middle of 2013", [Limit(date(2013, 9, 1), before=True)]),
        ("pushed out to mid-2015", [Limit(date(2015, 9, 1), before=True)]),
        ("extended to June 2011", [Limit(date(2011, 7, 1), before=True)]),
        ("in March 2022", []),
    ],
)
def test_dates_that_are_only_mentioned_are_limits(question, expected):
    """Documents that plan until a day are from before it."""
    assert limits_of(question) == expected


@given(st.text(max_size=300))
def test_any_text_is_read_without_harm(text):
    """Every period is a real one."""
    for period in periods_of(text):
        assert period.start < period.end <= date(2100, 1, 1)


MONTHS = {
    name: number
    for number, name in enumerate(
        "January February March April May June July August September October November December"
        .split(), 1,
    )
}  # fmt: skip
OF_THE_MEETING = (
    "the statement after the {month} {year} meeting",
    "What did the Fed announce after the {month} {year} FOMC meeting?",
    "the statement following the {month} {year} meeting on inflation",
    "minutes following the meeting of {month} {year}",
    "the decision at the {month} {year} meeting",
    "what was said in {month} {year} about prices",
    "credit conditions {short} '{two}",
    "credit conditions {short}. \u2019{two}, in brief",
    "purchases {number}/{two}",
    "purchases {number:02}/{year}",
    "{month} of {year}",
)
SINCE = (
    "mentions of supply since the {month} {year} meeting",
    "since the meeting in {month} {year}",
)
BEFORE = (
    "What was decided at the meeting before the {month} {year} meeting?",
    "the previous meeting before {month} {year}",
    "the statement before the {month} {year} meeting",
    "the meeting preceding that of {month} {year}",
    "the outlook before the {month} {year} emergency meeting",
)
AFTER = (
    "What was decided at the meeting after the {month} {year} meeting?",
    "the next meeting after {month} {year}",
    "the next statement after the {month} {year} meeting",
    "the meeting following the one in {month} {year}",
    "What was decided at the meeting that followed {month} {year}?",
)


def month_after(year: int, month: int) -> date:
    return date(year + month // 12, month % 12 + 1, 1)


@pytest.mark.parametrize("year", [1994, 1999, 2003, 2009, 2016, 2023])
@pytest.mark.parametrize("month", MONTHS)
def test_every_way_to_name_a_meeting_of_a_month(month, year):
    """What is issued after a meeting is of that meeting; the meeting after it is another one."""
    number = MONTHS[month]
    words = {
        "month": month, "short": month[:3], "year": year, "two": f"{year % 100:02}", "number": number
    }  # fmt: skip
    whole = Period(date(year, number, 1), month_after(year, number))
    for template in OF_THE_MEETING:
        question = template.format(**words)
        assert periods_of(question) == [whole], question
        assert limits_of(question) == beside_of(question) == [], question
    for template in SINCE:
        question = template.format(**words)
        assert periods_of(question) == [Period(whole.start, date(2100, 1, 1))], question
    for templates, before in ((BEFORE, True), (AFTER, False)):
        for template in templates:
            question = template.format(**words)
            assert beside_of(question) == [NextTo(whole, before=before)], question
            assert periods_of(question) == [], question


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("26 January {y}", (1, 26), (1, 28)),
        ("the 3rd of May {y}", (5, 3), (5, 5)),
        ("9/18/{y}", (9, 18), (9, 19)),
        ("January 31-February 1, {y}", (1, 31), (2, 2)),
        ("{y} Q2", (4, 1), (7, 1)),
        ("2Q {y}", (4, 1), (7, 1)),
        ("the 2nd quarter of {y}", (4, 1), (7, 1)),
        ("late in {y}", (9, 1), (13, 1)),
        ("the start of {y}", (1, 1), (4, 1)),
        ("the second half of {y}", (7, 1), (13, 1)),
        ("the summer of {y}", (6, 1), (10, 1)),
        ("between March {y} and June {y}", (3, 1), (7, 1)),
        ("from the March {y} to the June {y} meeting", (3, 1), (7, 1)),
    ],
)
def test_days_quarters_seasons_and_ranges(question, start, end):
    """In any year."""
    for year in range(1994, 2026):
        last = date(year + 1, 1, 1) if end[0] == 13 else date(year, *end)
        assert periods_of(question.format(y=year)) == [Period(date(year, *start), last)]


@pytest.mark.parametrize(
    ("question", "day", "before"),
    [
        ("inflation as given at the first meeting of 2022", date(2022, 1, 1), False),
        ("the first FOMC meeting in the year 2022?", date(2022, 1, 1), False),
        ("What was decided at the last meeting of 2015?", date(2016, 1, 1), True),
        ("final policy meeting of Q2 2019", date(2019, 7, 1), True),
    ],
)
def test_first_and_last_meeting_of_a_period_are_beside_its_ends(question, day, before):
    """And no order of what documents say, nor the period itself."""
    assert beside_of(question) == [NextTo(Period(day, day), before)]
    assert periods_of(question) == []


@pytest.mark.parametrize(
    ("question", "day", "before", "steps"),
    [
        ("the second meeting of 2018", "2018-01-01", False, 2),
        ("at their 3rd policy meeting in 2011", "2011-01-01", False, 3),
        ("the second-to-last meeting of 2015", "2016-01-01", True, 2),
        ("the penultimate gathering of 2015", "2016-01-01", True, 2),
        ("Q4 2018, the final session", "2019-01-01", True, 1),
        ("2015's first meeting", "2015-01-01", False, 1),
        ("the previous meeting before September 2008's", "2008-09-01", True, 1),
        ("the one after the April/May 2024 meeting", "2024-04-01", False, 1),
        ("the next-to-last meeting of 2005", "2006-01-01", True, 2),
        ("the Committee's final 2021 meeting", "2022-01-01", True, 1),
        ("the opening meeting of 2016", "2016-01-01", False, 1),
        ("the very last meeting of the 1990s", "2000-01-01", True, 1),
        ("two meetings after December 2015", "2015-12-01", False, 2),
        ("two meetings before the September 2008 one", "2008-09-01", True, 2),
        ("the first meeting after Iraq invaded Kuwait in August 1990", "1990-08-01", False, 1),
    ],
)
def test_meetings_are_counted_from_either_end(question, day, before, steps):
    """Of a year, a quarter or another meeting, whatever the meeting is called."""
    (found,) = beside_of(question)
    assert (found.period.start.isoformat(), found.before, found.steps) == (day, before, steps)
    assert periods_of(question) == []


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "compare July and September 1996",
            [("1996-07-01", "1996-08-01"), ("1996-09-01", "1996-10-01")],
        ),
        ("between July and September 1996", [("1996-07-01", "1996-10-01")]),
        ("the meeting between those of July and September 1996", [("1996-08-01", "1996-09-01")]),
        ("the July-August 2001 meeting", [("2001-07-01", "2001-09-01")]),
        ("In 1994, what did the August meeting do", [("1994-08-01", "1994-09-01")]),
        ("summer 1994: the mid-August meeting", [("1994-08-01", "1994-09-01")]),
        ("just before Christmas 2000", [("2000-12-01", "2001-01-01")]),
        ("at the Halloween 2007 meeting", [("2007-10-01", "2007-11-01")]),
        ("why might prices march on, as they may in 2021", [("2021-01-01", "2022-01-01")]),
        ("the Halloween party", []),
        ("what they did on St Patrick's Day 2021", [("2021-03-01", "2021-04-01")]),
        (
            "Septmber 2012 and setpember 07 but not August 2007",
            [("2012-09-01", "2012-10-01"), ("2007-09-01", "2007-10-01")],
        ),
        ("remember marsh 2019", [("2019-03-01", "2019-04-01")]),
        ("between Mar-22 and Jun-22", [("2022-03-01", "2022-07-01")]),
        ("the year 2000 computer problem in 1998", [("1998-01-01", "1999-01-01")]),
        ("rates in 4Q17", [("2017-10-01", "2018-01-01")]),
        ("the late 1990s", [("1996-01-01", "2000-01-01")]),
    ],
)
def test_what_people_leave_unsaid_of_a_date_is_spelled_out(question, expected):
    """A year that two months share or that stands elsewhere, and days that have a name."""
    assert [(p.start.isoformat(), p.end.isoformat()) for p in periods_of(question)] == expected


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("rates before and after the May 1994 increase", "1994-05-01", "1994-06-01"),
        ("a year after March 2022's meeting", "2023-03-01", "2023-04-01"),
        ("two months before the January 2008 cut", "2007-11-01", "2007-12-01"),
        ("six weeks after the June 2013 meeting", "2013-07-13", "2013-08-12"),
        ("the week before the November 2016 election", "2016-10-25", "2016-11-24"),
        ("five years to the day before its July 31, 2024 decision", "2019-07-31", "2019-08-02"),
        ("the day after 9/11", "2001-09-12", "2001-09-14"),
        ("within a month of talks, within a month after March 3, 2020", "2020-03-03", "2020-04-05"),
        ("shortly after October 19, 2010", "2010-10-19", "2010-12-05"),
        ("shortly before October 19, 2010", "2010-09-04", "2010-10-19"),
        ("a month after January 31, 2023", "2023-02-28", "2023-03-02"),
    ],
)
def test_distances_from_a_date_are_counted(question, start, end):
    """In days, weeks, months and years; a day that the month lacks is its last one."""
    (found,) = periods_of(question)
    assert (found.start.isoformat(), found.end.isoformat()) == (start, end)
    assert limits_of(question) == beside_of(question) == []


def test_first_meeting_that_did_something_is_an_order():
    """Of all that did so in the period."""
    question = "the first meeting of 2022 at which members spoke of rents"
    assert beside_of(question) == []
    assert periods_of(question) == [Period(date(2022, 1, 1), date(2023, 1, 1))]


@pytest.mark.parametrize(
    "question", ["1/2 percent", "5/16 percent", "a 25/75 split", "may 20 people vote", "on Dec 8"]
)
def test_fractions_and_days_are_no_years(question):
    """Two digits are a year only where nothing else fits."""
    assert periods_of(question) == []


@pytest.mark.parametrize("years", ["2008-09", "2008/2009", "2008\u201309"])
def test_winter_of_two_years_is_one(years):
    """From December to March."""
    winter = Period(date(2008, 12, 1), date(2009, 4, 1))
    assert periods_of(f"strains in the winter of {years}") == [winter]


def test_comparison_with_a_year_is_a_limit():
    """ "The highest since 1981" was said later."""
    assert limits_of("the highest since 1981") == [Limit(date(1981, 1, 1), before=False)]


def test_period_has_its_first_day_and_not_its_end():
    """The end is the day after the last."""
    (march,) = periods_of("rates in March 2022")
    assert [day in march for day in ("2022-02-28", "2022-03-01", "2022-03-31", "2022-04-01")] == [
        False, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "steps"),
    [
        ("June 2023 still had a recession. What did they say at the next meeting?", 1),
        ("The taper began in June 2023. What was it one meeting later?", 1),
        ("The June 2023 text was long. What did the following statement drop?", 1),
        ("The June 2023 text was long. And what about the next meeting?", 1),
        ("The June 2023 text was long. What was it 0 meetings later?", 1),
        ("The June 2023 text was long. What was it 99 meetings later?", 9),
        ("The June 2023 text was long. What about two meetings later?", 2),
        ("The June 2023 text was long. What did the one after that say?", 1),
        ("The June 2023 text was long. What of the meeting that followed?", 1),
        ("The June 2023 text was long. And the one after?", 1),
        ("It began in June 2023; how fast was it one meeting later?", 1),
        ('In June 2023 it "fell". What of ten meetings later?', 9),
        ("June 2023 promised it at least through mid-2024. What did the next meeting say?", 1),
        ("What replaced the word of June 2023 in the next statement?", 1),
        ("Which one took the place of that of June 2023 at the following meeting?", 1),
    ],
)
def test_a_later_sentence_asks_about_a_later_meeting(question, steps):
    """The date itself is where it counts from."""
    june = Period(date(2023, 6, 1), date(2023, 7, 1))
    assert beside_of(question) == [NextTo(june, before=False, steps=steps)]
    assert periods_of(question) == []


@pytest.mark.parametrize(
    "question",
    [
        "PCE inflation 12 months ending April 2022", "inflation, 12 months to April 2022",
        "growth in the twelve months that ended in April 2022",
        "How high was inflation in the six months through April 2022?",
    ],
)  # fmt: skip
def test_statistics_of_a_span_are_published_after_its_last_month(question):
    """The documents of that month do not know them yet."""
    found = Period(date(2022, 5, 11), date(2022, 7, 2))
    assert periods_of(question) == [found]
    assert dates_of(question).held == (found,)


def test_a_later_sentence_asks_about_some_weeks_later():
    """Give or take some days, since nobody counts them."""
    (found,) = periods_of("The June 2023 cut was small. And the surprise two weeks later?")
    assert found == Period(date(2023, 6, 12), date(2023, 7, 18))


@pytest.mark.parametrize(
    "question",
    [
        "Did the June 2023 minutes hint at a hike at the next meeting?",
        "June 2023 still had a recession. Was the next year better?",
        "June 2023 and May 2022 had one. What of the next meeting?",
        "In June 2023, what did Mr. Powell say at the next meeting?",
        "In June 2023, what did the U.S. Treasury say at the next meeting?",
        "In June 2023, what did John P. Doe say at the next meeting?",
        "June 2023: what did the next meeting decide?",
        "The June 2023 text was long. What did it say about the next meeting?",
        "The June 2023 text was long. What did they expect for the next meeting?",
    ],
)
def test_a_date_is_meant_where_no_later_sentence_counts_from_it(question):
    """In its own sentence the next meeting is what the documents of the date speak of."""
    assert periods_of(question)[0] == Period(date(2023, 6, 1), date(2023, 7, 1))


@pytest.mark.parametrize(
    "question",
    [
        "the meeting in June 2023", "the June 2023 session", "the FOMC's June 2023 policy decision",
        "statement of June 2023", "June 2023's minutes", "growth in the minutes from June 2023",
        "the meeting the FOMC held in June 2023", "fed decision june 2023 what happened",
        "the June 2023 meeting compared with growth in May 2023",
    ],
)  # fmt: skip
def test_a_month_is_that_of_a_meeting_where_the_two_stand_together(question):
    """By whatever word."""
    assert dates_of(question).held == (Period(date(2023, 6, 1), date(2023, 7, 1)),)


def test_a_meeting_has_a_day_or_a_year_too():
    """Not only a month."""
    (day,) = dates_of("the meeting on June 14, 2023").held
    assert day.start == date(2023, 6, 14)
    assert dates_of("the meetings of 2023").held == (Period(date(2023, 1, 1), date(2024, 1, 1)),)


@pytest.mark.parametrize(
    "question",
    ["inflation in June 2023", "What did the minutes say about the drop in prices in June 2023?",
     "the meeting before June 2023"],
)  # fmt: skip
def test_a_month_beside_another_word_is_of_no_meeting(question):
    """Minutes of a later month may say what happened in it."""
    assert dates_of(question).held == ()
