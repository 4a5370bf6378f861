"""Models of other libraries, in and out: one file a family, one table for both ways."""
