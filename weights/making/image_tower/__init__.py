"""The recipe of the eye, the image side of the backbone `embedded`; the command is in `__main__`."""
