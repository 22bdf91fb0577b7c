"""The CMake module, as files: a package so that scikit-build-core finds it by its entry point."""
