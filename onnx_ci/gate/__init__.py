"""The walk of a model through the gate: its candidates, which of them is proven, and the verdict."""
