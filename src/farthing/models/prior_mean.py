"""The prior mean of the objective that earlier studies give, and the trust in each of them.

    mu_s(x)   posterior mean of a Gaussian process on the standardised values of source s, in the
              coordinates that the source has
    a_s       share of the pairs of values seen here that source s orders correctly, in expectation
              under its posterior: mean over pairs y_i < y_j of P(f_s(x_i) < f_s(x_j))
    trust_s = P(A > 1/2),  A ~ Beta(ALPHA + (n - 1) a_s, BETA + (n - 1) (1 - a_s))
    m(x)    = scale T b sum_s w_s mu_s(x),   w_s ~ trust_s^SHARPNESS, sum 1,   T = max_s trust_s
    b         how far values here spread compared with those of the sources: ridge regression of the
              standardised values on sum_s w_s mu_s, shrunk towards 1, and at least 0

The n values count as n - 1 comparisons, because pairs are dependent. Before the first values, the
trust is that of the prior. The residual y - m is the Gaussian process of `gp.py`, whose constant
mean is the level of this task. Pairwise ranking weights follow RGPE (Feurer et al. 2018); there,
weights are shares of draws in which a source ranks best.

What others may show (keys of a trial's notes, which are stored with the trial):

    notes["trust"]         {name of a source: trust between 0 and 1} when the trial was suggested
    notes["from_sources"]  {name: by how much the source moved the predicted value at the proposed
                           point}, in the objective's unit; of trials that a model proposed
    notes["portfolio"]     {name: share}: which sources expected the improvement of a configuration
                           of the initial design; shares sum to 1

`Belief.trust` is the same dictionary; `Belief.moved_by(x)` computes `from_sources`.
"""
