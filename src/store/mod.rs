//! What is kept on disk: typed keys, and caches on RocksDB.

#[cfg(feature = "rocksdb")]
pub mod cache;
pub mod keys;

#[cfg(feature = "rocksdb")]
pub(crate) use default_dir::default_dir;

#[cfg(feature = "rocksdb")]
mod default_dir {
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;

    static HOOK: OnceLock<fn() -> PathBuf> = OnceLock::new();

    /// Where caches live that are used outside an App: `state/<binary name>/caches` unless the process
    /// configuration says otherwise.
    pub(crate) fn default_dir() -> PathBuf {
        HOOK.get().map_or_else(built_in, |hook| hook())
    }

    /// Lets the configuration answer instead; the first caller wins.
    #[expect(dead_code, reason = "called by the process configuration")]
    pub(crate) fn set_default_dir(hook: fn() -> PathBuf) {
        let _ = HOOK.set(hook);
    }

    fn built_in() -> PathBuf {
        let binary = std::env::args_os().next().unwrap_or_default();
        let stem = Path::new(&binary).file_stem().unwrap_or_else(|| "app".as_ref());
        Path::new("state").join(stem).join("caches")
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn without_configuration_the_binary_names_the_directory() {
            assert!(built_in().starts_with("state"));
            assert!(built_in().ends_with("caches"));
        }
    }
}
