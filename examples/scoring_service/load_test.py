"""Load the scoring service and see whether it holds: throughput, latency, failures, memory.

    python load_test.py model.shore --workers 2 --seconds 60 --malformed 0.05
    python load_test.py --help

Starts `serve.py` on a free port of 127.0.0.1, keeps a number of connections busy with rows of ``model.rows.npz``
(each sends its next request when it has the answer to the last), compares every answer with `ShoreRegressor.predict`,
and ends the server. Requests are bytes made beforehand and answers are compared as bytes, so that the client, which
runs on the same cores, takes little of them. It talks to no other host.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from app import Limits, Scorer
from scipy import sparse

HOST = "127.0.0.1"
MOST_SECONDS, MOST_CONNECTIONS = 600, 256


@dataclass(frozen=True)
class Exchange:
    """A request, and what has to come back."""

    name: str
    request: bytes
    status: int
    body: bytes | None = None  # None: not compared
    valid: bool = True


def http_request(path: str, body: bytes, *, method: str = "POST", announce: int | None = None) -> bytes:
    length = len(body) if announce is None else announce
    head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {length}"
    return head.encode() + b"\r\n\r\n" + body


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def valid_exchanges(scorer: Scorer, rows: sparse.csr_array, rows_per_request: int) -> list[Exchange]:
    """With the answers of `predict`, all rows at once: another way than the server takes for one row."""
    parts = [slice(a, b) for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)]
    given = [{"indices": rows.indices[p].tolist(), "values": [float(str(v)) for v in rows.data[p]]} for p in parts]
    no_lists = SimpleNamespace(allowed=None, denied=None)
    answers = scorer.many([SimpleNamespace(**row, dense=None) for row in given], no_lists)
    if rows_per_request == 1:
        pairs = zip(given, answers, strict=True)
        return [Exchange("row", http_request("/predict", compact(row)), 200, compact(answer)) for row, answer in pairs]
    starts = range(0, len(given) - rows_per_request + 1, rows_per_request)
    return [
        Exchange(
            "rows",
            http_request("/predict_many", compact({"rows": given[a : a + rows_per_request]})),
            200,
            compact({"rows": answers[a : a + rows_per_request]}),
        )
        for a in starts
    ]


def malformed_exchanges(scorer: Scorer, limits: Limits) -> list[Exchange]:
    bodies = {
        "not JSON": b'{"indices": [1, 2',
        "not UTF-8": b'{"indices": ["\xff\xfe"]}',
        "NaN": b'{"indices": [1], "values": [NaN]}',
        "infinite in the model's type": b'{"indices": [1], "values": [1e400]}',
        "index out of range": compact({"indices": [scorer.n_features], "values": [1.0]}),
        "index twice": b'{"indices": [1, 1], "values": [1.0, 2.0]}',
        "lengths differ": b'{"indices": [1, 2], "values": [1.0]}',
        "wrong types": b'{"indices": "1, 2", "values": {"1": true}}',
        "unknown field": b'{"indices": [1], "values": [1.0], "sparsity": 3}',
        "too many features": compact({"indices": [0] * (limits.max_features + 1), "values": []}),
        "nested deeply": b"[" * 50_000,
        "many wrong entries": b'{"indices": [' + b'"",' * 50_000 + b'""], "values": []}',
    }
    return [Exchange(name, http_request("/predict", body), 422, valid=False) for name, body in bodies.items()] + [
        Exchange("no such path", http_request("/nothing", b"{}"), 404, valid=False),
        Exchange("wrong method", http_request("/predict", b"", method="PUT"), 405, valid=False),
        Exchange("body too large", http_request("/predict", b"", announce=1 << 40), 413, valid=False),
        Exchange("not HTTP", b"\x16\x03\x01\x02\x00 hello\r\n\r\n", 400, valid=False),
    ]


# ---------------------------------------------------------------- the client


@dataclass
class Result:
    latencies: array[float] = field(default_factory=lambda: array("d"))  # of valid requests, in seconds
    refused: Counter[str] = field(default_factory=Counter)  # malformed requests that were answered as they should be
    wrong: Counter[str] = field(default_factory=Counter)  # any request that was not
    seconds: float = 0.0


class Connection(asyncio.Protocol):
    """One client: sends the next request when it has the answer, and connects again where the server hung up."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.buffer = b""
        self.exchange: Exchange | None = None
        self.sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send_next()

    def send_next(self) -> None:
        self.exchange = self.load.next_exchange()
        if self.exchange is None:
            self.transport.close()
            return
        self.buffer, self.sent = b"", time.perf_counter()
        self.transport.write(self.exchange.request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found or self.exchange is None:
            return
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        if length is not None and len(body) < int(length[1]):
            return
        self.load.answered(self.exchange, int(head.split(b" ", 2)[1]), body, time.perf_counter() - self.sent)
        self.exchange = None
        if length is None or re.search(rb"\r\nconnection: close", head, re.IGNORECASE):
            self.transport.close()
        else:
            self.send_next()

    def connection_lost(self, error: Exception | None) -> None:
        if self.exchange is not None:
            self.load.lost(self.exchange)
        self.load.hung_up()


class Load:
    def __init__(self, port: int, valid: list[Exchange], malformed: list[Exchange], share: float) -> None:
        self.port, self.valid, self.malformed, self.share = port, valid, malformed, share
        self.random = random.Random(0)
        self.result = Result()
        self.left = 0
        self.tasks: set[asyncio.Task[object]] = set()

    def next_exchange(self) -> Exchange | None:
        if self.left <= 0 or time.perf_counter() >= self.end:
            return None
        self.left -= 1
        return self.random.choice(self.malformed if self.random.random() < self.share else self.valid)

    def answered(self, exchange: Exchange, status: int, body: bytes, seconds: float) -> None:
        if status != exchange.status or (exchange.body is not None and body != exchange.body):
            self.result.wrong[f"{exchange.name}: {status}"] += 1
        elif exchange.valid:
            self.result.latencies.append(seconds)
        else:
            self.result.refused[exchange.name] += 1

    def lost(self, exchange: Exchange) -> None:
        self.result.wrong[f"{exchange.name}: no answer"] += 1

    def hung_up(self) -> None:
        self.open -= 1
        if self.left > 0 and time.perf_counter() < self.end:
            self.connect()
        elif self.open == 0:
            self.done.set()

    def connect(self) -> None:
        self.open += 1
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.create_connection(lambda: Connection(self), HOST, self.port))
        self.tasks.add(task)  # the loop holds no reference
        task.add_done_callback(self.connected)

    def connected(self, task: asyncio.Task[object]) -> None:
        self.tasks.discard(task)
        if task.exception() is not None:
            self.result.wrong["no connection"] += 1
            self.left = 0  # the server is gone
            self.hung_up()

    async def run(self, seconds: float, connections: int, most: int) -> Result:
        self.result, self.left, self.open, self.done = Result(), most, 0, asyncio.Event()
        start = time.perf_counter()
        self.end = start + seconds
        for _ in range(connections):
            self.connect()
        try:
            await asyncio.wait_for(self.done.wait(), seconds + 30)
        except TimeoutError:
            self.result.wrong["still waiting 30 s after the end"] += self.open
        self.result.seconds = time.perf_counter() - start
        return self.result


# ---------------------------------------------------------------- the server


class Server:
    """`serve.py` in a process of its own, as a context manager."""

    def __init__(self, model: Path, workers: int, arguments: Sequence[str] = ()) -> None:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port = probe.getsockname()[1]
        self.model = model.resolve()
        self.workers = workers
        script = Path(__file__).with_name("serve.py")
        command = [sys.executable, script, model, "--host", HOST, "--port", self.port, "--workers", workers, *arguments]
        # Not a pipe: nobody reads it meanwhile, and it would fill up.
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.process = subprocess.Popen([str(part) for part in command], stderr=self.log)

    def __enter__(self) -> Server:
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                # As many that map the model as there are workers: all of them are there.
                if self.get("/health")[0] == 200 and len(self.memory()) >= self.workers:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        errors = self.stop()
        raise RuntimeError(f"the server did not start:\n{errors}")

    def __exit__(self, *_: object) -> None:
        self.stop()

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def stop(self) -> str:
        """Ends it; what it wrote to stderr."""
        if self.log.closed:
            return ""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with self.log:
            self.log.seek(0)
            return self.log.read()

    def memory(self) -> dict[int, dict[str, float]]:
        """Of each process that has the model mapped, in MB: all of it, and of the mapped model file alone."""
        found = {}
        for pid in _family(self.process.pid):
            try:
                whole = Path(f"/proc/{pid}/smaps_rollup").read_text()
                maps = Path(f"/proc/{pid}/smaps").read_text()
            except OSError:
                continue
            each = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", maps)
            of_file = [part for part in each if part.partition("\n")[0].endswith(f" {self.model}")]
            if of_file:
                found[pid] = {
                    "RSS": _kilobytes(whole, "Rss") / 1e3,
                    "PSS": _kilobytes(whole, "Pss") / 1e3,
                    "RSS of the model": sum(_kilobytes(part, "Rss") for part in of_file) / 1e3,
                    "PSS of the model": sum(_kilobytes(part, "Pss") for part in of_file) / 1e3,
                }
        return found


def _family(pid: int) -> list[int]:
    """A process and its children."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                children.append(int(stat.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return [pid, *children]


def _kilobytes(text: str, name: str) -> int:
    return int(re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024 // 1000


# ---------------------------------------------------------------- the report


def report(result: Result, rows_per_request: int) -> str:
    answered, refused = len(result.latencies), sum(result.refused.values())
    rate = answered / result.seconds
    rows = f", {rate * rows_per_request:,.0f} rows a second" if rows_per_request > 1 else ""
    lines = [f"valid requests answered        {answered:,} in {result.seconds:.0f} s, {rate:,.0f} a second{rows}"]
    if answered:
        p50, p95, p99, most = np.percentile(result.latencies, [50, 95, 99, 100]) * 1e3
        lines.append(f"latency, ms                    p50 {p50:.2f}, p95 {p95:.2f}, p99 {p99:.2f}, largest {most:.1f}")
    lines.append(f"malformed requests refused     {refused:,} of {len(result.refused)} kinds, each with its status")
    lines.append(f"failed or answered wrongly     {sum(result.wrong.values())}")
    lines += [f"  {name}: {count}" for name, count in result.wrong.most_common(10)]
    return "\n".join(lines)


def show_memory(when: str, memory: dict[int, dict[str, float]]) -> str:
    each = [
        f"{when:<30} " + ", ".join(f"{name} {size:.1f}" for name, size in memory[pid].items()) for pid in sorted(memory)
    ]
    total = sum(m["PSS of the model"] for m in memory.values())
    return "\n".join([*each, f"{'':<30} PSS of the model, all processes: {total:.1f}"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Load the scoring service on this machine.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--rows", type=Path, help="sparse rows to send, .npz (default: beside the model)")
    parser.add_argument("--rows-per-request", type=int, default=1, help="more than 1: /predict_many")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help=f"at most {MOST_SECONDS} (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=8, help=f"at most {MOST_CONNECTIONS} (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=10_000_000, help="at most (default: %(default)s)")
    parser.add_argument("--malformed", type=float, default=0.0, metavar="SHARE", help="of requests, 0 to 1")
    options = parser.parse_args(arguments)
    for name, ok in {
        "seconds": 0 < options.seconds <= MOST_SECONDS,
        "connections": 0 < options.connections <= MOST_CONNECTIONS,
        "malformed": 0 <= options.malformed <= 1,
        "rows-per-request": 0 < options.rows_per_request <= Limits().max_rows,
        "workers": options.workers > 0,
        "requests": options.requests > 0,
    }.items():
        if not ok:
            parser.error(f"--{name} is out of range")
    rows = sparse.csr_array(sparse.load_npz(options.rows or options.model.with_suffix(".rows.npz")))
    scorer = Scorer(options.model, None, 1)
    valid = valid_exchanges(scorer, rows, options.rows_per_request)
    malformed = malformed_exchanges(scorer, Limits())
    del scorer  # it maps the model too, and would count in the sharing of pages
    with Server(options.model, options.workers) as server:
        load = Load(server.port, valid, malformed, options.malformed)
        warm = asyncio.run(load.run(min(3.0, options.seconds), options.connections, options.requests))
        before = server.memory()
        result = asyncio.run(load.run(options.seconds, options.connections, options.requests))
        after = server.memory()
    print(f"model file                     {options.model.stat().st_size / 1e6:.1f} MB")
    print(f"workers, connections           {options.workers}, {options.connections}")
    print(f"load average                   {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    print(report(result, options.rows_per_request))
    print("memory of each worker, MB")
    print(show_memory("  after 3 s", before))
    print(show_memory("  at the end", after))
    return 1 if result.wrong or warm.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
