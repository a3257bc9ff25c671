//! The core's plugin traits over wasmtime.
