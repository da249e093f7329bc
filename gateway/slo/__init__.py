"""Objectives, what counts towards them, and how fast their error budgets are used up."""
