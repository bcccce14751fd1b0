"""What JAX did, as data."""
