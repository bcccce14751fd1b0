"""Two traces side by side: where they part, which side is wrong, and what is only rounding."""
