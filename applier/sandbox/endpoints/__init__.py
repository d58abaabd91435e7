"""Ways to reach the sandbox: in process, over HTTP, and cut off."""
