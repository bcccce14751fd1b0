"""The only place that imports a framework: what PyTorch, JAX, Keras or C show, in backproof's own terms."""
