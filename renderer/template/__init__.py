"""Templates with `${...}` expressions, compiled to functions, and the typed views that expressions read."""
