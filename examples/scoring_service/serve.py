"""Start the scoring service.

    python serve.py model.shore --port 8000 --workers 2
    python serve.py --help

SIGINT and SIGTERM end it: it takes no new connections and answers what it was asked before it goes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import uvicorn
from app import PREFIX, Limits, Scorer, read_labels


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Serve the predictions of one model file over HTTP.")
    parser.add_argument("model", type=Path, help="what ShoreRegressor.save wrote")
    parser.add_argument("--labels", type=Path, help="text file with a name for each output, one per line")
    parser.add_argument("--host", default="127.0.0.1", help="(default: %(default)s, this machine only)")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1, help="processes; they share the model's memory")
    parser.add_argument("--threads", type=int, help="of each worker for many rows (default: cores / workers)")
    parser.add_argument("--max-concurrent", type=int, default=1000, help="of each worker; more are answered with 503")
    parser.add_argument("--access-log", action="store_true", help="print a line for each request")
    for field in fields(Limits):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, default=field.default, metavar="N")
    options = parser.parse_args(arguments)
    if options.workers < 1:
        parser.error("--workers must be at least 1")
    threads = options.threads or max(1, _cores() // options.workers)
    limits = {field.name: getattr(options, field.name) for field in fields(Limits)}

    # Here, before any worker: uvicorn would go on starting workers that fail.
    try:
        labels = None if options.labels is None else read_labels(options.labels)
        Limits(**limits)
        Scorer(options.model, labels, threads)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"serve.py: {error}", file=sys.stderr)
        return 2

    settings = {"model": options.model.resolve(), "threads": threads, **limits}
    if options.labels is not None:
        settings["labels"] = options.labels.resolve()
    os.environ.update({PREFIX + name.upper(): str(value) for name, value in settings.items()})
    uvicorn.run(
        "app:from_environment",
        factory=True,
        app_dir=str(Path(__file__).parent),
        host=options.host,
        port=options.port,
        workers=options.workers,
        access_log=options.access_log,
        limit_concurrency=options.max_concurrent,
        timeout_graceful_shutdown=10,
        server_header=False,
    )
    return 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
