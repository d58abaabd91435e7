"""The configuration file `levelgate.yaml`: sources, cluster, and the operator's limits for sources and cluster.

The file belongs to the operator, so no repository can change it. The file is accepted or rejected as a whole. All
mistakes in the file are reported together.
"""

from gitops.config.model import Config, ConfigErrors
from gitops.config.reader import read_config

__all__ = ["Config", "ConfigErrors", "read_config"]
