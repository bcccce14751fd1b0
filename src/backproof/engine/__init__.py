"""Graphs, evaluated: the domains of numbers, and one loop that runs a graph in any of them."""
