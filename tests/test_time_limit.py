"""The wall-clock limits that all other tests run under."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from time_limit import TookTooLong, limit_async, task_tree

INI = """
    [pytest]
    trio_mode = true
    markers = limit(seconds)
"""


@pytest.fixture
def outcome(pytester, monkeypatch):
    """Run the text of a test file under the plugin, in a process of its own."""

    def run(text):
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
        pytester.makeini(INI)
        pytester.makepyfile(text)
        return pytester.runpytest_subprocess("-p", "time_limit", "-p", "no:cacheprovider", "-q", timeout=60)

    return run


async def test_quick_test_is_left_alone():
    async def quick(x):
        await trio.lowlevel.checkpoint()
        return x + 1

    limited = limit_async(quick, 10, "quick", pytest.fail)
    assert await limited(1) == 2
    assert limited.__name__ == "quick"


async def test_own_error_passes_unchanged():
    async def failing():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await limit_async(failing, 10, "failing", pytest.fail)()


async def test_slow_test_is_cancelled_and_its_tasks_are_told():
    said = []

    async def child():
        await trio.sleep_forever()

    async def slow():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child, name="the child")
            await trio.sleep_forever()

    with pytest.raises(TookTooLong, match=r"slow took longer than 0\.05 s"):
        await limit_async(slow, 0.05, "slow", said.append)()
    (text,) = said
    assert "the child" in text
    assert "in test_slow_test_is_cancelled_and_its_tasks_are_told.<locals>.child" in text


async def test_error_while_being_cancelled_is_the_cause():
    async def slow():
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("on the way out")

    with pytest.raises(TookTooLong) as caught:
        await limit_async(slow, 0.05, "slow", str)()
    assert isinstance(caught.value.__cause__, KeyError)


async def test_mock_clock_does_not_move_the_limit(autojump_clock):
    await trio.sleep(1000)


async def test_task_tree_names_this_test():
    assert "test_task_tree_names_this_test" in task_tree()


def test_next_test_runs_after_one_that_was_cut_off(outcome):
    result = outcome("""
        import pytest, trio

        @pytest.mark.limit(0.2)
        async def test_hangs():
            await trio.sleep_forever()

        async def test_after():
            await trio.sleep(0)
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*TookTooLong: *test_hangs took longer than 0.2 s*"])
    result.stderr.fnmatch_lines(["*test_hangs took longer than 0.2 s; its tasks:", "*in test_hangs"])


def test_hypothesis_tests_are_limited_too(outcome):
    result = outcome("""
        import pytest, trio
        from hypothesis import Phase, given, settings, strategies as st

        @pytest.mark.limit(0.2)
        @settings(max_examples=1, deadline=None, database=None, phases=[Phase.generate])
        @given(st.integers())
        async def test_hangs(n):
            await trio.sleep_forever()
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*took longer than 0.2 s*"])


def test_blocked_test_ends_the_run_with_a_traceback(outcome):
    result = outcome("""
        import pytest, threading

        @pytest.mark.limit(0.3)
        def test_blocks():
            threading.Event().wait()
    """)
    assert result.ret == 1
    result.stderr.fnmatch_lines(["*in test_blocks", "*::test_blocks took longer than 0.3 s"])
