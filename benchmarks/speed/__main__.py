"""`python -m benchmarks.speed`: see `benchmarks.speed.suggestions`."""

import sys

from benchmarks.speed.suggestions import main

sys.exit(main())
