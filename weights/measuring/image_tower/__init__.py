"""What `embedded_eye` measures, one kind of measure per module, and how the figures are shown."""
