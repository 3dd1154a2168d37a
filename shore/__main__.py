"""`python -m shore` is the command `shore`."""

import sys

from shore.cli import main

sys.exit(main())
