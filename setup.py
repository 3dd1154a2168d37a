"""Build of the compiled core. Everything else about the package is in pyproject.toml.

Environment variables
---------------------
SHORE_DEBUG=1
    Bounds checks in Cython, assertions in C, no optimisation, debug symbols.
SHORE_NO_OPENMP=1
    Build without OpenMP even where the compiler has it (one thread everywhere).
SHORE_SANITIZE=address,undefined (or another list that the compiler's -fsanitize takes)
    Instrumented modules, with debug symbols; a finding ends the process. tools/deep/builds.py builds them.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from Cython import __version__ as cython_version
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = "shore/_core"
PUBLIC = "shore/include"
MODULES = ["runtime", "feasible", "projection", "compression", "decode", "linear", "serve", "xmc", "capi"]

DEBUG = os.environ.get("SHORE_DEBUG", "0") not in ("", "0")
NO_OPENMP = os.environ.get("SHORE_NO_OPENMP", "0") not in ("", "0")
SANITIZE = os.environ.get("SHORE_SANITIZE", "")

DIRECTIVES = {
    "language_level": 3,
    "embedsignature": True,
    "cdivision": True,
    "freethreading_compatible": True,
    "boundscheck": DEBUG,
    "wraparound": DEBUG,
    "initializedcheck": DEBUG,
    "nonecheck": DEBUG,
}

# -ffp-contract=off: a fused multiply-add is written where it is meant, never left to the compiler, so that
# every path to the same number gives the same bits.
UNIX_FLAGS = ["-std=gnu11", "-ffp-contract=off", "-Wall", "-Wno-unused-function", "-g0"]
OPENMP_CHECK = """
#include <omp.h>
int main(void) {
    int n = 0;
    #pragma omp parallel for reduction(+ : n)
    for (int i = 0; i < 4; i++) n += omp_get_num_threads() > 0;
    return n == 4 ? 0 : 1;
}
"""


def openmp_candidates(compiler_type):
    """(compile flags, link flags) to try, in order."""
    if compiler_type == "msvc":
        return [(["/openmp"], [])]
    if sys.platform == "darwin":  # Apple's clang, with libomp from Homebrew or conda
        return [(["-fopenmp"], ["-fopenmp"]), (["-Xpreprocessor", "-fopenmp"], ["-lomp"])]
    return [(["-fopenmp"], ["-fopenmp"])]


def find_openmp(compiler):
    """The flags with which a small OpenMP program compiles and links, or None."""
    for compile_flags, link_flags in openmp_candidates(compiler.compiler_type):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "openmp_check.c")
            source.write_text(OPENMP_CHECK)
            try:
                objects = compiler.compile([str(source)], output_dir=folder, extra_postargs=compile_flags)
                compiler.link_executable(objects, str(Path(folder, "check")), extra_postargs=link_flags)
            except Exception:  # every compiler class raises its own
                continue
            return compile_flags, link_flags
    return None


class BuildCore(build_ext):
    """build_ext with the flags of the compiler that is really there."""

    def build_extensions(self):
        unix = self.compiler.compiler_type != "msvc"
        compile_flags = list(UNIX_FLAGS) if unix else ["/fp:precise", "/std:c11"]
        link_flags = []
        macros = [
            ("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"),
            ("SHORE_CYTHON_VERSION", f'"{cython_version}"'),
        ]
        if DEBUG:
            compile_flags += ["-O1", "-g"] if unix else ["/Od", "/Zi"]
            macros.append(("SHORE_DEBUG", "1"))
        else:
            compile_flags += ["-O3"] if unix else ["/O2"]
        if SANITIZE:
            compile_flags += [
                "-O1",
                "-g",
                "-fno-omit-frame-pointer",
                f"-fsanitize={SANITIZE}",
                "-fno-sanitize-recover=all",
            ]
            link_flags += [f"-fsanitize={SANITIZE}"]

        openmp = None if NO_OPENMP else find_openmp(self.compiler)
        if openmp is None:
            reason = "SHORE_NO_OPENMP is set" if NO_OPENMP else "the compiler does not build OpenMP programs"
            bar = "*" * 90
            print(
                f"{bar}\n* WARNING: shore is built WITHOUT OpenMP ({reason}).\n"
                f"* Everything works, but every call runs on one thread, whatever n_threads says.\n{bar}",
                file=sys.stderr,
                flush=True,
            )
        else:
            compile_flags += openmp[0]
            link_flags += openmp[1]

        for extension in self.extensions:
            extension.extra_compile_args += compile_flags
            extension.extra_link_args += link_flags
            extension.define_macros += macros
        super().build_extensions()


headers = [str(path) for folder in (CORE, PUBLIC) for path in sorted(Path(folder).glob("*.h"))]
extensions = [
    Extension(
        f"shore._core.{name}",
        [f"{CORE}/{name}.pyx"],
        include_dirs=[CORE, PUBLIC, np.get_include()],
        depends=headers,
    )
    for name in MODULES
]

setup(
    ext_modules=cythonize(extensions, compiler_directives=DIRECTIVES, force=DEBUG),
    cmdclass={"build_ext": BuildCore},
)
