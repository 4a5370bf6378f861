"""Codecs: raw data to token ids and back, with encode and render."""
