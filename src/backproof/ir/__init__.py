"""The language: types, primitives, graphs, and backpropagation as a definition."""
