"""What can be said of models: laws, plans, circuits, knowledge. Chapters 10, 14 and 15."""
