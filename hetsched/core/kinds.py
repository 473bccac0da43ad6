"""Which kind a task is of, by its prefix and the function that makes it; and the evidence that comes with a graph."""

from __future__ import annotations

from collections.abc import Sequence

from hetsched.errors import ProtocolError

from .evidence import INPUT, WEAK
from .gpu import Case
from .makers import Maker
from .needs import Needs
from .prefixes import TaskPrefix
from .state import Graph, Phase, State, TaskState

__all__ = ["MOST_KINDS", "case_of", "is_near", "is_open", "judge", "kind_of", "place_of", "take_makers"]

MOST_KINDS = 32
"""So many functions that share a prefix are told apart; of further ones, those whose code speaks for a device from the
others."""


def take_makers(graph: Graph, makers: Sequence[Maker], made_by: Sequence[int], count: int) -> frozenset[int]:
    """Take the functions of a graph's next tasks; returns the places of those whose arguments are on a device.

    Raises ProtocolError, with nothing changed, where the columns do not fit each other.
    """
    if made_by:
        if len(made_by) != count:
            raise ProtocolError(f"{len(made_by)} tasks have a maker, and {count} came")
        if min(made_by) < 0 or max(made_by) >= len(graph.makers) + len(makers):
            raise ProtocolError("a task has a maker that is not there")
    graph.makers.extend(makers)
    graph.kinds.extend({} for _ in makers)
    return frozenset(n for n, maker in enumerate(graph.makers) if any(e.kind == INPUT for e in maker.evidence))


def kind_of(state: State, graph: Graph, place: int, prefix: TaskPrefix, now: float) -> TaskPrefix:
    """The kind of tasks with this prefix that the function at this place makes; takes the evidence on it."""
    maker = graph.makers[place]
    kind = _kind(state, maker, prefix)
    graph.kinds[place][prefix] = kind
    evidence = [e for e in maker.evidence if e.kind != INPUT]
    if evidence:
        case_of(state, kind).learn(evidence, now)
        judge(state, kind)
    return kind


def _kind(state: State, maker: Maker, prefix: TaskPrefix) -> TaskPrefix:
    if not maker.digest or prefix.function == maker.digest:
        return prefix
    if not prefix.function and prefix.case is None:
        prefix.function = maker.digest
        return prefix
    name = f"{prefix.name}#{maker.digest[:12]}"
    kind = state.prefixes.get(name)
    if kind is None and prefix.kinds >= MOST_KINDS:
        return _rest(state, maker, prefix)
    if kind is None:
        prefix.kinds += 1
        kind = state.prefixes[name] = TaskPrefix(prefix.name, name)
        kind.function = maker.digest
    return kind


def _rest(state: State, maker: Maker, prefix: TaskPrefix) -> TaskPrefix:
    """The kind of functions too many to be told apart, which no digest is known of."""
    suspect = any(e.kind != INPUT and e.weight >= WEAK for e in maker.evidence)
    name = f"{prefix.name}#{'suspects' if suspect else 'rest'}"
    kind = state.prefixes.get(name)
    if kind is None:
        kind = state.prefixes[name] = TaskPrefix(prefix.name, name)
    return kind


def is_near(ts: TaskState) -> bool:
    """Tell whether something the task reads is on a device, as far as that is known."""
    if any(d.cuda_nbytes and d.phase is Phase.MEMORY for d in ts.dependencies):
        return True
    near = ts.graph.near
    return bool(near) and ts.id - ts.graph.base in near


def place_of(state: State, ts: TaskState) -> Needs:
    """What the task demands, by what is known now of it and its kind; a person's word stands above that."""
    whole = ts.needs.whole or ts.needs
    base = whole.base or whole
    found = state.on_gpu(base) if base.free and (ts.prefix.gpu or is_near(ts)) else base
    return ts.needs if found is whole else found


def is_open(ts: TaskState) -> bool:
    """Tell whether no person has said if the task is for the GPU."""
    whole = ts.needs.whole or ts.needs
    return (whole.base or whole).free


def case_of(state: State, kind: TaskPrefix, uncounted: int = 0) -> Case:
    """The case of a kind of task, opened now if there is none; ``uncounted`` runs of it will be told of it yet."""
    case = kind.case
    if case is None:
        case = kind.case = Case(kind.name, kind.function)
        ran = sum(estimate.count for name, estimate in kind.on.items() if name != "gpu")
        case.undecided = max(int(ran) - uncounted, 0)
        state.suspects = True
    return case


def judge(state: State, kind: TaskPrefix) -> None:
    """Take over what the case says; a change is to be carried out."""
    assert kind.case is not None
    if kind.case.places is not kind.gpu:
        kind.gpu = kind.case.places
        state.flipped[kind] = None
