//! What is wrong can often be seen before the types are known; it is said on the user's own words.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Error, Expr, FnArg, ItemFn, Lit, Result, ReturnType, Type};

use crate::parse::Arguments;

pub(crate) fn check(arguments: &Arguments, function: &ItemFn) -> Result<()> {
    let mut errors: Vec<Error> = Vec::new();
    if arguments.sources.is_empty() {
        let message = "a handler needs a source: `#[handle(SOURCE)]`";
        errors.push(Error::new(function.sig.ident.span(), message));
    }
    errors.extend(check_place(arguments, function));
    errors.extend(check_signature(arguments, function));
    errors.extend(check_tables(arguments, function));
    errors.extend(check_sinks(arguments, function));
    errors.extend(check_lanes(arguments));
    match errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    }) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// In an `impl` block the binding cannot name the function. An attribute does not see where it stands, but `Self` says it.
fn check_place(arguments: &Arguments, function: &ItemFn) -> Option<Error> {
    let values = arguments.sources.iter().chain(&arguments.pipes).chain(&arguments.sinks);
    let mut written: Vec<TokenStream> = values.map(ToTokens::to_token_stream).collect();
    written.push(function.sig.to_token_stream());
    let at = written.into_iter().find_map(self_type)?;
    Some(Error::new(at, "a handler is a plain function: it stands outside of `impl`, where there is no `Self`"))
}

/// Where `Self` is written first.
fn self_type(tokens: TokenStream) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "Self" => Some(ident.span()),
        TokenTree::Group(group) => self_type(group.stream()),
        _ => None,
    })
}

fn check_signature(arguments: &Arguments, function: &ItemFn) -> Vec<Error> {
    let signature = &function.sig;
    let mut errors = Vec::new();
    if let Some(parameter) = signature.generics.params.first() {
        let message = "a handler cannot be generic: nobody would say for which type it is bound";
        errors.push(Error::new(parameter.span(), message));
    }
    for (at, argument) in signature.inputs.iter().enumerate() {
        match argument {
            FnArg::Receiver(receiver) => {
                let message = "a handler is a plain function: it has no `self`";
                errors.push(Error::new(receiver.span(), message));
            }
            FnArg::Typed(typed) => {
                // `&'static str` can be an item of a stream like any other value.
                let is_static = |lifetime: &syn::Lifetime| lifetime.ident == "static";
                if let Type::Reference(reference) = &*typed.ty
                    && !reference.lifetime.as_ref().is_some_and(is_static)
                {
                    let what = match (at, reference.mutability) {
                        (0, _) => "the message is given by value: take it without `&`",
                        (_, Some(_)) if !arguments.tables.is_empty() => continue,
                        (_, Some(_)) => "what a handler borrows is lent by a table: add `table = TABLE`",
                        _ => "arguments are given by value: take it without `&`",
                    };
                    errors.push(Error::new(reference.span(), what));
                } else if let Type::ImplTrait(argument) = &*typed.ty {
                    let message = "a handler cannot be generic: name the type that it takes";
                    errors.push(Error::new(argument.span(), message));
                }
            }
        }
    }
    if let Some(token) = &signature.unsafety {
        errors.push(Error::new(token.span(), "a handler cannot be `unsafe`: the app calls it"));
    }
    errors
}

/// The n-th table lends the n-th `&mut Rows`.
fn check_tables(arguments: &Arguments, function: &ItemFn) -> Vec<Error> {
    let mut errors = Vec::new();
    let Some(first) = arguments.tables.first() else { return errors };
    let is_lent = |argument: &&FnArg| {
        matches!(argument, FnArg::Typed(typed)
            if matches!(&*typed.ty, Type::Reference(reference) if reference.mutability.is_some()))
    };
    let lent: Vec<_> = function.sig.inputs.iter().skip(1).filter(is_lent).collect();
    if let Some(table) = arguments.tables.get(lent.len()) {
        let message =
            format!("`{}` takes no rows of this table: add an argument `&mut Rows<K, V>`", function.sig.ident);
        errors.push(Error::new(table.span(), message));
    }
    if let Some(argument) = lent.get(arguments.tables.len()) {
        let message = "no table lends these rows: `table = [A, B]` gives the n-th argument the n-th table";
        errors.push(Error::new(argument.span(), message));
    }
    if let Some(pipe) = arguments.pipes.first() {
        errors.push(Error::new(pipe.span(), "`pipe` with `table` is refused: what a pipe holds back is in no table"));
    }
    let lanes = arguments.concurrency.as_ref();
    let one = |lanes: &&Expr| matches!(lanes, Expr::Lit(literal) if matches!(&literal.lit, Lit::Int(n) if n.base10_digits() == "1"));
    if lanes.is_some_and(|lanes| matches!(lanes, Expr::Lit(_)) && !one(&lanes)) {
        let message = "`table` with `concurrency` is refused: rows belong to the one lane of their partition";
        errors.push(Error::new(first.span(), message));
    }
    errors
}

fn check_sinks(arguments: &Arguments, function: &ItemFn) -> Option<Error> {
    let nothing = match &function.sig.output {
        ReturnType::Default => true,
        ReturnType::Type(_, ty) => matches!(&**ty, Type::Tuple(tuple) if tuple.elems.is_empty()),
    };
    let sink = arguments.sinks.first().filter(|_| nothing)?;
    let message = format!(
        "`{}` returns nothing, so there is nothing for a sink to take: give it a return type or drop `sink`",
        function.sig.ident
    );
    Some(Error::new(sink.span(), message))
}

fn check_lanes(arguments: &Arguments) -> Vec<Error> {
    let mut errors = Vec::new();
    if let (Some(concurrency), Some(_)) = (&arguments.concurrency, arguments.pipes.first()) {
        let message = "`pipe` with `concurrency` is refused: a pipe is one lane";
        errors.push(Error::new(concurrency.span(), message));
    }
    if let (Some(key), None) = (&arguments.key, &arguments.concurrency) {
        errors.push(Error::new(key.span(), "`key` chooses a lane, so it needs `concurrency`"));
    }
    if let Some(Expr::Lit(literal)) = &arguments.timeout
        && let Lit::Str(text) = &literal.lit
    {
        let message = "a timeout is a `Duration`, not a string: `timeout = Duration::from_secs(5)`";
        errors.push(Error::new(text.span(), message));
    }
    errors
}
