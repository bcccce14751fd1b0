"""Classic receipts from frameworks: helpers that record a step, importers that make receipts of records."""
