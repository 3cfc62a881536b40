"""InfoMetIC: which words of a caption are wrong, which regions the caption leaves out, and three scores."""
