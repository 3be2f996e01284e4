"""What all commands share: exit codes, output formats, colour. Other packages' commands import it too."""
