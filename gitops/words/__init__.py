"""Words and tables for people, the same wherever they stand: in a terminal, on the status page, in a plan."""
