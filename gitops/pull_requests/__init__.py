"""Pull requests: a comment with the plan on each, and reverts proposed as pull requests."""
