"""Make a code model from public text: sentence encoder, tree of gists, writer, and the table of code sizes."""
