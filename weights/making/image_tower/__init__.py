"""The recipe of the image tower, the image side of the backbone `embedded`; the command is in `__main__`."""
