"""Verdicts as text, JSON and pages."""
