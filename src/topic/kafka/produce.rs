//! Hands records to librdkafka: by a topic's handle where that is enough, since finding a topic by its name, and a copy
//! of that name, cost about as much as all else that is done with a small record.

use std::ffi::{CString, c_void};
use std::ptr::{NonNull, null, null_mut, without_provenance_mut};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rdkafka::bindings::{
    RD_KAFKA_MSG_F_COPY, rd_kafka_last_error, rd_kafka_produce, rd_kafka_topic_destroy, rd_kafka_topic_new,
    rd_kafka_topic_t,
};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};

use crate::message::Headers;
use crate::topic::driver::Outgoing;

/// librdkafka's word for "choose one".
const ANY_PARTITION: i32 = -1;
/// Topics with a handle; those beyond are found by their name.
const HANDLES_MAX: usize = 64;

/// A producer with handles of the topics that it has written to.
pub(super) struct Handles<C: ProducerContext<DeliveryOpaque = usize> + 'static> {
    producer: Arc<BaseProducer<C>>,
    /// Filled from the front, so that the first empty place ends a search.
    topics: [OnceLock<Handle>; HANDLES_MAX],
}

struct Handle {
    name: Arc<str>,
    topic: Option<NonNull<rd_kafka_topic_t>>,
}

// SAFETY: librdkafka's topics may be used from any thread; a handle is only destroyed when nobody can use it any more.
#[expect(unsafe_code, reason = "a pointer of librdkafka's")]
unsafe impl Send for Handle {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a pointer of librdkafka's")]
unsafe impl Sync for Handle {}

impl<C: ProducerContext<DeliveryOpaque = usize> + 'static> Handles<C> {
    pub(super) fn new(producer: Arc<BaseProducer<C>>) -> Self {
        Self { producer, topics: [const { OnceLock::new() }; HANDLES_MAX] }
    }

    /// Enqueues a copy of the record, without waiting; `number` comes back with its report.
    ///
    /// # Errors
    /// librdkafka's, `QueueFull` among them; then there will be no report.
    pub(super) fn send(&self, record: &Outgoing, number: usize) -> KafkaResult<()> {
        // The shorter call knows neither times nor headers.
        if record.timestamp.is_none()
            && record.headers.is_empty()
            && let Some(handle) = self.handle(&record.topic)
            && let Some(sent) = handle.send(record, number)
        {
            return sent;
        }
        let sent = self.producer.send(BaseRecord {
            topic: &record.topic,
            partition: record.partition,
            payload: record.value.as_deref(),
            key: record.key.as_deref(),
            timestamp: record.timestamp,
            headers: headers(&record.headers),
            delivery_opaque: number,
        });
        sent.map_err(|(error, _)| error)
    }

    /// The handle of a topic, made at its first record. `None`: there are too many.
    fn handle(&self, name: &Arc<str>) -> Option<&Handle> {
        for place in &self.topics {
            let handle = match place.get() {
                Some(handle) => handle,
                None => place.get_or_init(|| self.open(name)),
            };
            if handle.name == *name {
                return Some(handle);
            }
        }
        None
    }

    #[cold]
    fn open(&self, name: &Arc<str>) -> Handle {
        let topic = CString::new(&**name).ok().and_then(|text| {
            // SAFETY: the producer lives, the text ends with a zero and is copied, and no configuration is given away.
            #[expect(unsafe_code, reason = "the wrapper does not offer a topic's handle")]
            let topic = unsafe { rd_kafka_topic_new(self.producer.client().native_ptr(), text.as_ptr(), null_mut()) };
            NonNull::new(topic)
        });
        Handle { name: Arc::clone(name), topic }
    }
}

impl Handle {
    /// `None`: librdkafka has refused the name, and will say why when it is given the record by name.
    fn send(&self, record: &Outgoing, number: usize) -> Option<KafkaResult<()>> {
        let topic = self.topic?;
        let (value, value_len) = raw(record.value.as_ref());
        let (key, key_len) = raw(record.key.as_ref());
        // SAFETY: a handle only lives within `Handles`, and so as long as its producer; value and key are copied before
        // the call returns, as the flag says, and never written to; the number is not dereferenced, but comes back.
        #[expect(unsafe_code, reason = "a call of librdkafka's that the wrapper does not offer")]
        let code = unsafe {
            let sent = rd_kafka_produce(
                topic.as_ptr(),
                record.partition.unwrap_or(ANY_PARTITION),
                RD_KAFKA_MSG_F_COPY,
                value.cast_mut(),
                value_len,
                key,
                key_len,
                without_provenance_mut(number),
            );
            // Of this thread, and so to be asked before anything else is.
            (sent != 0).then(|| rd_kafka_last_error())
        };
        Some(code.map_or(Ok(()), |code| Err(KafkaError::MessageProduction(code.into()))))
    }
}

impl<C: ProducerContext<DeliveryOpaque = usize> + 'static> Drop for Handles<C> {
    fn drop(&mut self) {
        for topic in self.topics.iter().filter_map(OnceLock::get).filter_map(|handle| handle.topic) {
            // SAFETY: each was made by `open`, of the producer that still lives, and is given back once.
            #[expect(unsafe_code, reason = "a handle that the wrapper does not know")]
            unsafe {
                rd_kafka_topic_destroy(topic.as_ptr());
            }
        }
    }
}

/// Where bytes lie; null is told from empty.
fn raw(bytes: Option<&Bytes>) -> (*const c_void, usize) {
    bytes.map_or((null(), 0), |bytes| (bytes.as_ptr().cast(), bytes.len()))
}

fn headers(headers: &Headers) -> Option<OwnedHeaders> {
    if headers.is_empty() {
        return None;
    }
    let list = OwnedHeaders::new_with_capacity(headers.iter().len());
    Some(headers.iter().fold(list, |list, (name, value)| list.insert(Header { key: name, value: value.as_deref() })))
}
