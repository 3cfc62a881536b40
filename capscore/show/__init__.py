"""Results for people: tables, figures, pages and apps."""
