"""The command `shore info`."""

from __future__ import annotations

import argparse
from typing import Any

from shore import modelfile
from shore.cli.options import add_model_file, command
from shore.cli.outputs import bytes_in_words, json_text, require_stdout

__all__ = ["add_parser"]


def _state(ok: bool | None) -> str:
    return {None: "not compared (--verify)", True: "ok", False: "DAMAGED"}[ok]


def _print(found: dict[str, Any]) -> None:
    fitted, compression = found["fitted"], found["compression"]
    m = found["tensors"]["intercept"]["shape"][0]
    inside = "uncompressed" if compression is None else f"in {m:,} numbers ({compression['kind']})"
    lines = [
        ("file", f"{found['path']}, {bytes_in_words(found['bytes'])}"),
        ("written by", f"shore {found['shore_version']}, format version {found['format_version']}"),
        ("features", f"{fitted['n_features_in']:,}"),
        ("outputs", f"{fitted['n_outputs']:,} {inside}"),
        ("fitted with", f"solver {fitted['solver']}, alpha {fitted['alpha']:g}"),
    ]
    print("\n".join(f"{name:<12} {value}" for name, value in lines))
    print("\nparameters")
    width = max(map(len, found["parameters"]))
    for name, value in found["parameters"].items():
        print(f"  {name:<{width}}  {value}")
    print("\ntensors")
    rows = [
        (name, "x".join(map(str, entry["shape"])), entry["dtype"], bytes_in_words(entry["bytes"]), entry["sha256"][:12],
         _state(entry["ok"]))
        for name, entry in found["tensors"].items()
    ]  # fmt: skip
    rows.insert(0, ("name", "shape", "dtype", "size", "sha256", "checksum"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _info(arguments: argparse.Namespace) -> int:
    require_stdout()
    found = modelfile.inspect(arguments.model, verify=arguments.verify)
    if arguments.json:
        print(json_text(found))
    else:
        _print(found)
    damaged = [name for name, entry in found["tensors"].items() if entry["ok"] is False]
    if damaged:
        raise ValueError(f"{arguments.model}: the checksum of {', '.join(damaged)} does not match")
    if arguments.verify:
        modelfile.load(arguments.model)  # and what is inside makes a model
    return 0


def add_parser(commands: Any) -> None:
    """Add `info` to the commands that `add_subparsers` gave."""
    parser = command(
        commands, "info", "say what a model file holds",
        "Say what a model file holds: sizes, parameters, versions, and every tensor with its bytes and checksum. "
        "Reads the header alone, unless checksums are to be compared.",
        "  shore info model.shore\n  shore info model.shore --verify --json",
    )  # fmt: skip
    add_model_file(parser)
    parser.add_argument("--verify", action="store_true", help="compare the checksums; exit code 2 if one is wrong")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.set_defaults(run=_info)
