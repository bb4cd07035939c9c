"""What chapters call to show things: figures in one style, source, tables."""
