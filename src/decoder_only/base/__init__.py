"""Files, tensors on disk, checks and hardware: no model, no settings."""
