"""Children that get Ctrl-C."""

import signal
import subprocess
import sys
import time

# Seconds after which something hangs.
PATIENCE = 120


def interrupted(code, words=(), after=0.3, look=lambda child: None):
    """What a child prints after "started", and its code; `look` sees it just before the signal."""
    child = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "started\n"
        time.sleep(after)
        look(child)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
    return out, child.returncode
