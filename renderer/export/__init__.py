"""Documents derived from definitions: lint findings, diagrams, example instances, schemas and roles."""
