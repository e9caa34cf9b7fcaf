//! The code that binds the function. Every mention of one of the user's expressions or types carries its span, so that
//! an error about it appears there, once.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprMethodCall, FnArg, ItemFn, ReturnType, Type};

use crate::parse::Arguments;

pub(crate) fn expand(arguments: &Arguments, function: &ItemFn) -> TokenStream {
    let name = function.sig.ident.to_string();
    let text = source_text(&arguments.sources);
    let options = options(arguments, function);
    let prepare = prepare(arguments, function);
    let sources = sources(arguments);
    let call = call(function);
    let folded = folded(arguments);
    let sinks = sinks(&arguments.sinks, function);
    let output = output(function);
    let bind = quote_spanned!(output=> __p::bind(__called, __builder, __options, __binding));
    quote! {
        const _: () = {
            use ::slipstream::__private as __p;
            fn __bind(
                __builder: &mut __p::Builder<'_>,
                __options: __p::HandlerOptions,
            ) -> __p::Result<()> {
                use __p::methods::*;
                #prepare
                let __options = __options #options;
                let mut __binding = __builder.sinks();
                #sources
                #folded
                #call
                #sinks
                #bind
            }
            __p::inventory::submit! {
                __p::Registered {
                    name: #name,
                    source: #text,
                    place: (::core::module_path!(), ::core::file!(), ::core::line!(), ::core::column!()),
                    bind: __bind,
                }
            }
        };
    }
}

/// The sources as the user wrote them, for errors and counters.
fn source_text(sources: &[Expr]) -> String {
    let texts: Vec<_> = sources
        .iter()
        .map(|source| source.span().source_text().unwrap_or_else(|| quote!(#source).to_string()))
        .collect();
    texts.join(", ")
}

fn options(arguments: &Arguments, function: &ItemFn) -> TokenStream {
    let concurrency = arguments.concurrency.as_ref().map(|lanes| quote_spanned!(lanes.span()=> .concurrency(#lanes)));
    let timeout = arguments.timeout.as_ref().map(|limit| quote_spanned!(limit.span()=> .timeout(#limit)));
    let tables = lent(function).into_iter().map(|(at, _)| {
        let table = format_ident!("__table_{at}");
        quote!(.table(#table))
    });
    quote!(#concurrency #timeout #(#tables)*)
}

/// The types of the arguments: the message's first, if there is one.
fn types(function: &ItemFn) -> Vec<&Type> {
    fn of(argument: &FnArg) -> Option<&Type> {
        match argument {
            FnArg::Typed(typed) => Some(&typed.ty),
            FnArg::Receiver(_) => None,
        }
    }
    function.sig.inputs.iter().filter_map(of).collect()
}

/// The arguments that are borrowed for a call: their places and what the references are to.
fn lent(function: &ItemFn) -> Vec<(usize, &Type)> {
    fn of((at, ty): (usize, &Type)) -> Option<(usize, &Type)> {
        match ty {
            Type::Reference(reference) if reference.mutability.is_some() => Some((at, &reference.elem)),
            _ => None,
        }
    }
    types(function).into_iter().enumerate().skip(1).filter_map(of).collect()
}

fn is_lent(ty: &Type) -> bool {
    matches!(ty, Type::Reference(reference) if reference.mutability.is_some())
}

/// A source that is a topic, where there are tables.
fn folded(arguments: &Arguments) -> TokenStream {
    let source = arguments.sources.first().filter(|_| !arguments.tables.is_empty());
    source.map_or_else(TokenStream::new, |source| {
        let span = arguments.sources.get(1).unwrap_or(source).span();
        quote_spanned!(span=> let __sources = __p::folded(__sources);)
    })
}

/// Finds what the arguments after the message need.
fn prepare(arguments: &Arguments, function: &ItemFn) -> TokenStream {
    let name = function.sig.ident.to_string();
    let mut tables = arguments.tables.iter();
    let prepared = types(function).into_iter().enumerate().skip(1).map(|(at, ty)| {
        let argument = format_ident!("__argument_{at}");
        if let (Type::Reference(reference), true) = (ty, is_lent(ty)) {
            let rows = &reference.elem;
            let (own, table) = (format_ident!("__table_{at}"), tables.next());
            let span = table.map_or_else(|| ty.span(), Spanned::span);
            let table = table.map(borrowed);
            return quote_spanned!(span=> let (#own, #argument) = __p::lender::<#rows, _>(#table, #name)?;);
        }
        quote_spanned! {ty.span()=>
            let #argument = __p::prepare::<#ty>(__builder.env(), #name)?;
        }
    });
    quote!(#(#prepared)*)
}

/// A path stands for a declaration, which is borrowed; anything else is an expression of the user's.
fn borrowed(expr: &Expr) -> TokenStream {
    match expr {
        Expr::Path(path) => quote_spanned!(path.span()=> &#path),
        other => quote!(#other),
    }
}

fn sources(arguments: &Arguments) -> TokenStream {
    let mut sources = arguments.sources.iter().map(|source| (source.span(), borrowed(source)));
    let first = sources.next().map(|(span, source)| quote_spanned!(span=> let __sources = __p::from(#source);));
    let more =
        sources.map(|(span, source)| quote_spanned!(span=> let __sources = __p::and(__sources, __p::from(#source));));
    let key = arguments
        .key
        .as_ref()
        .map(|key| quote_spanned!(key.span()=> let __options = __p::keyed(&__sources, __options, #key);));
    let pipes =
        arguments.pipes.iter().map(|pipe| quote_spanned!(pipe.span()=> let __sources = __p::pipe(__sources, #pipe);));
    quote!(#first #(#more)* #key #(#pipes)*)
}

/// The word that stands for what the handler returns.
fn output(function: &ItemFn) -> Span {
    match &function.sig.output {
        // The type of an async function's future is written nowhere.
        ReturnType::Type(_, ty) if function.sig.asyncness.is_none() => ty.span(),
        _ => function.sig.ident.span(),
    }
}

/// The function of an item that calls the user's.
fn call(function: &ItemFn) -> TokenStream {
    let ident = &function.sig.ident;
    let output = output(function);
    let types = types(function);
    let probe = quote_spanned! {output=>
        (&&__p::Tag::of(&__value)).when().wrap(__value, |__value| {
            (&&__p::Tag::of(&__value)).whether().wrap(__value, |__value| {
                (&&&&&&&&&__p::Tag::of(&__value)).shape().outputs(__value)
            })
        })
    };
    let Some(message) = types.first() else {
        let span = function.sig.paren_token.span.join();
        let tick = quote_spanned!(span=> __p::tick(__item));
        let called = quote!(let __value = #ident(););
        return quote_spanned! {output=>
            let __called = __p::call(__sources, move |__item, _: &__p::UnitCx| {
                #tick;
                #called
                #probe
            });
        };
    };
    let message = quote_spanned!(message.span()=> __p::message::<_, #message>(__item));
    let arguments = types.iter().enumerate().skip(1).map(|(at, ty)| {
        let argument = format_ident!("__argument_{at}");
        if is_lent(ty) {
            let rows = format_ident!("__rows_{at}");
            return quote_spanned!(ty.span()=> &mut #rows);
        }
        quote_spanned!(ty.span()=> __p::argument::<#ty>(&#argument, __unit))
    });
    let lent = lent(function);
    if !lent.is_empty() {
        return folding(function, &message, arguments.collect(), &probe);
    }
    // Not under the user's span, where clippy would have something to say about a value of type `()`.
    let called = quote!(let __value = #ident(__message, #(#arguments),*););
    quote_spanned! {output=>
        let __called = __p::call(__sources, move |__item, __unit: &__p::UnitCx| {
            __p::Try::new(#message, |__message| {
                #called
                #probe
            })
        });
    }
}

/// The function of an item that calls one of the user's which borrows rows. They live as long as the call; of an async
/// function, in its future.
fn folding(function: &ItemFn, message: &TokenStream, arguments: Vec<TokenStream>, probe: &TokenStream) -> TokenStream {
    let ident = &function.sig.ident;
    let output = output(function);
    let (rows, lends): (Vec<_>, Vec<_>) = lent(function)
        .into_iter()
        .map(|(at, ty)| {
            let argument = format_ident!("__argument_{at}");
            (format_ident!("__rows_{at}"), quote_spanned!(ty.span()=> __p::lent::<#ty>(&#argument, __unit)?))
        })
        .unzip();
    let called = if function.sig.asyncness.is_some() {
        let own: Vec<_> = (0..arguments.len()).map(|at| format_ident!("__own_{at}")).collect();
        let (given, taken): (Vec<_>, Vec<_>) = types(function)
            .into_iter()
            .skip(1)
            .zip(own)
            .zip(arguments)
            .map(
                |((ty, own), argument)| {
                    if is_lent(ty) { (None, argument) } else { (Some(quote!(let #own = #argument;)), quote!(#own)) }
                },
            )
            .unzip();
        quote! {
            #(#given)*
            let __value = async move { #ident(__message, #(#taken),*).await };
        }
    } else {
        quote!(let __value = #ident(__message, #(#arguments),*);)
    };
    quote_spanned! {output=>
        let __called = __p::call(__sources, move |__item, __unit: &__p::UnitCx| {
            let __lent = #message.and_then(|__message| ::core::result::Result::Ok((__message, #(#lends,)*)));
            __p::Try::new(__lent, |(__message, #(mut #rows,)*)| {
                #called
                #probe
            })
        });
    }
}

fn sinks(sinks: &[Expr], function: &ItemFn) -> TokenStream {
    let check = sinks.first().map(|sink| {
        quote_spanned! {sink.span()=>
            let __called = (&&__p::probe(&__called)).check(__called);
        }
    });
    let output = output(function);
    let sinks = sinks.iter().enumerate().map(|(at, sink)| {
        let more = (at > 0).then(|| quote_spanned!(output=> let __called = __p::more(__called);));
        let sink = sink_call(sink);
        quote!(#more let __called = #sink?;)
    });
    quote!(#check #(#sinks)*)
}

fn sink_call(sink: &Expr) -> TokenStream {
    let span: Span = sink.span();
    match sink {
        Expr::Closure(closure) => quote_spanned!(span=> __p::closure(__called, &mut __binding, #closure)),
        Expr::MethodCall(ExprMethodCall { receiver, method, args, turbofish: None, .. })
            if method == "map" && args.len() == 1 && matches!(args.first(), Some(Expr::Closure(_))) =>
        {
            let receiver = borrowed(receiver);
            quote_spanned!(span=> __p::mapped(__called, &mut __binding, #receiver, #args))
        }
        other => {
            let other = borrowed(other);
            quote_spanned!(span=> __p::sink(__called, &mut __binding, #other))
        }
    }
}
