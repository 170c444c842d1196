"""Make a code model from public text: reader, book, writer, and the table of code sizes."""
