"""What metrics and weights are measured to do on real data."""
