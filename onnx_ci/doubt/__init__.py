"""Whether a pass means anything: what was changed is damaged on purpose, and the check has to notice."""
