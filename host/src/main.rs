//! Program that runs one pipeline.

fn main() {}
