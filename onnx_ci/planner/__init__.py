"""Which tensor is stored how: measured on the model itself, within the tolerance and the time there is."""
