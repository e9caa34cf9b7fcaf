//! The names of declarations.

use std::sync::Arc;

/// A name that stands in the program, or one that was made at run time.
#[derive(Debug, Clone)]
pub(crate) enum Name {
    Fixed(&'static str),
    Made(Arc<str>),
}

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Fixed(name) => name,
            Self::Made(name) => name,
        }
    }

    /// Without a copy where it was made at run time.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        match self {
            Self::Fixed(name) => Arc::from(*name),
            Self::Made(name) => Arc::clone(name),
        }
    }
}
