//! What is planned and told, case by case.
