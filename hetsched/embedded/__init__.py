"""The embedded cluster: a scheduler and one worker in this process, nothing serialised between them.

The scheduler is fed by one thread at a time: a trio loop in a daemon thread, or a worker's thread that has just ended a
batch and would otherwise have to wake the loop. The worker's threads run the tasks. Callers wait on a lock, so
they may be anywhere: in the main thread, in a notebook's running loop, in many threads at once, inside a task.
"""

__all__: list[str] = []
