"""All settings of a run, by what it learns."""
