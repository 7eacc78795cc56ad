//! Diagonal metrics: a factor for each feature, learnt from a sample in memory.

mod lbfgs;
#[cfg_attr(not(test), expect(dead_code, reason = "the stage that learns a metric calls it"))]
mod likelihood;
mod marginal;
