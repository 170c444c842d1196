"""Runs that survive a crash: saved texts, unfinished runs, commits."""
