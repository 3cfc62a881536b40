"""The hostile inputs, a file per kind. Each row: name, input, what is expected."""
