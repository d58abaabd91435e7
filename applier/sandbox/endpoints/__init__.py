"""Ways to reach the sandbox: in process, over HTTP, and with injected faults."""
