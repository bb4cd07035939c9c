"""Scaling laws, training plans, interpretation and knowledge of models. Chapters 10, 14 and 15."""
