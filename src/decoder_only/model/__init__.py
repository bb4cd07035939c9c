"""The model: chapters 2 to 8, tensors in and tensors out."""
