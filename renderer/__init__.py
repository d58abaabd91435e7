"""The files of one commit to manifests, sorted by levels of dependency. Pure: equal input gives equal bytes."""
