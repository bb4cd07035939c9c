"""What keeps a run alive: its folder, its processes, its device, its files, and what is seen of it.

Nothing here knows what a transformer is; the modules beside this folder do.
"""
