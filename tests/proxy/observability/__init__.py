"""What operators see: book, pictures, journal, pages, rules and dashboard."""
