"""Documents derived from definitions: lint findings, diagrams, example instances, JSON Schemas and ClusterRoles."""
