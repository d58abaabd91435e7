"""The configuration file `levelgate.yaml`: which sources are followed, in which cluster, and what the operator allows them.

It is the operator's, never read from a repository that is followed. A file is taken whole or not at all; all its mistakes are told together.
"""

from gitops.config.model import Config, ConfigErrors
from gitops.config.reader import read_config

__all__ = ["Config", "ConfigErrors", "read_config"]
