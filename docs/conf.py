"""Sphinx: the settings, and the tables that are drawn from the code's own tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version as installed
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

project = "hetsched"
copyright = "2026, the hetsched developers"
release = version = installed("hetsched")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"hetsched {release}"
html_static_path = ["_static"]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    lines = [list(head), ["---"] * len(list(head)), *map(list, rows)]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


class LegalMoves(SphinxDirective):
    """``{legal-moves}``: the phases of a task, from `hetsched.core.state.LEGAL`."""

    def run(self) -> list[nodes.Node]:
        """Write the table in the page's own markup."""
        from hetsched.core.state import LEGAL, Phase

        rows = ([f"`{p.name}`", ", ".join(f"`{q.name}`" for q in Phase if q in LEGAL.get(p, ())) or "-"] for p in Phase)
        return self.parse_text_to_nodes("\n".join(table(["from", "to"], rows)))


class Messages(SphinxDirective):
    """``{messages}``: what each end may say to which, from the unions in `hetsched.comm.messages`."""

    def run(self) -> list[nodes.Node]:
        """Write, per direction and message, what it is for and its fields with their types."""
        from hetsched.comm import messages

        lines: list[str] = []
        for name, title in messages.DIRECTIONS.items():
            lines += [f"**{title}**", ""]
            rows = []
            for kind in getattr(messages, name):
                fields = [f"`{field}: {kind.__annotations__[field]}`" for field in kind._fields[1:]]
                what = (kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ").replace("``", "`")
                rows.append([f"`{kind.__name__}`", what, "; ".join(map(plain, fields)) or "-"])
            lines += [*table(["message", "what it says", "fields, in order"], rows), ""]
        return self.parse_text_to_nodes("\n".join(lines))


class CommandLine(SphinxDirective):
    """``{command-line}``: the options of the commands, from the commands themselves."""

    def run(self) -> list[nodes.Node]:
        """Write, per command, what it is called with and what its options are."""
        import click

        from hetsched.cli.asking import explain, status
        from hetsched.cli.scheduler import scheduler
        from hetsched.cli.worker import worker

        commands = {
            "hetsched-scheduler": scheduler, "hetsched-worker": worker, "hetsched status": status,
            "hetsched explain": explain,
        }  # fmt: skip
        lines: list[str] = []
        for name, command in commands.items():
            context = click.Context(command, info_name=name, **command.context_settings)
            usage = " ".join(command.collect_usage_pieces(context))
            lines += [f"**`{name} {usage}`**", "", self.marked(" ".join((command.help or "").split())), ""]
            found = (param.get_help_record(context) for param in command.get_params(context))
            rows = ([f"`{option}`", self.marked(what)] for option, what in filter(None, found) if what)
            lines += [*table(["option", "what it says"], rows), ""]
        return self.parse_text_to_nodes("\n".join(lines))

    @staticmethod
    def marked(text: str) -> str:
        """A text in which the names of options are code."""
        return re.sub(r"--[a-z][a-z-]*", r"`\g<0>`", text)


class Settings(SphinxDirective):
    """``{settings}``: all settings and their defaults, from ``hetsched.yaml``, comments included."""

    LINE = re.compile(r"(?P<indent> *)(?P<name>[\w-]+):(?: (?P<value>.*?))?(?: +# (?P<what>.*))?")

    def run(self) -> list[nodes.Node]:
        """Write the table in the page's own markup."""
        import hetsched

        rows, path = [], list[str]()
        text = Path(hetsched.__file__).with_name("hetsched.yaml").read_text(encoding="utf-8")
        for match in filter(None, map(self.LINE.fullmatch, text.splitlines())):
            path[len(match["indent"]) // 2 :] = [match["name"]]
            if match["value"]:
                rows.append([f"`{'.'.join(path)}`", f"`{match['value'].strip()}`", match["what"] or ""])
        return self.parse_text_to_nodes("\n".join(table(["setting", "default", ""], rows)))


def plain(text: str) -> str:
    """A type as it is written in a program, without the marks of a forward reference."""
    return text.replace("ForwardRef('", "").replace("')", "").replace("'", "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directives known."""
    app.add_directive("command-line", CommandLine)
    app.add_directive("messages", Messages)
    app.add_directive("settings", Settings)
    app.add_directive("legal-moves", LegalMoves)
    return {"parallel_read_safe": True}
