"""ApplySet parents and members (KEP-3659): inventory, membership, adoption, and kro's own marks."""
