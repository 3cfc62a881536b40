"""What people look at: tables, figures, pages and apps."""
