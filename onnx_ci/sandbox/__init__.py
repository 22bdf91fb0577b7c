"""Processes of our own: how they are started, limited and asked, and what runs in them."""
