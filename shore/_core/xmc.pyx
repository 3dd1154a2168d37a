"""Text of the Extreme Classification Repository: lines to CSR rows, and back."""

from libc.math cimport isinf
from libc.string cimport memchr, memcpy

from shore._core._typedefs cimport index_t, int32_t, int64_t, real_t, uint8_t

import math
from decimal import Decimal

import numpy as np

from libc.stdint cimport uint64_t


cdef extern from "xmc.h" nogil:
    int SHORE_XMC_DONE, SHORE_XMC_SLOW, SHORE_XMC_INDEX, SHORE_XMC_RANGE_LABEL, SHORE_XMC_RANGE_FEATURE
    int SHORE_XMC_LABELS, SHORE_XMC_COLON, SHORE_XMC_NO_VALUE, SHORE_XMC_VALUE, SHORE_XMC_OVERFLOW
    int SHORE_XMC_TWICE_LABEL, SHORE_XMC_TWICE_FEATURE, SHORE_XMC_EXTRA
    int SHORE_XMC_LOWEST, SHORE_XMC_HIGHEST
    uint64_t *shore_xmc_power
    int32_t *shore_xmc_power_exponent
    ctypedef struct shore_xmc_entry:
        int64_t index
        double value
    ctypedef struct shore_xmc_list:
        shore_xmc_entry *entries
        int64_t size
    ctypedef struct shore_xmc_line:
        int64_t n_features, n_outputs, base
        int with_values, single
        const char *at
        shore_xmc_list labels, features
        const char *token
        int64_t token_length
        double *value
        int64_t number
    void shore_xmc_begin(shore_xmc_line *, const char *) noexcept
    int shore_xmc_read(shore_xmc_line *) noexcept
    int64_t shore_xmc_sort(shore_xmc_list *) noexcept
    int shore_xmc_is_end(const char *) noexcept
    int shore_xmc_number(const char **, int, double *) noexcept

# What is wrong with a line, as parse_rows says it.
DONE = SHORE_XMC_DONE
INDEX = SHORE_XMC_INDEX
RANGE_LABEL = SHORE_XMC_RANGE_LABEL
RANGE_FEATURE = SHORE_XMC_RANGE_FEATURE
LABELS = SHORE_XMC_LABELS
COLON = SHORE_XMC_COLON
NO_VALUE = SHORE_XMC_NO_VALUE
VALUE = SHORE_XMC_VALUE
OVERFLOW = SHORE_XMC_OVERFLOW
TWICE_LABEL = SHORE_XMC_TWICE_LABEL
TWICE_FEATURE = SHORE_XMC_TWICE_FEATURE
EXTRA = SHORE_XMC_EXTRA


def _fill_powers():
    """10^q in 64 bits, rounded down, for every q whose multiples may be doubles."""
    for q in range(SHORE_XMC_LOWEST, SHORE_XMC_HIGHEST + 1):
        power = 10 ** abs(q)
        if q < 0:
            exponent = -(power.bit_length() + 63)
            mantissa = (1 << -exponent) // power
        else:
            exponent = power.bit_length() - 64
            mantissa = power >> exponent if exponent > 0 else power << -exponent
        shore_xmc_power[q - SHORE_XMC_LOWEST] = mantissa
        shore_xmc_power_exponent[q - SHORE_XMC_LOWEST] = exponent


_fill_powers()


def _convert(text, single):
    """The double nearest to a decimal, or the float (as a double): for every decimal, whatever it takes."""
    nearest = float(text)
    if not single or nearest == 0 or math.isinf(nearest):
        return nearest
    # The double may have been rounded onto the middle of two floats: ask the decimal itself on which side it is.
    exact = Decimal(text.decode("ascii"))
    with np.errstate(over="ignore", under="ignore"):
        rounded = np.float32(nearest)
        if np.isinf(rounded):
            return nearest
        down = exact < Decimal(float(rounded))
        other = np.nextafter(rounded, np.float32(-np.inf if down else np.inf))
    if np.isinf(other):
        return float(rounded)
    middle = Decimal((float(rounded) + float(other)) / 2)
    return float(other if (exact < middle if down else exact > middle) else rounded)


def parse_number(text, bint single=False):
    """One number by the parser's paths; None if it is not one. For tests."""
    cdef bytes line = text + b"\n"
    cdef const char *start = line
    cdef const char *at = start
    cdef double value = 0
    cdef int status = shore_xmc_number(&at, single, &value)
    if status == SHORE_XMC_VALUE or at - start != len(text):
        return None
    return _convert(text, single) if status == SHORE_XMC_SLOW else value


def entry_bytes():
    """Size of an entry of parse_rows's workspace."""
    return sizeof(shore_xmc_entry)


cdef inline int64_t _keep(
    const shore_xmc_list *row, int64_t at, index_t[::1] indices, real_t[::1] data,
) noexcept nogil:
    """Write a row's non-zeros from `at` on; where they end, or -1 - index for a value that overflows."""
    cdef int64_t i
    cdef real_t value
    for i in range(row.size):
        value = <real_t> row.entries[i].value
        if value == 0:
            continue
        if isinf(value):
            return -1 - row.entries[i].index
        indices[at] = <index_t> row.entries[i].index
        data[at] = value
        at += 1
    return at


def parse_rows(
    const uint8_t[::1] text,           # IN   whole lines
    int64_t n_features,                # IN
    int64_t n_outputs,                 # IN
    int64_t base,                      # IN   what the first index is called in the text
    bint with_values,                  # IN   labels are label:value
    int64_t n_rows,                    # IN   how many rows may still come
    uint8_t[::1] workspace,            # --   entry_bytes() for every 2 bytes of text, and for every 4
    index_t[::1] x_indices,            # OUT  X, from x_indptr[0] on; room for an entry every 4 bytes of text
    real_t[::1] x_data,                # OUT
    int64_t[::1] x_indptr,             # OUT  [0] is where the rows begin; room for a row a byte
    index_t[::1] y_indices,            # OUT  Y, likewise; room for an entry every 2 bytes
    real_t[::1] y_data,                # OUT
    int64_t[::1] y_indptr,             # OUT
):
    """Parse rows; blank lines are no rows once `n_rows` have come.

    Returns
    -------
    status : int
        DONE, or what is wrong.
    n_lines, n_read : int
        Lines and rows before the end or the wrong line.
    offset : int
        Of the token that is wrong.
    number : int
        The index in it, as the text writes it.
    """
    cdef int64_t length = text.shape[0], n_lines = 0, n_read = 0, x_at, y_at
    cdef const char *start
    cdef const char *end
    cdef shore_xmc_line line
    cdef int status = SHORE_XMC_DONE
    if length == 0:
        return status, 0, 0, 0, 0
    cdef int64_t room = workspace.shape[0] // <int64_t> sizeof(shore_xmc_entry)
    if text[length - 1] != c"\n" or room < length // 2 + length // 4:
        raise ValueError("text must end in a newline, and the workspace be large enough for it")
    line.n_features, line.n_outputs, line.base = n_features, n_outputs, base
    line.with_values = with_values
    line.single = real_t is float
    line.labels.entries = <shore_xmc_entry *> &workspace[0]
    line.features.entries = line.labels.entries + length // 2
    line.token = start = <const char *> &text[0]
    line.number = 0
    end = start + length
    x_at, y_at = x_indptr[0], y_indptr[0]

    with nogil:
        shore_xmc_begin(&line, start)
        while line.at < end:
            if n_read == n_rows:  # only blank lines may follow
                while line.at[0] == c" " or line.at[0] == c"\t":
                    line.at += 1
                if not shore_xmc_is_end(line.at):
                    line.token = line.at
                    status = SHORE_XMC_EXTRA
                    break
            else:
                status = shore_xmc_read(&line)
                if status == SHORE_XMC_SLOW:
                    with gil:
                        line.value[0] = _convert((<const char *> line.token)[:line.token_length], real_t is float)
                    if isinf(line.value[0]):
                        status = SHORE_XMC_OVERFLOW
                        break
                    continue
                if status == SHORE_XMC_DONE:
                    status = _finish(&line, &x_at, x_indices, x_data, &y_at, y_indices, y_data)
                if status != SHORE_XMC_DONE:
                    break
                n_read += 1
                x_indptr[n_read] = x_at
                y_indptr[n_read] = y_at
            n_lines += 1
            line.at += 1 if line.at[0] == c"\n" else 2
            shore_xmc_begin(&line, line.at)
    return status, n_lines, n_read, line.token - start, line.number


cdef inline int _finish(
    shore_xmc_line *line, int64_t *x_at, index_t[::1] x_indices, real_t[::1] x_data,
    int64_t *y_at, index_t[::1] y_indices, real_t[::1] y_data,
) noexcept nogil:
    """Sort what was read of a row and store it."""
    cdef int64_t twice, stop
    twice = shore_xmc_sort(&line.labels)
    if twice >= 0:
        line.number = twice + line.base
        return SHORE_XMC_TWICE_LABEL
    twice = shore_xmc_sort(&line.features)
    if twice >= 0:
        line.number = twice + line.base
        return SHORE_XMC_TWICE_FEATURE
    stop = _keep(&line.labels, y_at[0], y_indices, y_data)
    if stop >= 0:
        y_at[0] = stop
        stop = _keep(&line.features, x_at[0], x_indices, x_data)
    if stop < 0:
        line.number = -1 - stop + line.base
        return SHORE_XMC_OVERFLOW
    x_at[0] = stop
    return SHORE_XMC_DONE


cdef inline int64_t _put_index(int64_t number, char *out) noexcept nogil:
    """Write a number in decimal; how many digits it took."""
    cdef char digits[20]
    cdef int64_t size = 0, i
    while True:
        digits[size] = <char> (c"0" + number % 10)
        size += 1
        number //= 10
        if number == 0:
            break
    for i in range(size):
        out[i] = digits[size - 1 - i]
    return size


cdef inline int64_t _put_row(
    const index_t[::1] indices, const uint8_t[:, ::1] values, int64_t start, int64_t stop, char separator,
    char *out,
) noexcept nogil:
    """Write `index:value` with separators between, or `index` if there are no values; how many bytes it took."""
    cdef int64_t at = 0, k, width = values.shape[1], size
    cdef const uint8_t *text
    cdef const void *nul
    for k in range(start, stop):
        if k > start:
            out[at] = separator
            at += 1
        at += _put_index(indices[k], out + at)
        if width == 0:
            continue
        out[at] = c":"
        at += 1
        text = &values[k, 0]
        nul = memchr(text, 0, width)
        size = width if nul == NULL else <const uint8_t *> nul - text
        if size > 2 and text[size - 2] == c"." and text[size - 1] == c"0":  # 3.0 is written 3
            size -= 2
        memcpy(out + at, text, size)
        at += size
    return at


def format_rows(
    const index_t[::1] x_indices,      # IN   (nnz,)
    const uint8_t[:, ::1] x_values,    # IN   (nnz, width) text, filled up with NUL
    const int64_t[::1] x_indptr,       # IN   (n + 1,)
    const index_t[::1] y_indices,      # IN
    const uint8_t[:, ::1] y_values,    # IN   (nnz, width), or (nnz, 0) for labels alone
    const int64_t[::1] y_indptr,       # IN
    uint8_t[::1] out,                  # OUT  room for 21 + width bytes an entry and 2 a row
):
    """Write rows as lines; how many bytes it took."""
    cdef int64_t i, n = x_indptr.shape[0] - 1, at = 0
    cdef int64_t most = (x_indices.shape[0] * (21 + x_values.shape[1])
                         + y_indices.shape[0] * (21 + y_values.shape[1]) + 2 * n)
    cdef char *target
    if n <= 0:
        return 0
    if out.shape[0] < most:
        raise ValueError("out is too small")
    target = <char *> &out[0]
    with nogil:
        for i in range(n):
            at += _put_row(y_indices, y_values, y_indptr[i], y_indptr[i + 1], c",", target + at)
            if x_indptr[i + 1] > x_indptr[i]:
                target[at] = c" "
                at += 1
                at += _put_row(x_indices, x_values, x_indptr[i], x_indptr[i + 1], c" ", target + at)
            target[at] = c"\n"
            at += 1
    return at
