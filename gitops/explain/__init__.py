"""What the cluster's own records answer to whoever asks: where everything is, why something waits, what happened, and whether it is there yet."""
