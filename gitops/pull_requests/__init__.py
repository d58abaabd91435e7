"""Plans as comments on pull requests, and reverts proposed as pull requests."""
