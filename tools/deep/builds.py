"""Instrumented builds of the core. Each is a copy of the sources in build/deep, built there in place.

Python, NumPy and the rest are the usual ones. So the runtime of a sanitizer is loaded before them (`LD_PRELOAD`), and
what it looks at is the code of shore.

    address    gcc; AddressSanitizer and UndefinedBehaviorSanitizer, with OpenMP
    thread     clang; ThreadSanitizer. Its OpenMP runtime tells the sanitizer what waits for what (Archer); without
               that, every parallel region is reported
    coverage   clang; AddressSanitizer, most of UndefinedBehaviorSanitizer, and the counters of libFuzzer. One thread

Some options are not the defaults. Of ThreadSanitizer: `ignore_noninstrumented_modules`, as Python, NumPy and BLAS are
not instrumented, so that what orders their reads and writes cannot be seen, and reports of them would say nothing; and
`die_after_fork=0`, as the tests of fork() must go on in the child. Of AddressSanitizer: `allocator_may_return_null`, as
sizes that no machine has must be a MemoryError and not an end; `verify_asan_link_order=0`, as its runtime is loaded
behind that of UBSan; and `detect_leaks=0`, as Python leaves most of its objects behind at exit: `leaks.py` has leaks.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "deep"
CLANG_NEEDED = "clang with compiler-rt and libomp is needed (Debian: clang-19 libclang-rt-19-dev libomp-19-dev)"
_SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "shore")
# `function` is left out of `undefined`: the runtime that comes with atheris does not know it yet.
_UNDEFINED = "alignment,bounds,float-cast-overflow,integer-divide-by-zero,null,pointer-overflow,shift"
_SANITIZERS = {
    "address": "address,undefined",
    "thread": "thread",
    "coverage": f"fuzzer-no-link,address,signed-integer-overflow,{_UNDEFINED}",
}

# A finding of each sanitizer, to see that it is at work.
_PLANTED = r"""
#include <stdlib.h>
static __attribute__((noinline)) int at(const volatile int *p, int n) { return p[n]; }
int overflow(int n) {
    int *p = (int *)malloc(n);
    const int found = at(p, n / (int)sizeof(int));
    free(p);
    return found;
}
int undefined(int n) { return 1 << n; }
int race(int n) {
    volatile int sum = 0;
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 100000; i++) sum += n;
    return sum;
}
"""
PLANTED = {"address": ("overflow", "undefined"), "thread": ("race",), "coverage": ("overflow", "undefined")}


class MissingError(RuntimeError):
    """A tool is not there."""


@dataclass
class Build:
    """An instrumented build and how to use it."""

    kind: str
    folder: Path
    preload: str
    options: dict[str, str]

    @property
    def logs(self):
        """Where its findings are written, a file a process."""
        return self.folder / "findings"

    def environment(self, **more):
        """The environment of a process that runs on this build."""
        own = {"LD_PRELOAD": self.preload, "PYTHONPATH": str(self.folder), "PYTHONSAFEPATH": "1", **self.options}
        return os.environ | own | more

    def clear(self):
        """Forget what was found."""
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir()

    def findings(self):
        """What was found since then, as text."""
        return [path.read_text(errors="replace") for path in sorted(self.logs.glob("log.*"))]


def clang():
    """The newest clang that is there."""
    names = [os.environ.get("CLANG", ""), *(f"clang-{version}" for version in range(25, 16, -1)), "clang"]
    for name in names:
        if name and shutil.which(name):
            return name
    raise MissingError(CLANG_NEEDED)


def _file_of(compiler, name):
    """The path of a file that comes with the compiler."""
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
    path = Path(found.strip())
    if not path.is_absolute() or not path.exists():
        raise MissingError(f"{compiler} has no {name}; {CLANG_NEEDED}" if "clang" in compiler else f"no {name}")
    return str(path)


def _runtime(kind, logs):
    """The compiler of a build, what has to be loaded before Python, and the options of the runtime."""
    shared = f"log_path={logs / 'log'}:exitcode=99"
    address = {
        "ASAN_OPTIONS": f"{shared}:detect_leaks=0:allocator_may_return_null=1:verify_asan_link_order=0",
        "UBSAN_OPTIONS": f"{shared}:print_stacktrace=1",
    }
    if kind == "address":
        compiler = "gcc"
        if not shutil.which(compiler):
            raise MissingError("gcc is needed")
        # The runtime of UBSan first: behind the other one it does not write its findings to a file.
        return compiler, " ".join(_file_of(compiler, name) for name in ("libubsan.so", "libasan.so")), address
    compiler = clang()
    if kind == "coverage":
        try:
            import atheris
        except ImportError:
            raise MissingError("atheris is needed (it comes with the extra `deep`)") from None
        return compiler, str(Path(atheris.path()) / "asan_with_fuzzer.so"), address
    tool = Path(_file_of(compiler, "libclang_rt.tsan-x86_64.so"))
    library = next((place / "libarcher.so" for place in tool.parents if (place / "libarcher.so").exists()), None)
    if library is None:
        raise MissingError(f"libarcher.so is not there; {CLANG_NEEDED}")
    own = "ignore_noninstrumented_modules=1:die_after_fork=0:history_size=5"
    return compiler, str(tool), {"TSAN_OPTIONS": f"{shared}:{own}", "OMP_TOOL_LIBRARIES": str(library)}


def _copy_sources(folder):
    """Bring the copy up to date; files that did not change keep their time, so that they are not built again."""
    for name in _SOURCES:
        for source in [ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*")):
            if source.suffix not in (".py", ".pyx", ".pxd", ".pyi", ".h", ".toml", ".md", ".in", ".typed", ""):
                continue
            target = folder / source.relative_to(ROOT)
            if source.is_file() and not (target.exists() and target.read_bytes() == source.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


def make(kind):
    """Build the core with the sanitizers of a kind, and see that they find what is planted."""
    folder = FOLDER / kind
    logs = folder / "findings"
    compiler, preload, options = _runtime(kind, logs)
    _copy_sources(folder)
    print(f"  building ({kind}, {compiler}) ...", flush=True)
    built = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--parallel", str(os.cpu_count())],
        cwd=folder,
        env=os.environ
        | {"CC": compiler, "LDSHARED": f"{compiler} -shared", "SHORE_SANITIZE": _SANITIZERS[kind]}
        | ({"SHORE_NO_OPENMP": "1"} if kind == "coverage" else {}),
        capture_output=True,
        text=True,
    )
    if built.returncode:
        raise RuntimeError(f"the build failed:\n{built.stdout}\n{built.stderr}")
    build = Build(kind, folder, preload, options)
    _require_instrumented(build)
    _find_planted(build, compiler)
    return build


def _require_instrumented(build):
    """The shore that tests of this build import is its own, and all of its modules call the sanitizer."""
    where = "import shore, sys; sys.stdout.write(shore.__file__)"
    found = subprocess.run([sys.executable, "-c", where], env=build.environment(), capture_output=True, text=True)
    if found.returncode or build.folder not in Path(found.stdout).parents:
        raise RuntimeError(f"the {build.kind} build is not what is imported: {found.stdout} {found.stderr[-2000:]}")
    mark = b"__tsan_" if build.kind == "thread" else b"__asan_"
    modules = sorted((build.folder / "shore" / "_core").glob("*.so"))
    plain = [module.name for module in modules if mark not in module.read_bytes()]
    if plain or not modules:
        raise RuntimeError(f"modules of the {build.kind} build are not instrumented: {plain or 'there are none'}")


def _find_planted(build, compiler):
    """Each planted finding must be found, by the way the tests are run."""
    source, library = build.folder / "planted.c", build.folder / "planted.so"
    source.write_text(_PLANTED)
    openmp = [] if build.kind == "coverage" else ["-fopenmp"]
    sanitize = [f"-fsanitize={_SANITIZERS[build.kind]}", "-fno-sanitize-recover=all"]
    subprocess.run([compiler, "-g", "-O1", "-shared", "-fPIC", *openmp, *sanitize, source, "-o", library], check=True)
    for name in PLANTED[build.kind]:
        build.clear()
        call = f"import ctypes; ctypes.CDLL({str(library)!r}).{name}(64)"
        ended = subprocess.run([sys.executable, "-c", call], env=build.environment(), capture_output=True)
        if ended.returncode == 0 or not build.findings():
            raise RuntimeError(f"the {build.kind} build does not report a planted {name}: its reports mean nothing")
    build.clear()
