"""Is it a GPU task? Evidence of one kind of task goes in, a verdict comes out.

Evidence is of several *sources*, and what speaks against one need not speak against another: a function whose code
launches kernels and gives numpy back is a GPU task, however often its result was on the host. Each source has a
*belief* between 0 and 1. What speaks for it takes away a part of the doubt that is left; what contradicts it takes away
a part of the belief. The sources together leave as much doubt as the product of what each leaves (a "noisy or").

The verdict has hysteresis: it becomes GPU at :data:`~hetsched.core.evidence.STRONG` and stays until the belief is
down to :data:`OFF`. Ten contradictions in a row lead from certainty to there, and each return to GPU doubles how many
it takes the next time, so that a kind of task that is now this and now that does not flip for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from .evidence import CODE, DOWNLOAD, FAILED, INPUT, RAN, RESULT, STRONG, WEAK, Evidence

__all__ = ["CPU", "GPU", "OFF", "PATIENCE", "UNKNOWN", "Case", "Flip", "Lesson", "Run"]

CPU: Final = "cpu"
GPU: Final = "gpu"
UNKNOWN: Final = "unknown"

OFF: Final = 0.2
"""A verdict GPU is given up when the belief is no more than this."""

PATIENCE: Final = 10
"""So many contradictions in a row lead from certainty down to :data:`OFF`."""

_MOST_PATIENCE: Final = 320
_CLEAN: Final = 3
"""After so many runs without any sign of a device a kind of task that was unknown is taken for the CPU's."""
_MOST_NOTES: Final = 16
_MOST_FLIPS: Final = 32
_MOST_STATIC: Final = 64
_SLACK: Final = 1e-9
_SOURCES: Final = (CODE, RESULT, RAN, INPUT)
_SOURCE_OF: Final = {CODE: CODE, DOWNLOAD: CODE, RESULT: RESULT, RAN: RAN, FAILED: RAN, INPUT: INPUT}


class Run(NamedTuple):
    """How one task ran: on a GPU lane or not, and what was seen of a device.

    ``near``: an input was on a device. ``cuda_nbytes`` are the bytes of its result there. ``watched``: a probe of
    device memory was at work and ``ran`` is what it saw, None for nothing.
    """

    on_gpu: bool
    near: bool = False
    cuda_nbytes: int = 0
    watched: bool = False
    ran: Evidence | None = None


class Flip(NamedTuple):
    """A verdict that changed: when, into what, and why."""

    now: float
    verdict: str
    cause: str


class Lesson(NamedTuple):
    """What is worth remembering of a kind of task until the next start."""

    function: str
    name: str
    verdict: str
    evidence: tuple[Evidence, ...]
    right: int
    wrong: int
    first: int


class Case:
    """The evidence on one kind of task (a prefix, a function), and the verdict."""

    __slots__ = (
        "_against", "_clean", "_gave_up", "_static", "beliefs", "first", "flips", "function", "name", "notes",
        "patience", "places", "right", "undecided", "unsaved", "verdict", "wrong",
    )  # fmt: skip

    def __init__(self, name: str, function: str = "") -> None:
        self.name = name
        self.function = function
        """The function's digest, empty where none is known."""
        self.verdict = UNKNOWN
        self.places = False
        """Whether all its tasks belong on a GPU lane; if not, those do whose inputs are on a device."""
        self.beliefs: dict[str, float] = {}
        """By source."""
        self.notes: dict[tuple[str, str], list[Any]] = {}
        """The evidence so far: ``[greatest weight, how often]`` by kind and detail."""
        self.flips: list[Flip] = []
        self.patience = PATIENCE
        self.right = 0
        """How many ran where the verdict says, or said later."""
        self.wrong = 0
        self.first = 0
        """How many of the wrong ones ran before there was a first verdict."""
        self.undecided = 0
        """How many ran on the CPU while the verdict was unknown."""
        self.unsaved = False
        """Something changed that is worth remembering."""
        self._clean = 0
        self._against = 0
        self._gave_up = False
        self._static: dict[tuple[str, str], float] = {}

    # What is known before a run

    def learn(self, evidence: Iterable[Evidence], now: float) -> None:
        """Take what was found without running it: in the code, or remembered of earlier starts.

        The same evidence counts once, however often it is brought.
        """
        sound = [e for e in evidence if e.kind in _SOURCE_OF and -1 <= e.weight <= 1]
        fresh = [e for e in sound if (e.kind, e.detail) not in self._static]
        if not fresh or len(self._static) > _MOST_STATIC:
            return
        for e in fresh:
            self._static[e.kind, e.detail] = e.weight
            self._note(e, 1)
        strongest = max(fresh, key=lambda e: e.weight)
        for e in fresh:
            if e.weight >= WEAK:
                self._raise(_SOURCE_OF[e.kind], e.weight)
        for e in fresh:
            if e.weight < 0:
                self._lower(_SOURCES, max(1.0 + e.weight, 0.0))
        self._judge(now, _words(strongest) if strongest.weight > 0 else _words(min(fresh, key=lambda e: e.weight)))

    def unlearned(self, now: float) -> Case:
        """A case of the same kind of task, in which nothing is known but what its code says."""
        case = Case(self.name, self.function)
        said = self._static.items()
        case.learn([Evidence(kind, weight, word) for (kind, word), weight in said if kind in (CODE, DOWNLOAD)], now)
        return case

    # What a run shows

    def ran(self, run: Run, now: float) -> None:
        """Take what one run has shown."""
        self._count(run)
        positive = self._positive(run)
        if positive is None:
            self._contradicted(run, now)
            return
        self._against = 0
        source = _SOURCE_OF[positive.kind] if positive.kind != DOWNLOAD else INPUT
        self._note(positive, 1)
        self._raise(source, positive.weight)
        if source != INPUT and not run.near:
            self._lower((INPUT,), OFF ** (1 / self.patience))
        self._judge(now, _words(positive))

    def failed(self, detail: str, now: float) -> None:
        """It failed on the CPU with an error of a device."""
        evidence = Evidence(FAILED, 1.0, detail)
        self.wrong += 1
        self.first += not self.flips
        self._note(evidence, 1)
        self._raise(RAN, 1.0)
        self._judge(now, _words(evidence))

    def _positive(self, run: Run) -> Evidence | None:
        if run.near:
            if run.cuda_nbytes:
                return Evidence(INPUT, 0.9, "its inputs were on a device")
            return Evidence(DOWNLOAD, 0.9, "its inputs were on a device, and its result is not")
        if run.cuda_nbytes:
            return Evidence(RESULT, 1.0, "its result is on a device")
        return run.ran if run.ran is not None and run.ran.weight >= WEAK else None

    def _contradicted(self, run: Run, now: float) -> None:
        """A run without any sign of a device: it speaks against what such a run would have shown."""
        self._clean += 1
        self._against += 1
        part = OFF ** (1 / self.patience)
        self._lower((RESULT, INPUT), part)
        if self._resists():
            # That code which reaches for a device gave a result on the host says nothing; that it took no memory there
            # says little, since a kernel may work on what is there already.
            if run.watched and run.on_gpu:
                self._lower((CODE, RAN), OFF ** (1 / (4 * self.patience)))
        else:
            self._lower((CODE, RAN), part)
        self._judge(now, f"{self._against} runs without a sign of a device")

    def _resists(self) -> bool:
        return max(self.beliefs.get(CODE, 0.0), self.beliefs.get(RAN, 0.0)) >= STRONG - _SLACK

    # The verdict

    def belief(self, sources: Iterable[str] = _SOURCES) -> float:
        """How sure it is, from 0 to 1, that this is a GPU task, by these sources."""
        doubt = 1.0
        for source in sources:
            doubt *= 1.0 - self.beliefs.get(source, 0.0)
        return 1.0 - doubt

    def _judge(self, now: float, cause: str) -> None:
        own = self.belief((CODE, RESULT, RAN))
        places = own > OFF + _SLACK if self.places else own >= STRONG - _SLACK
        whole = self.belief()
        sure = whole > OFF + _SLACK if self.verdict == GPU else whole >= STRONG - _SLACK
        verdict = GPU if sure or places else self.verdict
        if verdict == GPU and not (sure or places):
            verdict = CPU
        if verdict == UNKNOWN and self._clean >= _CLEAN:
            verdict = CPU
        if places and not self.places and self._gave_up:
            self.patience = min(2 * self.patience, _MOST_PATIENCE)
        self._gave_up = self._gave_up or (self.places and not places)
        self.places = places
        if verdict != self.verdict:
            self._flip(verdict, cause, now)

    def _flip(self, verdict: str, cause: str, now: float) -> None:
        if self.verdict == UNKNOWN:
            if verdict == GPU:
                self.wrong += self.undecided
                self.first += self.undecided
            else:
                self.right += self.undecided
            self.undecided = 0
        self.verdict = verdict
        self.flips.append(Flip(now, verdict, cause))
        del self.flips[:-_MOST_FLIPS]
        self.unsaved = True

    def _raise(self, source: str, weight: float) -> None:
        belief = self.beliefs.get(source, 0.0)
        self.beliefs[source] = belief + (1.0 - belief) * min(weight, 1.0)

    def _lower(self, sources: Iterable[str], part: float) -> None:
        for source in sources:
            if source in self.beliefs:
                self.beliefs[source] *= part

    # Records

    def _count(self, run: Run) -> None:
        if self.verdict == UNKNOWN and not run.on_gpu:
            self.undecided += 1
        elif run.on_gpu == (self.verdict == GPU and (self.places or run.near)) or (run.near and run.on_gpu):
            self.right += 1
        else:
            self.wrong += 1
            self.first += len(self.flips) == 1 and not run.on_gpu  # it had begun before the verdict was there

    def _note(self, evidence: Evidence, count: int) -> None:
        known = self.notes.get((evidence.kind, evidence.detail))
        if known is not None:
            known[0] = max(known[0], evidence.weight)
            known[1] += count
            return
        if len(self.notes) >= _MOST_NOTES:
            least = min(self.notes, key=lambda note: (self.notes[note][1], abs(self.notes[note][0])))
            del self.notes[least]
        self.notes[evidence.kind, evidence.detail] = [evidence.weight, count]

    def evidence(self) -> list[tuple[str, float, str, int]]:
        """The evidence so far as ``(kind, weight, detail, how often)``, the strongest first."""
        found = [(kind, weight, detail, count) for (kind, detail), (weight, count) in self.notes.items()]
        return sorted(found, key=lambda note: (-abs(note[1]), note[0], note[2]))

    def lesson(self) -> Lesson | None:
        """What to remember of it; None where there is nothing yet."""
        if self.verdict == UNKNOWN or not self.function:
            return None
        if self.verdict == GPU:
            kept = [(k, w, d) for k, w, d, _ in self.evidence() if k not in (INPUT, DOWNLOAD) or (k, d) in self._static]
            # Where it is its inputs that tell, each task's own are looked at: there is nothing to remember.
            found = tuple(Evidence(*note) for note in kept if note[1] >= WEAK)[:4] if self.places else ()
        elif any(flip.verdict == GPU for flip in self.flips) or any(w >= STRONG for w in self._static.values()):
            found = (Evidence(RAN, -0.9, "it ran without a device many times"),)
        else:
            return None
        return Lesson(self.function, self.name, self.verdict, found, self.right, self.wrong, self.first)


def _words(evidence: Evidence) -> str:
    return f"{evidence.kind}: {evidence.detail}"
