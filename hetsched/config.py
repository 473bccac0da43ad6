"""Settings: the defaults are in ``hetsched.yaml``, what differs from them in dask's configuration.

Where dask is loaded, its configuration is asked. A scheduler has no use for dask, so where it is not loaded the same
files and variables are read here, which is many times quicker.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import site
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hetsched.core.quantities import read_bytes, read_seconds

__all__ = ["child_environment", "get", "pins", "seconds", "size"]

_INHERITED = "DASK_INTERNAL_INHERIT_CONFIG"
_PREFIX = "DASK_HETSCHED__"
_WORDS = {"none": None, "null": None, "false": False, "true": True}
_ABSENT: Any = object()


def get(name: str) -> Any:
    """The value of a setting, ``"worker.beat"`` for one. Raises KeyError where there is none of that name."""
    found = _look(_said(), name)
    if found is _ABSENT:
        found = _look(_defaults(), name)
    if found is _ABSENT:
        raise KeyError(f"there is no setting hetsched.{name}")
    return found


def seconds(name: str) -> float | None:
    """A setting that is a time, in seconds; None for none. Raises ValueError where it is no time."""
    value = get(name)
    return None if value is None or value is False else read_seconds(value, f"hetsched.{name}")


def size(name: str) -> int:
    """A setting that is a number of bytes. Raises ValueError where it is none."""
    value = get(name)
    return value if isinstance(value, int) else read_bytes(str(value))


def pins() -> dict[str, str | int]:
    """What a person wants of every connection, for :class:`hetsched.comm.handshake.Hello`."""
    found: dict[str, str | int] = {}
    wanted = get("comm.compression")
    for way in ("send", "receive"):
        name = wanted.get(way, "auto") if isinstance(wanted, Mapping) else wanted
        if name != "auto":
            found[f"{way}-compression"] = "none" if name is None or name is False else str(name)
    protocol = get("comm.pickle-protocol")
    if protocol not in ("auto", None):
        found["pickle-protocol"] = int(protocol)
    return found


def child_environment(changes: Mapping[str, Any]) -> dict[str, str]:
    """This process's environment for a child that shall have the same settings but for ``changes``, by name."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
    told = _decode(environment.get(_INHERITED))
    settings = json.loads(json.dumps(_merge(_defaults(), _said()), default=str))
    for name, value in changes.items():
        _put(settings, name, value)
    told["hetsched"] = settings
    environment[_INHERITED] = base64.urlsafe_b64encode(json.dumps(told).encode()).decode()
    return environment


@cache
def _defaults() -> Mapping[str, Any]:
    found = _read_yaml(Path(__file__).with_name("hetsched.yaml"))
    return found["hetsched"]  # type: ignore[no-any-return]


def _said() -> Mapping[str, Any]:
    """What was set, by whatever way; the defaults need not be there."""
    if "dask.config" not in sys.modules:
        return _settings()
    import dask.config

    for known in dask.config.defaults:
        if "hetsched" in known:
            break
    else:
        dask.config.update_defaults({"hetsched": json.loads(json.dumps(_defaults()))})
    # They do not stay where this is the first time, and in a `with dask.config.set(...)`.
    found = dask.config.config.get("hetsched")
    return found if type(found) is dict or isinstance(found, Mapping) else {}


@cache
def _settings() -> dict[str, Any]:
    """What differs from the defaults, or may: read in the order in which dask does."""
    found: dict[str, Any] = {}
    inherited = _decode(os.environ.get(_INHERITED)).get("hetsched")
    if isinstance(inherited, Mapping):  # whoever handed it down has read the files, which takes a while
        found = dict(inherited)
    else:
        for path in _files():
            content = _read_yaml(path)
            if isinstance(content, Mapping) and isinstance(content.get("hetsched"), Mapping):
                found = _merge(found, content["hetsched"])
    for name, value in os.environ.items():
        if name.startswith(_PREFIX):
            _put(found, name[len(_PREFIX) :].lower().replace("__", "."), _interpret(value))
    return found


def _files() -> list[Path]:
    folders = [
        os.environ.get("DASK_ROOT_CONFIG", "/etc/dask"),
        os.path.join(sys.prefix, "etc", "dask"),
        *(os.path.join(prefix, "etc", "dask") for prefix in site.PREFIXES),
        os.path.join(os.path.expanduser("~"), ".config", "dask"),
    ]
    if "DASK_CONFIG" in os.environ:
        folders.append(os.environ["DASK_CONFIG"])
    found: list[Path] = []
    for folder in reversed(list(dict.fromkeys(reversed(folders)))):
        path = Path(folder)
        if path.is_dir():
            found += sorted(p for p in path.iterdir() if p.suffix.lower() in {".json", ".yaml", ".yml"})
        elif path.is_file():
            found.append(path)
    return found


def _read_yaml(path: Path) -> Any:
    import yaml

    with path.open(encoding="utf-8") as file:
        return yaml.safe_load(file)


def _decode(text: str | None) -> dict[str, Any]:
    found = json.loads(base64.urlsafe_b64decode(text.encode())) if text else {}
    return found if isinstance(found, dict) else {}


def _interpret(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return _WORDS.get(text.lower(), text)


def _canonical(word: str, within: Mapping[str, Any]) -> str:
    if word in within:
        return word
    other = word.replace("_", "-") if "_" in word else word.replace("-", "_")
    return other if other in within else word


def _look(settings: Any, name: str) -> Any:
    for word in name.split("."):
        if type(settings) is not dict and not isinstance(settings, Mapping):  # the first is only to be quick
            return _ABSENT
        settings = settings.get(_canonical(word, settings), _ABSENT)
    return settings


def _put(settings: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for word in path:
        key = _canonical(word, settings)
        if not isinstance(settings.get(key), dict):
            settings[key] = {}
        settings = settings[key]
    settings[_canonical(last, settings)] = value


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for name, value in new.items():
        key = _canonical(name, merged)
        before = merged.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(before, value) if both else value  # type: ignore[arg-type]
    return merged
