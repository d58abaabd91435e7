"""ApplySet parents and members (KEP-3659): inventory, membership, adoption, and the marks of kro."""
