"""A peer is gone when nothing moves any more, and not before."""

from __future__ import annotations

import pytest
import trio

from hetsched.comm.silence import wait_for_silence


class Line:
    """A connection whose peer answers, and takes what is sent, until it hangs."""

    def __init__(self, answers=10**9, takes=0):
        self.received = self.taken = 0
        self.sending = takes > 0
        self.answers, self.takes = answers, takes
        self.asked = []

    def ask(self):
        self.asked.append(trio.current_time() - self.began)
        if self.answers:
            self.answers -= 1
            self.received += 10

    async def silent_after(self, limit, give_up):
        """When it was given up, and None if it was not."""
        self.began = trio.current_time()
        with trio.move_on_after(give_up):
            await wait_for_silence(self, limit, self.ask)
            return trio.current_time() - self.began
        return None


async def take(line):
    for _ in range(line.takes):
        await trio.sleep(5)
        line.taken += 1000


async def test_one_that_answers_is_asked_now_and_then(autojump_clock):
    line = Line()
    assert await line.silent_after(20, 1000) is None
    assert line.asked == pytest.approx([*range(5, 1000, 10)])


async def test_one_that_does_not_answer_is_lost(autojump_clock):
    line = Line(answers=3)
    assert await line.silent_after(20, 1000) == pytest.approx(50)
    assert line.asked == pytest.approx([5, 15, 25, 35])


async def test_one_that_takes_what_is_sent_is_there(autojump_clock):
    line = Line(answers=0, takes=40)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, line)
        assert await line.silent_after(20, 1000) == pytest.approx(220, abs=6)


async def test_what_the_system_takes_at_once_tells_nothing(autojump_clock):
    line = Line(answers=0, takes=40)
    line.sending = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, line)
        assert await line.silent_after(20, 1000) == pytest.approx(20)
