"""Meta-testing: accuracies with intervals, and comparisons on identical tasks."""
