//! Everything that can go wrong, made to go wrong: one sentence, the exit code of the contract, and no file left.

mod damage;
mod data;
mod disk;
mod make;
mod models;
mod sentences;
mod special;
mod usage;
