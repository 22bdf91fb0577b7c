"""Reports, one file a format, all drawn from the same RunReport."""
