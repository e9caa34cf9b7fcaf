//! The `#[handle]` attribute of `slipstream-async`; documented and re-exported there.
//!
//! The way of an attribute: `parse` its arguments → `check` them against the function → `expand`. The function
//! itself is given back untouched, also when something is wrong with the attribute.

mod check;
mod expand;
mod parse;

use proc_macro::TokenStream;
use quote::quote;

/// Binds a function between sources and sinks: `#[handle(SOURCE, sink = [SINK])]`.
///
/// | argument | meaning |
/// |---|---|
/// | `A, B, …` | the sources, all of one item type |
/// | `pipe = f` or `pipe = [f, g]` | functions from a stream to a stream, before the handler |
/// | `sink = S` or `sink = [S, T]` | where each output goes, in this order |
/// | `table = T` or `table = [T, U]` | the tables that it writes: each lends one `&mut Rows<K, V>`, in this order |
/// | `concurrency = n` | lanes per partition, order kept per key |
/// | `key = \|m\| …` | the key, for sources that have none |
/// | `timeout = d` | a `Duration` that one message may take |
///
/// Every value is an ordinary expression. The function stays as it is: it can be called and tested. It stands in a
/// module or in a function's body; in an `impl` block the binding could not name it.
#[proc_macro_attribute]
pub fn handle(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function: proc_macro2::TokenStream = item.clone().into();
    let expanded = parse::function(item)
        .and_then(|function| {
            let arguments = syn::parse::<parse::Arguments>(arguments)?;
            check::check(&arguments, &function)?;
            Ok(expand::expand(&arguments, &function))
        })
        .unwrap_or_else(|error| error.to_compile_error());
    quote!(#function #expanded).into()
}
