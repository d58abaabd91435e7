"""Variables of the environment that tests obey."""

from __future__ import annotations

import os

IN_CI = os.environ.get("CI") == "true"


FUZZING = "LEVELGATE_FUZZ" in os.environ
