"""What PyTorch did, as data."""
