"""What fold-constants computes: only ops whose result numpy gives bit for bit as onnxruntime does."""
