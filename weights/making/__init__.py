"""How the weights that ship for the backbone `embedded` are made."""
