"""All tests. A package, so that its folders may have the names of the packages that they test."""
