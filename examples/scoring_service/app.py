"""A scoring service over one model file: FastAPI in front of `shore.load`.

    request ─ BodyLimit ─ pydantic: types, ranges, lengths ─┬─ /predict ────── predictor, in the event loop
              413         422 that names the field          └─ lists, many rows, /explain ── model, in a thread

The file is mapped, not read: the workers of one machine share its pages. `create_app` is for tests and for other
servers, `from_environment` is what `serve.py` gives to uvicorn.
"""
# No postponed annotations here: pydantic needs the types below, which depend on the model, as objects.

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError
from safetensors import safe_open
from scipy import sparse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import shore

Array = npt.NDArray[Any]

PREFIX = "SHORE_SERVICE_"  # of environment variables
ERRORS_SHOWN = 10


@dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    max_body_bytes: int = 1 << 20
    max_features: int = 4096  # indices of one row; a dense row always has as many entries as the model has features
    max_rows: int = 1000
    max_top_features: int = 100

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{field.name} must be a positive integer, got {value!r}")


# ---------------------------------------------------------------- requests


class _Strict(BaseModel):
    @model_validator(mode="before")
    @classmethod
    def _known_fields_only(cls, data: Any) -> Any:
        # extra="forbid" would report each of a hundred thousand unknown fields; one is enough.
        names = data if isinstance(data, dict) else ()
        unknown = next((name for name in names if name not in cls.model_fields), None)
        if unknown is not None:
            about = {"name": repr(unknown[:40]), "known": ", ".join(cls.model_fields)}
            raise PydanticCustomError("unknown_field", "unknown field {name}; known are {known}", about)
        return data


def request_types(
    n_features: int, n_outputs: int, largest: float, limits: Limits
) -> tuple[type[BaseModel], type[BaseModel], type[BaseModel]]:
    """The bodies of /predict, /predict_many and /explain for a model of this size.

    Lists fail fast: a megabyte of wrong entries is one error, not a hundred thousand of them.
    """
    feature = Annotated[int, Field(strict=True, ge=0, lt=n_features)]
    output = Annotated[int, Field(strict=True, ge=0, lt=n_outputs)]
    # Finite as a number of the model's type too: 1e300 is infinite in float32.
    number = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-largest, le=largest)]
    up_to = min(limits.max_features, n_features)
    all_of_them = Annotated[list[number], Field(fail_fast=True, min_length=n_features, max_length=n_features)]
    top = Annotated[int, Field(strict=True, ge=1, le=limits.max_top_features)]
    listed = Annotated[list[output], Field(fail_fast=True)] | None

    class Row(_Strict):
        """One input: the features that are not zero, or all of them."""

        indices: Annotated[list[feature], Field(fail_fast=True, max_length=up_to)] | None = None
        values: Annotated[list[number], Field(fail_fast=True, max_length=up_to)] | None = None
        dense: all_of_them | None = None

        @model_validator(mode="after")
        def _one_form(self) -> Any:
            given = [name for name in ("indices", "values", "dense") if getattr(self, name) is not None]
            if given not in (["indices", "values"], ["dense"]):
                raise PydanticCustomError("row_form", "give indices and values, or dense alone")
            if self.indices is not None and self.values is not None:
                if len(self.indices) != len(self.values):
                    raise PydanticCustomError(
                        "row_lengths",
                        "indices and values must be of the same length, got {left} and {right}",
                        {"left": len(self.indices), "right": len(self.values)},
                    )
                if len(set(self.indices)) != len(self.indices):
                    seen: set[int] = set()
                    twice = next(i for i in self.indices if i in seen or seen.add(i))
                    raise PydanticCustomError("row_duplicate", "indices: {index} is given twice", {"index": twice})
            return self

    class One(Row):
        """A row, and which outputs may be predicted for it."""

        allowed: listed = None
        denied: listed = None

    class Many(_Strict):
        """Rows, all in one form, and which outputs may be predicted for them."""

        rows: Annotated[list[Row], Field(fail_fast=True, min_length=1, max_length=limits.max_rows)]
        allowed: listed = None
        denied: listed = None

        @model_validator(mode="after")
        def _all_in_one_form(self) -> Any:
            if len({row.dense is None for row in self.rows}) > 1:
                raise PydanticCustomError("rows_form", "rows: give all with indices and values, or all dense")
            return self

    class Explain(One):
        """As for /predict, and how many features to list for an output."""

        top_features: top = min(10, limits.max_top_features)

    return One, Many, Explain


class BodyLimit:
    """Refuses bodies past a size before they are in memory, whether their length is announced or not.

    Most clients send all of a body before they look for an answer, and never see one if the server hangs up on them.
    So what is too large is read on and thrown away, unless it is so large that this is not worth it.
    """

    WORTH_READING = 16  # times the limit

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.detail = f"the body must have at most {max_bytes} bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"")
        if announced.isdigit() and int(announced) > self.max_bytes:
            if int(announced) <= self.max_bytes * self.WORTH_READING:
                await self._discard(receive)
            await JSONResponse({"detail": self.detail}, 413, {"connection": "close"})(scope, receive, send)
            return
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self.max_bytes:
                if message.get("more_body", False):
                    await self._discard(receive)
                raise HTTPException(413, self.detail, {"connection": "close"})
            return message

        await self.app(scope, counted, send)

    async def _discard(self, receive: Receive) -> None:
        left = self.max_bytes * self.WORTH_READING
        while left > 0:
            message = await receive()
            left -= len(message.get("body", b""))
            if not message.get("more_body", False):
                return


def refusal(errors: Sequence[Any]) -> JSONResponse:
    """422 with the field and the reason, but without the input: it may be large, or not be valid JSON itself."""
    detail = []
    for error in errors[:ERRORS_SHOWN]:
        where = ""
        for part in error["loc"][1:] if error["type"] != "json_invalid" else ():
            where += f"[{part}]" if isinstance(part, int) else f".{part}"
        message = error["msg"]
        if error["type"] == "json_invalid":
            message = f"not valid JSON at character {error['loc'][-1]}: {error['ctx']['error']}"
        elif error["type"] == "model_attributes_type":  # pydantic speaks of dictionaries, and not of the header
            message = "must be a JSON object" + ("" if where else ", sent with Content-Type: application/json")
        detail.append({"field": where.lstrip(".") or "body", "message": message})
    return JSONResponse({"detail": detail}, 422)


# ---------------------------------------------------------------- answers


class RefusedError(ValueError):
    """What only the model can find wrong with the values of a request."""


class Scorer:
    """The model with what the endpoints need around it."""

    def __init__(self, path: Path, labels: Sequence[str] | None, n_threads: int | None) -> None:
        before = _identity(path)
        self.model = shore.load(path, mmap=True, verify=True)
        with open(path, "rb") as file:
            self.checksum = hashlib.file_digest(file, "sha256").hexdigest()
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
        if _identity(path) != before:
            raise RuntimeError(f"{path} was replaced while it was loaded; start again")
        self.n_threads = n_threads
        self.dtype = self.model.intercept_.dtype
        self.n_features, self.n_outputs = self.model.n_features_in_, self.model.n_outputs_
        self.predictor = self.model.predictor()
        self.labels = None if labels is None else list(labels)
        if self.labels is not None and len(self.labels) != self.n_outputs:
            raise ValueError(f"labels must name {self.n_outputs} outputs, got {len(self.labels)} names")

        self.about = {
            "n_features": self.n_features,
            "n_outputs": self.n_outputs,
            "n_components": len(self.model.intercept_),
            "sparsity": self.model.sparsity,
            "labels": self.labels is not None,
            "parameters": json.loads(metadata["model"])["parameters"],
            "file": {
                "bytes": before[1],
                "sha256": self.checksum,
                "format_version": int(metadata["format_version"]),
                "written_by_shore": metadata["shore_version"],
            },
            "shore_version": shore.__version__,
        }

    def named(self, output: int) -> dict[str, Any]:
        return {"output": output} if self.labels is None else {"output": output, "name": self.labels[output]}

    def outputs(self, indices: Array, values: Array) -> list[dict[str, Any]]:
        """The largest first."""
        order = np.argsort(-values, kind="stable")
        return [
            {**self.named(j), "value": number(v)} for j, v in zip(indices[order].tolist(), values[order], strict=True)
        ]

    def one(self, row: Any) -> list[dict[str, Any]]:
        indices, values = self.one_found(row)
        if not len(indices):  # the predictor does not say whether there is nothing to find, or scores overflowed
            self.check_scores(self.matrix([row]))
        return self.outputs(indices, values)

    def one_found(self, row: Any) -> tuple[Array, Array]:
        if row.dense is not None:
            return self.predictor(np.array(row.dense, dtype=self.dtype))
        # Sorted: then the bits are those of `predict`.
        indices, values = np.array(row.indices, dtype=np.int64), np.array(row.values, dtype=self.dtype)
        order = np.argsort(indices)
        return self.predictor(indices[order], values[order])

    def matrix(self, rows: Sequence[Any]) -> Any:
        """Rows of one form as the array or CSR matrix that `predict` takes."""
        if rows[0].dense is not None:
            return np.array([row.dense for row in rows], dtype=self.dtype)
        indptr = np.cumsum([0, *(len(row.indices) for row in rows)])
        indices = np.array([i for row in rows for i in row.indices], dtype=np.int64)
        values = np.array([v for row in rows for v in row.values], dtype=self.dtype)
        X = sparse.csr_array((values, indices, indptr), shape=(len(rows), self.n_features))
        X.sort_indices()
        return X

    def check_scores(self, X: Any) -> None:
        """Finite rows of very large numbers may still have scores that are not."""
        for i in range(X.shape[0]):
            try:
                self.model.predict_compressed(X[i : i + 1], n_threads=1)
            except ValueError:
                raise RefusedError(f"row {i} has values so large that its scores overflow {self.dtype}") from None

    def options(self, request: Any) -> dict[str, Any]:
        lists = {"allowed": request.allowed, "denied": request.denied}
        chosen = {name: np.array(which, dtype=np.int64) for name, which in lists.items() if which is not None}
        return {**chosen, "n_threads": self.n_threads}

    def many(self, rows: Sequence[Any], request: Any) -> list[dict[str, Any]]:
        X = self.matrix(rows)
        try:
            found = self.model.predict(X, **self.options(request))
        except ValueError:
            self.check_scores(X)
            raise
        parts = zip(found.indptr[:-1], found.indptr[1:], strict=True)
        return [{"outputs": self.outputs(found.indices[a:b], found.data[a:b])} for a, b in parts]

    def explain(self, request: Any) -> list[dict[str, Any]]:
        X = self.matrix([request])
        try:
            why = self.model.explain(X, request.top_features, **self.options(request))
        except ValueError:
            self.check_scores(X)
            raise
        if not np.isfinite(why.score).all():
            raise RefusedError(f"the values are so large that contributions overflow {why.score.dtype}")
        answer: dict[int, dict[str, Any]] = {}
        for e, j in enumerate(why.output.tolist()):
            entry = answer.setdefault(
                j, {**self.named(j), "value": number(why.value[e]), "score": float(why.score[e]), "features": []}
            )
            feature, contribution = int(why.feature[e]), float(why.contribution[e])
            entry["features"].append({"feature": feature, "contribution": contribution})
        return sorted(answer.values(), key=lambda entry: -entry["value"])


def number(value: Any) -> float:
    """With the digits that its type has: 0.7 and not 0.699999988079071. Reading it back gives the same bits."""
    return float(str(value))


def _identity(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


# ---------------------------------------------------------------- the application


def create_app(
    model_path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    limits: Limits | None = None,
    n_threads: int | None = None,
) -> FastAPI:
    """The service for one model file.

    Parameters
    ----------
    model_path : path
        What `ShoreRegressor.save` wrote. `shore.ModelFileError` if it is anything else.
    labels : sequence of str, optional
        A name for each output.
    limits : Limits, optional
    n_threads : int, optional
        For requests of many rows; one row always takes one thread. None for the model's.
    """
    limits = limits or Limits()
    scorer = Scorer(Path(model_path), labels, n_threads)
    largest = float(np.finfo(scorer.dtype).max)
    One, Many, Explain = request_types(scorer.n_features, scorer.n_outputs, largest, limits)
    about = {**scorer.about, "limits": asdict(limits)}
    app = FastAPI(title="shore scoring service", version=shore.__version__)
    app.add_middleware(BodyLimit, max_bytes=limits.max_body_bytes)
    app.state.scorer = scorer

    @app.exception_handler(RequestValidationError)
    async def _refuse(request: Request, error: RequestValidationError) -> JSONResponse:
        return refusal(error.errors())

    @app.exception_handler(HTTPException)
    async def _explain_status(request: Request, error: HTTPException) -> Response:
        # 400 is what FastAPI makes of anything but a syntax error in the JSON.
        if error.status_code != 400:
            return await http_exception_handler(request, error)
        message = "not JSON in UTF-8, or nested too deeply, or with an integer of too many digits"
        return refusal([{"type": "unreadable", "loc": ("body",), "msg": message}])

    @app.exception_handler(RefusedError)
    async def _refuse_values(request: Request, error: RefusedError) -> JSONResponse:
        return refusal([{"type": "refused", "loc": ("body", "values"), "msg": str(error)}])

    @app.get("/health")
    async def health() -> JSONResponse:
        return JSONResponse({"status": "ok", "model": scorer.checksum[:12]})

    @app.get("/model")
    async def model() -> JSONResponse:
        return JSONResponse(about)

    @app.post("/predict")
    async def predict(row: One) -> JSONResponse:
        # Without lists it takes less time than handing it to a thread would.
        if row.allowed is None and row.denied is None:
            return JSONResponse({"outputs": scorer.one(row)})
        return JSONResponse((await run_in_threadpool(scorer.many, [row], row))[0])

    @app.post("/predict_many")
    async def predict_many(request: Many) -> JSONResponse:
        return JSONResponse({"rows": await run_in_threadpool(scorer.many, request.rows, request)})

    @app.post("/explain")
    async def explain(row: Explain) -> JSONResponse:
        return JSONResponse({"outputs": await run_in_threadpool(scorer.explain, row)})

    return app


def from_environment() -> FastAPI:
    """The service as ``SHORE_SERVICE_*`` describe it: what uvicorn calls in every worker."""
    if f"{PREFIX}MODEL" not in os.environ:
        raise ValueError(f"{PREFIX}MODEL must name a model file")
    labels = os.environ.get(f"{PREFIX}LABELS")
    threads = os.environ.get(f"{PREFIX}THREADS")
    names = [field.name for field in fields(Limits)]
    given = {name: os.environ[PREFIX + name.upper()] for name in names if PREFIX + name.upper() in os.environ}
    return create_app(
        os.environ[f"{PREFIX}MODEL"],
        labels=None if labels is None else read_labels(labels),
        limits=Limits(**{name: int(value) for name, value in given.items()}),
        n_threads=None if threads is None else int(threads),
    )


def read_labels(path: str | os.PathLike[str]) -> list[str]:
    """A name per line."""
    return Path(path).read_text(encoding="utf-8").splitlines()
