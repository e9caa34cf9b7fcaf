//! `Conf`: values of an explicit app, in the order of their sources.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::entry::{self, Layer, Rank};
use super::load::{self, Loaded, Variables};
use super::owned::Features;
use super::secret;
use super::settings::Settings;
use super::value::ConfValue;
use crate::Result;

/// The configuration: of the process through [`Conf::set`] and [`Conf::fallback`], or a value for an explicit app.
///
/// Sources, the later ones winning: the library's defaults, `fallback`, the file (`slipstream.toml` in the working
/// directory, or the one that `SLIPSTREAM_CONF` names), environment variables (`SLIPSTREAM_…`), `set` or `with`, the
/// topic's own values, and the file's `[topic.<declared name>]`.
///
/// A key may be written with `_` for `.`; librdkafka's names and aiokafka's are understood. Values are checked when
/// [`settings`](Conf::settings) is called. `Debug` hides secrets.
///
/// ```
/// use slipstream::Conf;
/// use slipstream::conf::BrokerUrl;
///
/// let conf = Conf::isolated().with_fallback("broker", "memory:").with("app_id", "orders");
/// let settings = conf.settings()?;
/// assert_eq!(settings.app_id(), "orders");
/// assert_eq!(settings.broker(), Some(&BrokerUrl::Memory { name: None }));
/// # Ok::<(), slipstream::Error>(())
/// ```
#[derive(Clone)]
pub struct Conf {
    /// In the order of the calls; checked by `settings`.
    pub(super) given: Vec<(Rank, String, ConfValue)>,
    file: Option<PathBuf>,
    /// `None`: those of the process.
    variables: Option<Variables>,
    /// Whether `slipstream.toml` is looked for.
    default_file: bool,
    unverified_tls: bool,
    features: Features,
}

impl Conf {
    /// Nothing set; the file and the environment are read.
    ///
    /// ```
    /// use slipstream::Conf;
    ///
    /// let settings = Conf::new().with("app.id", "orders").settings()?;
    /// assert_eq!(settings.app_id(), "orders");
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    #[expect(clippy::new_without_default, reason = "it reads the file and the environment later, a default should not")]
    pub fn new() -> Self {
        Self { variables: None, default_file: true, ..Self::isolated() }
    }

    /// Nothing set; neither the file nor the environment is read, unless [`file`](Conf::file) or
    /// [`environment`](Conf::environment) says so.
    pub fn isolated() -> Self {
        Self {
            given: Vec::new(),
            file: None,
            variables: Some(Vec::new()),
            default_file: false,
            unverified_tls: false,
            features: Features::BUILT,
        }
    }

    /// Sets a key; wins over the file and the environment. A later value replaces an earlier one.
    #[must_use]
    pub fn with(self, key: impl Into<String>, value: impl Into<ConfValue>) -> Self {
        self.push(Rank::Set, key.into(), value.into())
    }

    /// Sets a key that the file, the environment and [`with`](Conf::with) may replace.
    #[must_use]
    pub fn with_fallback(self, key: impl Into<String>, value: impl Into<ConfValue>) -> Self {
        self.push(Rank::Fallback, key.into(), value.into())
    }

    /// Reads this file, and no other; it must be there.
    ///
    /// ```
    /// use slipstream::{Conf, Kind};
    ///
    /// let missing = Conf::isolated().file("not/there.toml").settings().unwrap_err();
    /// assert_eq!(missing.kind(), Kind::Config);
    /// ```
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Reads these variables instead of the environment of the process.
    ///
    /// ```
    /// use slipstream::Conf;
    ///
    /// let conf = Conf::isolated().with_fallback("state.dir", "data").environment([("SLIPSTREAM_STATE_DIR", "/var/lib")]);
    /// assert_eq!(conf.settings()?.state_dir(), std::path::Path::new("/var/lib"));
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    #[must_use]
    pub fn environment<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        self.variables = Some(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// Accepts the values that switch off the check of the broker's certificate or of its name
    /// (`enable.ssl.certificate.verification`, `ssl.endpoint.identification.algorithm`).
    ///
    /// Whoever can reach the network between can then read and change everything. Without this call, those values
    /// are refused, wherever they are set.
    ///
    /// ```
    /// use slipstream::Conf;
    ///
    /// let careless = Conf::isolated().with("enable.ssl.certificate.verification", false);
    /// assert!(careless.settings().is_err());
    /// # #[cfg(feature = "ssl")]
    /// assert!(careless.danger_accept_unverified_tls().settings().is_ok());
    /// ```
    #[must_use]
    pub fn danger_accept_unverified_tls(mut self) -> Self {
        self.unverified_tls = true;
        self
    }

    /// Reads the file and the environment, checks everything and merges it.
    ///
    /// # Errors
    ///
    /// `Kind::Config` for a file that cannot be read, an unknown key, or a value that cannot be used;
    /// `Kind::Unsupported` for what this build cannot do, naming the cargo feature. The error says where the value
    /// was set and never shows a secret.
    pub fn settings(&self) -> Result<Settings> {
        self.merge(&self.load()?)
    }

    pub(super) fn load(&self) -> Result<Loaded> {
        let process = if self.variables.is_none() { load::process_variables() } else { Vec::new() };
        let variables = self.variables.as_ref().unwrap_or(&process);
        load::load(self.file.as_deref(), self.default_file, variables, self.features)
    }

    pub(super) fn merge(&self, loaded: &Loaded) -> Result<Settings> {
        let mut fallback = Layer::default();
        let mut set = Layer::default();
        for (rank, written, value) in &self.given {
            let (name, entry) = self.check(*rank, written, value)?;
            let layer = if *rank == Rank::Set { &mut set } else { &mut fallback };
            layer.0.insert(name, entry);
        }
        let layers = [&fallback, &loaded.file, &loaded.environment, &set];
        Settings::new(layers, loaded.topics.clone(), self.unverified_tls, self.features)
    }

    pub(super) fn check(&self, rank: Rank, written: &str, value: &ConfValue) -> Result<(&'static str, entry::Entry)> {
        let place = if rank == Rank::Set { "Conf" } else { "Conf, as a fallback" };
        entry::check(written, value.as_str(), rank, self.features).map_err(|error| error.at(place))
    }

    fn push(mut self, rank: Rank, key: String, value: ConfValue) -> Self {
        self.given.push((rank, key, value));
        self
    }

    #[cfg(test)]
    pub(super) fn built_with(mut self, features: Features) -> Self {
        self.features = features;
        self
    }
}

impl fmt::Debug for Conf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.given.iter().map(|(_, key, value)| (key, secret::shown(key, value.as_str())));
        f.debug_map().entries(values).finish()
    }
}
