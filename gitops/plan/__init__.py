"""What a commit would do, as a value that people review: the report of a plan, and the forms in which it is shown."""
