"""The verdicts on GPU tasks, told to people and to the file that remembers them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .evidence import SAID
from .gpu import GPU, Case, Lesson
from .kinds import is_near, is_open, place_of
from .state import State, TaskState

__all__ = ["GpuRow", "cases_of", "lessons", "rows", "tell", "verdict_on", "write"]


class GpuRow(NamedTuple):
    """What is thought of one kind of task, and how its tasks were placed.

    ``verdict`` is "gpu", "cpu" or "unknown"; ``by_input`` that tasks are the GPU's if an input of theirs is on a
    device. ``belief`` is how sure that is, from 0 to 1. ``evidence`` holds ``(kind, weight, detail, how often)``, the
    strongest first. ``right`` and ``wrong`` count tasks that ran where they belonged or not, ``first`` those of the
    wrong ones that ran before anything was known. ``flips`` are ``(time, verdict, cause)``.
    """

    prefix: str
    function: str
    verdict: str
    by_input: bool
    belief: float
    evidence: tuple[tuple[str, float, str, int], ...]
    right: int
    wrong: int
    first: int
    flips: tuple[tuple[float, str, str], ...]


def rows(cases: Iterable[Case]) -> list[GpuRow]:
    """A row for each kind of task on which there is evidence, GPU tasks first, then by name."""
    found = [
        GpuRow(
            case.name, case.function, case.verdict, case.verdict == GPU and not case.places, round(case.belief(), 3),
            tuple(case.evidence()), case.right, case.wrong, case.first, tuple(tuple(flip) for flip in case.flips),  # type: ignore[misc]
        )
        for case in cases
        if case.notes or case.flips
    ]  # fmt: skip
    return sorted(found, key=lambda row: (row.verdict != GPU, row.prefix, row.function))


def cases_of(state: State) -> list[Case]:
    """All cases there are."""
    if not state.suspects:
        return []
    return [kind.case for kind in list(state.prefixes.values()) if kind.case is not None]


def lessons(cases: Iterable[Case], everything: bool = False) -> list[Lesson]:
    """What is worth remembering and was not taken yet, or all that is."""
    found = []
    for case in cases:
        if case.unsaved or everything:
            case.unsaved = False
            lesson = case.lesson()
            if lesson is not None:
                found.append(lesson)
    return found


def verdict_on(state: State, ts: TaskState) -> dict[str, Any]:
    """Why a task runs on the executor it does: the verdict, ``because``, and the evidence; plain values."""
    needs = ts.needs
    case = ts.prefix.case
    evidence = [list(note) for note in case.evidence()] if case is not None else []
    if not is_open(ts):
        said = f"a person has said so: executor {needs.executor!r}"
        return {"verdict": "gpu" if needs.executor == "gpu" else "cpu", "because": said,
                "evidence": [[SAID, 1.0, said, 1], *evidence]}  # fmt: skip
    verdict = case.verdict if case is not None else "unknown"
    because = "nothing was seen of a device"
    if is_near(ts):
        verdict, because = GPU, "an input of it is on a device"
    elif case is not None and case.flips:
        because = case.flips[-1].cause
    if verdict == GPU and case is not None and not case.places and not is_near(ts):
        verdict, because = "cpu", "tasks of its kind are the GPU's where an input is on a device, and its are not"
    wanted = place_of(state, ts)
    if verdict == GPU and wanted.free:
        because += "; no worker that it may run on has a GPU lane, so it runs on the CPU"
    return {"verdict": verdict, "because": because, "evidence": evidence}


def tell(found: dict[str, Any]) -> list[str]:
    """The same in lines of text; none where there is nothing to tell that the annotations do not."""
    if all(kind == SAID for kind, *_ in found["evidence"]) and (found["evidence"] or found["verdict"] == "unknown"):
        return []
    return [f"  GPU task? {found['verdict']}: {found['because']}"]


def write(table: Sequence[GpuRow]) -> str:
    """The rows as a table of text."""
    head = ("prefix", "verdict", "belief", "right", "wrong", "first", "evidence")
    cells = [head]
    for row in table:
        verdict = f"{row.verdict} (by input)" if row.by_input else row.verdict
        why = "; ".join(f"{kind}: {detail}" for kind, _, detail, _ in row.evidence[:2])
        cells.append((row.prefix, verdict, f"{row.belief:.2f}", str(row.right), str(row.wrong), str(row.first), why))
    widths = [max(len(line[n]) for line in cells) for n in range(len(head) - 1)]
    widths.append(0)
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(line.rstrip() for line in lines)
