"""The book's drawings, one module each."""
