"""The configuration file `levelgate.yaml`: sources, cluster, and the operator's limits for both.

The file belongs to the operator, so no repository can change it. Levelgate accepts or rejects the file as a whole, and
reports all its mistakes together.
"""

from gitops.config.model import Config, ConfigErrors
from gitops.config.reader import read_config

__all__ = ["Config", "ConfigErrors", "read_config"]
