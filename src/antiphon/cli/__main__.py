"""`python -m antiphon.cli`, which is how a command starts a host in the background."""

import sys

from antiphon.cli import main

sys.exit(main())
