from dpbart.cli import cli

cli()
