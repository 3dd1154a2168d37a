"""Models of every kind, and one of them in a file."""

import contextlib
import io

import pytest
from small_models import MODELS, fitted


@pytest.fixture(scope="session")
def models():
    with contextlib.redirect_stderr(io.StringIO()):
        return {name: fitted(**options) for name, options in MODELS.items()}


@pytest.fixture
def path(models, tmp_path):
    models["names"].save(tmp_path / "m.shore")
    return tmp_path / "m.shore"
