"""Children of fork that end, by themselves or by an alarm, and say what went wrong."""

import os
import signal
import traceback
import warnings

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

# Seconds after which something hangs.
PATIENCE = 60


def forked(work):
    """Run work() in a child and wait for it. What it raises, a signal or a hang fails the test."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 on: the process has threads, as it should
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)
            work()
            code = 0
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader, "rb") as file:
        said = file.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)  # the alarm sees to it that this ends
    code = os.waitstatus_to_exitcode(status)
    assert code == 0, f"the child {'hung' if code == -signal.SIGALRM else f'ended with {code}'}: {said}"
