"""Fuse chains: a task whose one input is read by it alone runs with it, in one go, where annotations allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hetsched.core.annotations import merge
from hetsched.core.types import EACH
from hetsched.worker.plan import Chain, Link

from .draft import Draft

__all__ = ["fuse_chains"]


def fuse_chains(
    draft: Draft, wanted: Iterable[int], join: Callable[[Sequence[Link]], list[Link]] = list
) -> tuple[Draft, list[int]]:
    """Fuse; returns the new draft and, for each old number, the new one (-1 for a task that went into another).

    A task whose result is wanted keeps its own. The fused task has the key of the last and the annotations the rules
    of :func:`hetsched.core.annotations.merge` give; where these refuse, the chain is cut. Parallelism is not lost, as
    only chains are fused. ``join`` may make fewer links of those of a chain.
    """
    deps = draft.deps
    readers = [0] * len(deps)
    for inputs in deps:
        for d in inputs:
            readers[d] += 1
    keep = set(wanted)
    notes = draft.notes
    before: dict[int, int] = {}
    for number, inputs in enumerate(deps):
        if len(inputs) == 1 and readers[inputs[0]] == 1 and inputs[0] not in keep and inputs[0] != number:
            before[number] = inputs[0]
    if not before:
        return draft, list(range(len(deps)))
    return _rebuild(draft, _cut(draft, before, notes), join)


def _cut(draft: Draft, before: dict[int, int], notes: Mapping[int, dict[str, Any]]) -> dict[int, list[int]]:
    """Follow every chain from its end; returns, by last task, the tasks of each piece, first to last."""
    inner = set(before.values())
    pieces: dict[int, list[int]] = {}
    for end in before:
        if end in inner:
            continue
        piece = [end]
        note = notes.get(end) or {}
        number = end
        while number in before:
            number = before[number]
            first = notes.get(number) or {}
            merged = note if first is note or not (first or note) else merge(first, note)
            if merged is None:
                _close(piece, note, pieces, draft)
                piece, note = [number], first
            else:
                piece.append(number)
                note = merged
        _close(piece, note, pieces, draft)
    return pieces


def _close(piece: list[int], note: dict[str, Any], pieces: dict[int, list[int]], draft: Draft) -> None:
    if len(piece) > 1:
        pieces[piece[0]] = piece[::-1]
        if note:
            draft.annotate(piece[0], note)


def _rebuild(
    draft: Draft, pieces: dict[int, list[int]], joined: Callable[[Sequence[Link]], list[Link]]
) -> tuple[Draft, list[int]]:
    gone = {number for piece in pieces.values() for number in piece[:-1]}
    fused = Draft()
    numbers = [-1] * len(draft)
    kept = [number for number in range(len(draft)) if number not in gone]
    for mine, number in enumerate(kept):
        numbers[number] = mine
    for mine, number in enumerate(kept):
        piece = pieces.get(number)
        first = piece[0] if piece else number
        fused.keys.append(draft.keys[number])
        fused.deps.append(tuple(numbers[d] for d in draft.deps[first]))
        if number in draft.notes:
            fused.annotate(mine, draft.notes[number])
        if piece:
            links = joined([(draft.funcs[n], draft.args[n], draft.kwargs.get(n)) for n in piece])
            if len(links) > 1:
                fused.funcs.append(Chain(links))
                fused.args.append(EACH if draft.deps[first] else ())
            else:
                ((func, args, _),) = links
                fused.funcs.append(func)
                fused.args.append(args)
            continue
        fused.funcs.append(draft.funcs[number])
        fused.args.append(draft.args[number])
        if number in draft.kwargs:
            fused.kwargs[mine] = draft.kwargs[number]
    return fused, numbers
