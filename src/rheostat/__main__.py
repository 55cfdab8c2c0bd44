"""``python -m rheostat``."""

import sys

from rheostat.cli import main

sys.exit(main())
