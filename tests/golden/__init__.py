"""Figures as they were once found, held against those of today's command line."""
