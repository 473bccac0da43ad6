"""A client of another Python, told by its input where the scheduler is and what to do: a line of JSON each time.

Answers each with a line of JSON. Run as a script with an interpreter that need not be that of the tests.
"""

from __future__ import annotations

import json
import sys

from matrix.work import ask

import hetsched


def run(about):
    """Do what is asked for, and say what came of it."""
    with hetsched.Client(about["address"]) as client:
        if about["workers"]:
            return ask(client, about["workers"])
        future = client.submit(lambda: "{}.{}".format(*__import__("sys").version_info))
        try:
            return future.result(timeout=10)
        except Exception as error:
            return f"{type(error).__name__}: {error}"


for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
