"""Run with failing_malloc preloaded: every allocation of every entry fails once, and nothing else may happen.

Arguments: the library, a folder to write in, a file for the counts (JSON, failures by entry), how many failures of an
entry at most (0 for all), a pattern for names of entries, whether objects of the interpreter count, and whether all
allocations after the k-th fail too.
"""

import ctypes
import json
import random
import re
import sys
import traceback
from pathlib import Path

import numpy as np
from bits import bits
from entries import all_entries

FAR, ODD = 1 << 40, 1_000_003


def is_of_others(error):
    """Whether NumPy failed without saying why, as where iterators find no memory, or CPython took it for another.

    SciPy's ARPACK does so as well.
    """
    known = ("error return without exception set", "NULL object passed to", "os.PathLike", "can't allocate ")
    known += ("upd_wrap> returned NULL",)
    if isinstance(error, ctypes.ArgumentError):  # of the calls into C here
        return "MemoryError" in str(error)
    return isinstance(error, SystemError | TypeError | RuntimeError) and any(words in str(error) for words in known)


def failures(entry, library, most, objects, on, draw):
    """Fail allocation k of a call, for all k or a sample; how many did."""

    def attempt(k):
        entry.reset()
        before = entry.state()
        try:
            library.shore_arm(k, objects, on)
            try:
                result = entry.call()
            finally:
                failed = library.shore_disarm()
        except Exception as error:
            if not (isinstance(error, MemoryError) or (objects and is_of_others(error))):
                raise
            assert failed, "MemoryError, but no allocation failed"
            # Where objects count, what follows the change itself may fail, too, such as the return of its function.
            as_it_was = entry.state() == before or (objects and entry.made() == made)
            assert as_it_was, f"allocation {k} failed, and the state is another"
            return failed
        assert bits(result) == expected, f"allocation {k} failed, or none, and the result is another"
        assert entry.made() == made, f"allocation {k} failed, or none, and what was made is another"
        return failed

    for _ in range(2):  # the first fills caches
        entry.reset()
        expected, made = bits(entry.call()), entry.made()
    entry.reset()
    library.shore_arm(FAR, objects, 0)
    entry.call()
    total = FAR - library.shore_left()
    library.shore_disarm()
    places = range(1, total + 1)
    if most and total > most:
        places = sorted(draw.sample(places, most))
    count = 0
    for k in places:
        try:
            count += bool(attempt(k))
        except Exception as error:
            raise AssertionError(f"{entry.name}, allocation {k} of {total}") from error
    assert attempt(FAR) == 0  # and still the same
    return count


def run(library_path, folder, counts_path, most, pattern, objects, on):
    library = ctypes.CDLL(library_path)
    library.shore_arm.argtypes = ctypes.c_long, ctypes.c_int, ctypes.c_int
    library.shore_disarm.restype = library.shore_left.restype = ctypes.c_long
    library.shore_learn.argtypes = (ctypes.c_size_t,)
    array = np.zeros(10, dtype=np.uint8)
    library.shore_learn(ODD)
    np.empty(ODD, dtype=np.uint8), np.zeros(ODD, dtype=np.uint8), array.resize(ODD, refcheck=False)
    library.shore_learn(0)
    counts, draw = {}, random.Random(0)
    for entry in all_entries(Path(folder)):
        if re.search(pattern, entry.name):
            sys.stderr.write(f"{entry.name}\n")  # where it was, should the process be ended
            counts[entry.name] = failures(entry, library, most, objects, on, draw)
    Path(counts_path).write_text(json.dumps(counts))


def main():
    try:
        run(*sys.argv[1:4], int(sys.argv[4]), sys.argv[5], *map(int, sys.argv[6:8]))
    except Exception:
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
