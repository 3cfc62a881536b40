"""What every recipe runs on: settings, the loop, losses, records and cards."""
