"""Fair shares that are kept up to date are those that are computed from nothing."""

from __future__ import annotations

import random

import pytest

from hetsched.sims.network.fair import FairShares, Share


def from_nothing(capacity, shares):
    """Progressive filling: all grow alike until a link is full, whose shares then stay."""
    left = list(capacity)
    rates = {}
    growing = {share.number: share for share in shares}
    while growing:
        users = {}
        for share in growing.values():
            for link in share.links:
                users[link] = users.get(link, 0) + 1
        step = min(left[link] / n for link, n in users.items())
        full = [link for link, n in users.items() if left[link] / n <= step * (1 + 1e-12)]
        done = [share for share in growing.values() if set(share.links) & set(full)]
        for share in growing.values():
            rates[share.number] = rates.get(share.number, 0.0) + step
            for link in share.links:
                left[link] -= step
        for share in done:
            del growing[share.number]
    return rates


@pytest.mark.parametrize("seed", range(60))
def test_changes_give_what_filling_from_nothing_gives(seed):
    rng = random.Random(seed)
    capacity = [rng.choice([1.0, 2.0, 10.0, rng.random() + 0.1]) for _ in range(rng.randint(1, 12))]
    fair = FairShares(capacity)
    there = {}
    for number in range(120):
        for _ in range(rng.choice([1, 1, 3])):
            if there and rng.random() < 0.45:
                fair.remove(there.pop(rng.choice(list(there))))
            else:
                links = tuple(rng.sample(range(len(capacity)), rng.randint(1, min(4, len(capacity)))))
                share = Share(number * 10 + len(there), links)
                if share.number not in there:
                    there[share.number] = share
                    fair.add(share)
        if rng.random() < 0.1:
            capacity[rng.randrange(len(capacity))] *= rng.choice([0.5, 2.0])
            fair.links_changed()
        fair.settle()
        assert {n: share.rate for n, share in there.items()} == pytest.approx(
            from_nothing(capacity, there.values()), rel=1e-9
        )


def test_what_does_not_depend_on_a_change_is_not_looked_at():
    fair = FairShares([1.0, 1.0])
    shares = [Share(n, (n % 2,)) for n in range(4)]
    for share in shares:
        fair.add(share)
    assert {share.number for share in fair.settle()} == {0, 1, 2, 3}
    fair.remove(shares[0])
    assert [(share.number, share.rate) for share in fair.settle()] == [(2, 1.0)]
