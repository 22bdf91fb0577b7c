"""Smaller forms of a tensor that give it back bit for bit, one file each."""
