//! Learning on feature blocks: ridge regression and the rank x lambda x fold surface
