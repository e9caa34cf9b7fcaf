//! The model's own tests of its cache (specs: CA-*), in the words of this crate. Those that are not here stand in
//! `locks` (7), `lifecycle` (2, 3, 5), `retention` (19–21), or do not apply (see docs/compare.md).

use rocksdb::{Options, SstFileWriter};
use slipstream::{Cache, Retention, keys};

use super::{all, cache};

#[test]
fn ca_1_rows_are_written_read_overwritten_and_deleted() {
    fn crud<K: keys::Key + Clone>(key: &K) {
        let (cache, _dir) = cache::<K, String>();
        assert_eq!(cache.get(key).unwrap(), None);
        cache.put(key, "one".to_owned()).unwrap();
        assert!(cache.contains(key).unwrap());
        cache.put(key, "two".to_owned()).unwrap();
        assert_eq!(cache.get(key).unwrap().unwrap(), "two");
        cache.delete(key).unwrap();
        cache.delete(key).unwrap();
        assert_eq!(cache.get(key).unwrap(), None);
    }
    crud(&b"123".to_vec());
    crud(&"123".to_owned());
    crud(&true);
    crud(&123i64);
    crud(&String::new());
}

#[test]
fn a_stored_none_is_a_value_and_not_a_missing_row() {
    let (cache, _dir) = cache::<u8, Option<u8>>();
    cache.put(1, None).unwrap();
    assert_eq!((cache.get(1).unwrap(), cache.get(2).unwrap()), (Some(None), None));
}

#[test]
fn ca_8_one_row_gives_one_key_one_value_and_one_item() {
    let (cache, _dir) = cache::<u32, u32>();
    cache.put(123, 123).unwrap();
    assert_eq!(all(cache.keys()), [123]);
    assert_eq!(all(cache.values()), [123]);
    assert_eq!(all(cache.items()), [(123, 123)]);
}

#[test]
fn ca_9_a_deleted_key_certainly_does_not_exist() {
    let (cache, _dir) = cache::<String, u32>();
    cache.put("key", 123).unwrap();
    assert!(cache.key_may_exist("key").unwrap());
    cache.delete("key").unwrap();
    assert_eq!(cache.get("key").unwrap().unwrap_or(456), 456);
    assert!(!cache.key_may_exist("key").unwrap());
}

#[test]
fn ca_10_families_come_and_go() {
    let (cache, dir) = cache::<String, u32>();
    assert_eq!(cache.path().unwrap(), dir.path().join("tested"));
    let family: Cache<u32, u32> = cache.create_family("my-fam", Retention::Keep).unwrap();
    assert_eq!(cache.families().unwrap(), ["default", "my-fam"]);
    family.put(1, 1).unwrap();
    let again: Cache<u32, u32> = cache.family("my-fam").unwrap();
    assert_eq!(again.get(1).unwrap(), Some(1));
    cache.drop_family("my-fam").unwrap();
    assert_eq!(cache.families().unwrap(), ["default"]);
    assert!(cache.family::<u32, u32>("my-fam").is_err());
}

#[tokio::test]
async fn ca_11_flushed_rows_are_in_table_files() {
    let (cache, _dir) = cache::<String, u32>();
    assert_eq!(cache.live_files().unwrap(), []);
    cache.batch().unwrap().commit().unwrap();
    cache.put("a", 1).unwrap();
    cache.flush().await.unwrap();
    let files = cache.live_files().unwrap();
    assert_eq!((files.len(), files[0].entries, files[0].family.as_str()), (1, 1, "default"));
}

#[test]
fn ca_12_a_table_file_from_outside_is_read() {
    let (cache, dir) = cache::<String, u32>();
    let (options, file) = (Options::default(), dir.path().join("outside.sst"));
    let mut writer = SstFileWriter::create(&options);
    writer.open(&file).unwrap();
    writer.put(keys::encode::<String>("key"), [123]).unwrap();
    writer.finish().unwrap();
    cache.ingest_external_file([&file]).unwrap();
    assert_eq!(cache.get("key").unwrap(), Some(123));
}

#[tokio::test]
async fn ca_13_a_range_is_deleted_without_its_end() {
    let (cache, _dir) = cache::<String, u32>();
    cache.put("key", 1).unwrap();
    cache.delete_range("j", "k").unwrap();
    cache.compact().await.unwrap();
    assert!(cache.contains("key").unwrap());
    cache.delete_range("k", "l").unwrap();
    cache.compact().await.unwrap();
    assert!(!cache.contains("key").unwrap());
}

#[test]
fn ca_14_properties_options_and_the_sequence_number() {
    let (cache, _dir) = cache::<String, u32>();
    cache.put("key", 1).unwrap();
    assert_eq!(cache.property("rocksdb.background-errors").unwrap().unwrap(), "0");
    assert_eq!(cache.property_int("rocksdb.background-errors").unwrap(), Some(0));
    assert_eq!(cache.property("unheard-of").unwrap(), None);
    cache.set_options(&[("write_buffer_size", "2097152")]).unwrap();
    assert!(cache.latest_sequence_number().unwrap() > 0);
}

#[test]
fn ca_15_to_17_prefixes() {
    let (cache, _dir) = cache::<String, u32>();
    for (n, key) in (0..).zip(["user:1", "user:2", "user:3", "order:1", "order:2"]) {
        cache.put(key, n).unwrap();
    }
    assert_eq!(all(cache.keys().prefix("user:")), ["user:1", "user:2", "user:3"]);
    assert_eq!(all(cache.values().prefix("user:")), [0, 1, 2]);
    assert_eq!(all(cache.keys().prefix("order:").rev()), ["order:2", "order:1"]);
    assert_eq!(all(cache.items()).len(), 5);
    assert_eq!(all(cache.keys().prefix("user:").from("user:2")), ["user:2", "user:3"]);
    assert_eq!(all(cache.keys().prefix("user:").from("user:2").rev()), ["user:2", "user:1"]);
    assert!(all(cache.keys().prefix("none:")).is_empty());
    assert!(all(cache.items().prefix("none:")).is_empty());
    assert!(all(cache.values().prefix("none:")).is_empty());
}

#[test]
fn values_may_gain_fields() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Old {
        a: u32,
    }
    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    struct New {
        #[serde(default)]
        b: Option<String>,
        a: u32,
    }
    let (old, dir) = cache::<u32, Old>();
    old.put(1, Old { a: 7 }).unwrap();
    old.close().unwrap();
    let new: Cache<u32, New> = Cache::named("tested");
    new.open_in(dir.path()).unwrap();
    assert_eq!(new.get(1).unwrap().unwrap(), New { a: 7, b: None });
}
