"""Agreement of scores with human ratings: correlations, intervals, comparisons."""
