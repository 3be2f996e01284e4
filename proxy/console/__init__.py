"""What all commands share: output formats, colour, options. Other packages' commands import it too."""
