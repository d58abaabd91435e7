"""Ports for servers that have to be told theirs."""

import random
import socket


def free_ports(count: int) -> list[int]:
    """Return unused ports below the range that kernels use for outgoing connections."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20000, 32768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
    return ports
