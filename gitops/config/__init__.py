"""The configuration file `levelgate.yaml`: sources, cluster, and the operator's limits for both.

The file belongs to the operator: no repository can change it. It is accepted as a whole or not at all, and all its
mistakes are reported together.
"""

from gitops.config.model import Config, ConfigErrors
from gitops.config.reader import read_config

__all__ = ["Config", "ConfigErrors", "read_config"]
