"""Gates: CEL conditions in `propagateWhen`, of instances and of nodes (KREP-006). All modules are pure."""
