"""Checks of a wheel for Linux: what is in it, how large it is, and that it runs on every machine of its tag.

The modules are compiled for the baseline of the platform, and templates once more for AVX2 and for AVX-512 (see
shore/_core/multiversion.h). Outside the functions of those two levels there must be no instruction of them, or the
import ends machines without them.

    python tools/check_wheel.py wheelhouse/*.whl
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

MOST_BYTES = 3_000_000
NEEDED = ("shore/py.typed", "shore/capi.pxd", "shore/include/shore.h")
# Functions of a level carry its name, with what the compiler adds to parts and copies of them.
CLONE = re.compile(r"_(avx2|avx512)(\.\w+)*$")
# Everything with a VEX or EVEX prefix: AVX, FMA and F16C begin with v, masks with k; and BMI.
BEYOND_BASELINE = re.compile(
    r"(v[a-z0-9]+|k(mov|and|andn|or|ortest|xor|xnor|not|test|add|shift|unpck)[a-z]*"
    r"|andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|s(ar|hl|hr)x)[lq]?$"
)
FUNCTION = re.compile(r"[0-9a-f]+ <(.+)>:$")


def wide_instructions(library: Path) -> tuple[Counter[str], Counter[str]]:
    """How many instructions past the x86-64 baseline every function has: outside the clones, and inside."""
    listing = subprocess.run(
        ["objdump", "--disassemble", "--no-show-raw-insn", str(library)], check=True, capture_output=True, text=True
    ).stdout
    outside: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    function = ""
    for line in listing.splitlines():
        start = FUNCTION.match(line)
        if start:
            function = start[1]
        elif "\t" in line:
            mnemonic = line.split("\t", 1)[1].split(maxsplit=1)[:1]
            if mnemonic and BEYOND_BASELINE.match(mnemonic[0]):
                (inside if CLONE.search(function) else outside)[function] += 1
    return outside, inside


def problems(wheel: Path) -> list[str]:
    """What is wrong with a wheel, in words."""
    found = []
    size = wheel.stat().st_size
    if size >= MOST_BYTES:
        found.append(f"{wheel.name} has {size:,} bytes, {MOST_BYTES:,} are too many")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(folder)
        found += [f"{name} is missing" for name in NEEDED if name not in names]
        libraries = sorted(Path(folder, "shore", "_core").glob("*.so"))
        if not libraries:
            found.append("there are no compiled modules")
        for library in libraries:
            stub = f"shore/_core/{library.name.split('.')[0]}.pyi"
            if stub not in names:
                found.append(f"{stub} is missing")
        if wheel.name.endswith("x86_64.whl"):
            total = 0
            for library in libraries:
                outside, inside = wide_instructions(library)
                total += inside.total()
                found += [f"{library.name}: {n} instructions past the baseline in {f}" for f, n in outside.items()]
            if not total:
                found.append("no function uses AVX: the clones are missing, or their names are")
            print(f"{wheel.name}: {size:,} bytes, {len(libraries)} modules, {total:,} AVX instructions in clones")
    return found


if __name__ == "__main__":
    wrong = [problem for wheel in sys.argv[1:] for problem in problems(Path(wheel))]
    print("\n".join(wrong) if wrong else "nothing is wrong with it")
    sys.exit(bool(wrong) or len(sys.argv) < 2)
