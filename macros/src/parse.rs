//! The attribute's arguments, as they are written.

use proc_macro::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, Item, ItemFn, Result, Token, bracketed};

/// The function under the attribute.
pub(crate) fn function(item: TokenStream) -> Result<ItemFn> {
    match syn::parse::<ItemFn>(item.clone()) {
        Ok(function) => Ok(function),
        // A function with a mistake in it says so itself; anything else is in the wrong place.
        Err(error) => match syn::parse::<Item>(item) {
            Ok(other) => Err(Error::new_spanned(other, "`#[handle]` stands on a function")),
            Err(_) => Err(error),
        },
    }
}

/// What `#[handle(…)]` says.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) sources: Vec<Expr>,
    pub(crate) pipes: Vec<Expr>,
    pub(crate) sinks: Vec<Expr>,
    pub(crate) concurrency: Option<Expr>,
    pub(crate) key: Option<Expr>,
    pub(crate) timeout: Option<Expr>,
    pub(crate) tables: Vec<Expr>,
}

const KNOWN: &str = "`pipe`, `sink`, `table`, `concurrency`, `key`, `timeout`";

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut arguments = Self::default();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            if input.peek(Ident) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
                let name: Ident = input.parse()?;
                input.parse::<Token![=]>()?;
                if seen.contains(&name) {
                    return Err(Error::new(name.span(), format!("`{name}` is given twice")));
                }
                arguments.option(&name, input)?;
                seen.push(name);
            } else if let Some(last) = seen.last() {
                let message = format!("sources come first, before `{last}`");
                return Err(Error::new(input.span(), message));
            } else {
                arguments.sources.push(input.parse()?);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

impl Arguments {
    fn option(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<()> {
        match name.to_string().as_str() {
            "pipe" => self.pipes = one_or_list(input)?,
            "sink" => self.sinks = one_or_list(input)?,
            "table" => self.tables = one_or_list(input)?,
            "concurrency" => self.concurrency = Some(input.parse()?),
            "key" => self.key = Some(input.parse()?),
            "timeout" => self.timeout = Some(input.parse()?),
            other => {
                let message = format!("unknown argument `{other}`: after the sources, `handle` takes {KNOWN}");
                return Err(Error::new(name.span(), message));
            }
        }
        Ok(())
    }
}

fn one_or_list(input: ParseStream<'_>) -> Result<Vec<Expr>> {
    if !input.peek(syn::token::Bracket) {
        return Ok(vec![input.parse()?]);
    }
    let list;
    bracketed!(list in input);
    Ok(Punctuated::<Expr, Token![,]>::parse_terminated(&list)?.into_iter().collect())
}
