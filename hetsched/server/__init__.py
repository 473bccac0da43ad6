"""The scheduler as a process: connections of workers and clients around one scheduler."""

__all__: list[str] = []
