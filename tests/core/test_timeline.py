"""A place's timeline: what it holds, and how one goes on from where one was."""

from __future__ import annotations

from bascule.core.timeline import Timeline, TimelineEntry
from bascule.core.timeline_reader import TimelineReader


def noted(timeline: Timeline, *kinds: str) -> None:
    for kind in kinds:
        timeline.note(kind, {}, size=10)


def kinds(entries: list[TimelineEntry] | None) -> list[str]:
    return [entry.kind for entry in entries or ()]


def test_a_reader_with_the_last_number_gets_the_entries_after_it() -> None:
    timeline = Timeline()
    noted(timeline, "a", "b", "c")
    assert kinds(timeline.after(1, timeline.epoch)) == ["b", "c"]
    assert kinds(timeline.after(3, timeline.epoch)) == []
    assert kinds(timeline.after(3, "another")) == ["a", "b", "c"]


def test_the_oldest_entries_are_dropped_past_a_count_or_size_limit() -> None:
    few = Timeline(max_entries=2)
    noted(few, "a", "b", "c")
    assert kinds(few.after(0)) == ["b", "c"]
    assert kinds(few.after(2, few.epoch)) == ["c"]
    small = Timeline(max_bytes=25)
    noted(small, "a", "b", "c")
    assert kinds(small.after(0)) == ["b", "c"]


async def test_a_follower_gets_past_and_new_entries_in_batches() -> None:
    timeline = Timeline()
    noted(timeline, "a")
    with TimelineReader(timeline) as following:
        noted(timeline, "b")
        timeline.show("output", {})
        batches = following.items()
        assert kinds(await anext(batches)) == ["a", "b", "output"]
        noted(timeline, "c")
        assert kinds(await anext(batches)) == ["c"]
        following.finish()
        assert [batch async for batch in batches] == []
    assert not timeline.is_watched


async def test_a_slow_follower_misses_output_but_no_entry() -> None:
    timeline = Timeline()
    with TimelineReader(timeline) as following:
        for _ in range(40):
            timeline.show("output", {}, size=100_000)
        noted(timeline, "a")
        batch = await anext(following.items())
    assert batch is not None
    assert kinds(batch)[-1] == "a"
    assert 1 < len(batch) < 20


async def test_output_is_sent_only_to_followers_that_request_it() -> None:
    timeline = Timeline()
    with TimelineReader(timeline, output=False) as following:
        assert not timeline.is_watched
        timeline.show("output", {})
        noted(timeline, "a")
        assert kinds(await anext(following.items())) == ["a"]


def test_a_timeline_continues_the_numbering_of_an_earlier_one() -> None:
    timeline = Timeline(epoch="known", last=7)
    noted(timeline, "a")
    assert [entry.number for entry in timeline.after(7, "known")] == [8]
    assert timeline.last == 8
