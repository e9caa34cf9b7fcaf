//! Families: further sets of rows in the same store, each with key, value and retention of its own.

use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::manifest::DEFAULT_FAMILY;
use super::open::check_name;
use super::options;
use super::retention::Retention;
use super::{Access, Cache};
use crate::codec::MessagePack;
use crate::error::{Error, Kind, Result};

impl<K, V: 'static> Cache<K, V> {
    /// Makes a family, or opens it when it is there with the same retention. It keeps its rows and its retention over
    /// a reopen. What is returned is used like any cache; closing it closes the whole store.
    ///
    /// # Errors
    /// [`Kind::Config`] for a wrong name, or when the family is there with another retention; otherwise as
    /// [`put`](Cache::put).
    ///
    /// ```
    /// use slipstream::{Cache, Retention};
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cache: Cache<String, u32> = Cache::named("with-families");
    /// # cache.open_in(dir.path())?;
    /// let totals: Cache<u64, f64> = cache.create_family("totals", Retention::Keep)?;
    /// totals.put(1, 0.5)?;
    /// assert_eq!(cache.families()?, ["default", "totals"]);
    /// cache.drop_family("totals")?;
    /// assert!(totals.get(1).is_err());
    /// # Ok::<(), slipstream::Error>(())
    /// ```
    pub fn create_family<K2, V2>(&self, name: &str, retention: Retention) -> Result<Cache<K2, V2>>
    where
        V2: Serialize + DeserializeOwned + 'static,
    {
        check_family_name(name)?;
        let retention = retention.checked()?;
        if self.settings.access != Access::ReadWrite {
            return Err(Error::new(Kind::Unsupported, "opened without the right to write").at(self.label()));
        }
        self.with_open(|open| {
            open.change_families(|manifest| {
                match manifest.families.get(name) {
                    Some(own) if *own == retention => return Ok(()),
                    Some(own) => {
                        let message = format!("family {name} is there with `Retention::{own}`");
                        return Err(Error::new(Kind::Config, message).at(self.label()));
                    }
                    None => {}
                }
                manifest.families.insert(name.to_owned(), retention);
                // First the description: a family that it knows and RocksDB does not is made at the next opening.
                manifest.write(open.dir())?;
                if open.db.cf_handle(name).is_none() {
                    let options = options::family(retention, &open.expiry);
                    open.db.create_cf(name, &options).map_err(|error| open.failed(error))?;
                }
                Ok(())
            })?;
            open.tune(name, retention)
        })?;
        Ok(self.member(name, &MessagePack))
    }

    /// The family `name`.
    ///
    /// # Errors
    /// [`Kind::Closed`] when there is none; on first use also those of [`open_in`](Self::open_in).
    pub fn family<K2, V2>(&self, name: &str) -> Result<Cache<K2, V2>>
    where
        V2: Serialize + DeserializeOwned + 'static,
    {
        check_family_name(name)?;
        self.with_open(|open| open.place(Some(name)).map(drop))?;
        Ok(self.member(name, &MessagePack))
    }

    /// Deletes a family with its rows.
    ///
    /// # Errors
    /// [`Kind::Closed`] when there is none; otherwise as [`put`](Cache::put).
    pub fn drop_family(&self, name: &str) -> Result<()> {
        check_family_name(name)?;
        self.with_open(|open| {
            open.place(Some(name))?;
            open.change_families(|manifest| {
                open.db.drop_cf(name).map_err(|error| open.failed(error))?;
                manifest.families.remove(name);
                manifest.write(open.dir())
            })
        })
    }

    /// The names of all families, `default` (the cache itself) included, sorted.
    ///
    /// # Errors
    /// [`Kind::Closed`]; on first use also those of [`open_in`](Self::open_in).
    pub fn families(&self) -> Result<Vec<String>> {
        self.with_open(|open| Ok(open.manifest().families.into_keys().collect()))
    }

    fn member<K2, V2: 'static>(&self, name: &str, codec: &'static dyn crate::codec::Codec<V2>) -> Cache<K2, V2> {
        Cache {
            name: self.name.clone(),
            family: Some(Arc::from(name)),
            codec,
            settings: self.settings,
            external: self.external,
            declared_at: self.declared_at,
            slot: OnceLock::from(Arc::clone(self.slot())),
            types: std::marker::PhantomData,
        }
    }
}

fn check_family_name(name: &str) -> Result<()> {
    check_name(name)?;
    if name == DEFAULT_FAMILY {
        return Err(Error::new(Kind::Config, "the family `default` is the cache itself"));
    }
    Ok(())
}
