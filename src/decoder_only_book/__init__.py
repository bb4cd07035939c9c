"""What only the book needs: pictures, stored results, notebook helpers."""
