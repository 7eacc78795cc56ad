//! The kmill command: kernel machines on tables larger than memory
