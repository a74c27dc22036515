"""A diagram as arithmetic circuits, and the questions they answer."""
