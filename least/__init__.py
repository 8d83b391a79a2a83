"""LEAST: a fast structure learner for linear Bayesian networks."""
