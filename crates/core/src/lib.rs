//! The brain: from an observation to a decision, without I/O, clock, randomness or Kubernetes.
