//! Emulates services on the pods of a local cluster: load, queues and the metrics a real service would have.
