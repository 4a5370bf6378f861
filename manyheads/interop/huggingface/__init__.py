"""Folders that transformers and sentence-transformers read and write."""
