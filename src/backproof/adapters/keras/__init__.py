"""What Keras did, on JAX or PyTorch, as data."""
