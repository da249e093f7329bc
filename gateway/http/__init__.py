"""The HTTP edge: the only package that imports the web framework. Holds no business rule."""
