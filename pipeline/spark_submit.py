"""What spark-submit starts: the command line, whose arguments follow this file's name."""

from proxy.cli import main

if __name__ == "__main__":
    main()
