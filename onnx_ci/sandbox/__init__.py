"""Processes that may crash, hang or eat memory without harm: they run models and other libraries."""
