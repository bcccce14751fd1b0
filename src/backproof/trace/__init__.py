"""What was recorded: tensors on disk, and the steps that they belong to."""
