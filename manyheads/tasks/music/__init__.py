"""Music modelling: music that a model continues or harmonizes."""
