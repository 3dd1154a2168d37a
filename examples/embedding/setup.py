import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

import shore

openmp = ["-fopenmp"] if sys.platform == "linux" else []  # elsewhere prange is a loop
extension = Extension(
    "texttags._tagger",
    ["texttags/_tagger.pyx"],
    include_dirs=[shore.get_include()],
    extra_compile_args=openmp,
    extra_link_args=openmp,
)
setup(ext_modules=cythonize([extension], language_level=3))
