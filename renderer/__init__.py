"""From the files of one commit to manifests sorted by levels of dependency. Pure: same input, same bytes out."""
