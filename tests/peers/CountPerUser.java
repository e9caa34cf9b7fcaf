import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * Counts the records of a topic per user with Kafka Streams, several times, each time as a new application with an empty
 * store. Prints records per second: the median of all passes but the first.
 *
 * <pre>CountPerUser TOPIC RECORDS KEYS PASSES GUARANTEE FOLDER</pre>
 *
 * A pass is timed from its first record until the application is closed, which stores and commits everything. Then the
 * store is opened again and every count in it checked. {@code KAFKA_BOOTSTRAP} names the broker.
 */
public final class CountPerUser {
  static final String STORE = "counts";
  static final Duration PATIENCE = Duration.ofMinutes(5);

  record Payment(long id, String user, long amount, String note) {}

  final String topic;
  final long records;
  final long keys;
  final String guarantee;
  final Path folder;

  CountPerUser(String topic, long records, long keys, String guarantee, Path folder) {
    this.topic = topic;
    this.records = records;
    this.keys = keys;
    this.guarantee = guarantee;
    this.folder = folder;
  }

  public static void main(String[] args) throws Exception {
    var count =
        new CountPerUser(args[0], Long.parseLong(args[1]), Long.parseLong(args[2]), args[4], Path.of(args[5]));
    double[] rates = new double[Integer.parseInt(args[3])];
    for (int pass = 0; pass <= rates.length; pass++) {
      double rate = count.pass("streams-" + ProcessHandle.current().pid() + "-" + pass);
      System.err.printf("Kafka Streams, %s, pass %d: %.0f/s%n", count.guarantee, pass, rate);
      if (pass > 0) {
        rates[pass - 1] = rate;
      }
    }
    Arrays.sort(rates);
    System.out.printf("%.1f%n", rates[rates.length / 2]);
  }

  double pass(String application) throws Exception {
    var handled = new AtomicLong();
    var began = new AtomicLong();
    var all = new CountDownLatch(1);
    var streams = start(application, () -> {
      long number = handled.incrementAndGet();
      if (number == 1) {
        began.set(System.nanoTime());
      }
      if (number == records) {
        all.countDown();
      }
    });
    await(all, "all records");
    close(streams);
    double seconds = (System.nanoTime() - began.get()) / 1e9;
    checkCommitted(application);
    checkStore(application);
    return records / seconds;
  }

  KafkaStreams start(String application, Runnable onRecord) {
    var streams = new KafkaStreams(topology(onRecord), configuration(application));
    streams.setUncaughtExceptionHandler(error -> {
      error.printStackTrace();
      Runtime.getRuntime().halt(1);
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.start();
    return streams;
  }

  Topology topology(Runnable onRecord) {
    var builder = new StreamsBuilder();
    builder.stream(topic, Consumed.with(Serdes.String(), payments()))
        .peek((user, payment) -> onRecord.run())
        .groupByKey()
        .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE)
            .withKeySerde(Serdes.String())
            .withValueSerde(Serdes.Long()));
    return builder.build();
  }

  /** The default cache of 10 MiB holds all rows here, so the store and its changelog see a key once per commit. */
  Properties configuration(String application) {
    var properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap());
    properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
    properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.getInteger("threads", 2));
    properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
    properties.put(StreamsConfig.STATE_DIR_CONFIG, folder.toString());
    properties.put("auto.offset.reset", "earliest");
    properties.put("producer.acks", "all");
    properties.put("producer.linger.ms", "100");
    return properties;
  }

  static Serde<Payment> payments() {
    ObjectReader reader = new ObjectMapper().readerFor(Payment.class);
    Deserializer<Payment> decode = (name, bytes) -> {
      try {
        return reader.readValue(bytes);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    };
    return Serdes.serdeFrom((name, payment) -> {
      throw new UnsupportedOperationException("payments are only read");
    }, decode);
  }

  static String bootstrap() {
    return System.getenv("KAFKA_BOOTSTRAP");
  }

  /** Leaves the group, so that the check below need not wait until its member has timed out. */
  static void close(KafkaStreams streams) {
    var leaving = CloseOptions.timeout(PATIENCE)
        .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
    require(streams.close(leaving), "it did not close");
  }

  void checkCommitted(String application) throws Exception {
    try (var admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap()))) {
      var offsets = admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get();
      long sum = offsets.values().stream().mapToLong(offset -> offset.offset()).sum();
      // A transaction ends with a mark of its own in the topics that it writes; this topic is only read.
      require(sum == records, "committed " + sum);
    }
  }

  void checkStore(String application) throws Exception {
    var again = new AtomicLong();
    var streams = start(application, again::incrementAndGet);
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (streams.state() != KafkaStreams.State.RUNNING) {
      require(System.nanoTime() < end, "the store did not open again");
      Thread.sleep(10);
    }
    var store = streams.store(
        StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.<String, Long>keyValueStore()));
    long rows = 0;
    try (KeyValueIterator<String, Long> all = store.all()) {
      while (all.hasNext()) {
        KeyValue<String, Long> row = all.next();
        require(row.value == records / keys, row.key + " was counted " + row.value + " times");
        rows++;
      }
    }
    require(rows == keys, rows + " rows");
    require(again.get() == 0, again + " records were read again");
    close(streams);
  }

  static void await(CountDownLatch latch, String what) throws InterruptedException {
    require(latch.await(PATIENCE.toSeconds(), TimeUnit.SECONDS), what + " did not come");
  }

  static void require(boolean holds, String otherwise) {
    if (!holds) {
      System.err.println("Kafka Streams: " + otherwise);
      Runtime.getRuntime().halt(1);
    }
  }
}
