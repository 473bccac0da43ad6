"""Worker pools, looked at from the side of who writes programs: switch, question, report and picture."""

__all__: list[str] = []
