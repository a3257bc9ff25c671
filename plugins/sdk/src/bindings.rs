//! What `wit-bindgen` makes of the contract.

#![allow(missing_docs, unreachable_pub, elided_lifetimes_in_paths, unsafe_code, reason = "generated code")]

wit_bindgen::generate!({
    path: "../../wit/0.1.0",
    world: "plugin",
    pub_export_macro: true,
    export_macro_name: "__export_bindings",
    default_bindings_module: "tidegate_plugin::bindings",
});
