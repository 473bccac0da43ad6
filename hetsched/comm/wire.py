"""Messages to arrays and back: each is its name, then its fields but the first, which the channel stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetsched.errors import ProtocolError

from .messages import FROM_CLIENT, FROM_HOLDER, FROM_READER, FROM_WORKER, TO_CLIENT, TO_WORKER
from .packets import Message
from .schema import Check, Wrong, checks_of

__all__ = ["Decoder", "encode", "from_client", "from_holder", "from_reader", "from_worker", "to_client", "to_worker"]



def encode(message: Any) -> Message:
    """The array that says a message."""
    return (type(message).__name__, *message[1:])


class Decoder:
    """Reads the messages of one direction."""

    def __init__(self, kinds: Sequence[type]) -> None:
        self.kinds = {kind.__name__: kind for kind in kinds}
        self._checks: dict[str, tuple[Check, ...]] = {}

    def decode(self, message: Message, who: str) -> Any:
        """Make the message of an array, with ``who`` as its first field.

        Raises ProtocolError for a name that is not of this direction, and for fields of wrong number or type.
        """
        name: Any = message[0] if message else None
        kind: Any = self.kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            raise ProtocolError(f"a message {str(name)[:40]!r} is not expected here")
        checks = self._checks.get(name)
        if checks is None:
            checks = self._checks[name] = checks_of(kind)[1:]
        if len(message) != 1 + len(checks):
            raise ProtocolError(f"a {name} has {len(checks)} fields, and this one {len(message) - 1}")
        fields = []
        for check, value in zip(checks, message[1:], strict=True):
            try:
                fields.append(check(value))
            except Wrong:
                field = kind._fields[1 + len(fields)]
                raise ProtocolError(f"the field {field!r} of a {name} is not of its type: {value!r:.80}") from None
        return kind(who, *fields)


from_client = Decoder(FROM_CLIENT)
to_client = Decoder(TO_CLIENT)
from_worker = Decoder(FROM_WORKER)
to_worker = Decoder(TO_WORKER)
from_reader = Decoder(FROM_READER)
from_holder = Decoder(FROM_HOLDER)
