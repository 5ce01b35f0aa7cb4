//! Networks, model files and learning.
