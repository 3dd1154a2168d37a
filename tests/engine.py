"""shore.decode with the engine's switches for tests: without screening, or with few rows in work at once."""

import functools
from unittest import mock

import shore
from shore import decoders


def decode_with(B, phi, sparsity, *, screening=True, max_rows=0, **options):
    """The result and its `DecodeInfo`."""
    switched = functools.partial(decoders._core.decode_rows, screening=screening, max_rows=max_rows)
    with mock.patch.object(decoders._core, "decode_rows", switched):
        return shore.decode(B, phi, sparsity, return_info=True, **options)
