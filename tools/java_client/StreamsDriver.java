import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * An application on Kafka Streams that counts how often each key has come, exactly once. Its argument is JSON:
 * bootstrap, group (its application id), client_id, input, output, keys, protocol (`classic`, or `streams` as in
 * KIP-1071) and state_dir.
 *
 * The values of the input are numbers, and the key of one is its remainder by `keys`. The counts are behind a
 * repartition topic, in a store in memory with a changelog. Each record that is counted makes one record in the output,
 * with the key and its new count.
 *
 * Its events have the form of tests/integration/drivers/line_protocol.py:
 *
 *   started  pid
 *   state    now: the state of the application, each time that it changes
 *   tasks    active: the tasks that run here ("0_1" is partition 1 of the first part), each time that they change
 *   closed   the last event of an orderly end, at the command `close`; the instance has left its group
 *   failed   error: the application has died
 */
public final class StreamsDriver {
    private static final Duration WITHIN = Duration.ofSeconds(30);
    private static final long BETWEEN_LOOKS_MS = 100;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final JsonNode spec;
    private final PrintStream out =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private final CountDownLatch closing = new CountDownLatch(1);
    private long next = 0;

    private StreamsDriver(JsonNode spec) {
        this.spec = spec;
    }

    public static void main(String[] arguments) throws Exception {
        new StreamsDriver(JSON.readTree(arguments[0])).run();
    }

    private void run() throws InterruptedException {
        write("started", JSON.createObjectNode().put("pid", ProcessHandle.current().pid()));
        Thread reader = new Thread(this::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        KafkaStreams streams = new KafkaStreams(topology(), settings());
        streams.setStateListener((now, before) -> write("state", JSON.createObjectNode().put("now", now.name())));
        streams.setUncaughtExceptionHandler(crash -> {
            fail(crash);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        TreeSet<String> told = new TreeSet<>();
        while (!closing.await(BETWEEN_LOOKS_MS, TimeUnit.MILLISECONDS)) {
            TreeSet<String> active = activeTasks(streams);
            if (!active.equals(told)) {
                ObjectNode tasks = JSON.createObjectNode();
                tasks.set("active", JSON.valueToTree(active));
                write("tasks", tasks);
                told = active;
            }
        }
        CloseOptions leaving = CloseOptions.timeout(WITHIN)
            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        if (!streams.close(leaving)) {
            fail(new StreamsException("it was not closed within " + WITHIN));
        }
        write("closed", JSON.createObjectNode());
    }

    private Topology topology() {
        int keys = spec.get("keys").asInt();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(spec.get("input").asText(), Consumed.with(Serdes.String(), Serdes.String()))
            .map((nothing, value) -> KeyValue.pair(Integer.toString(Integer.parseInt(value) % keys), value))
            .groupByKey(Grouped.with("by-key", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(spec.get("output").asText(), Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("application.id", spec.get("group").asText());
        settings.put("client.id", spec.get("client_id").asText());
        settings.put("bootstrap.servers", spec.get("bootstrap").asText());
        settings.put("group.protocol", spec.get("protocol").asText());
        settings.put("state.dir", spec.get("state_dir").asText());
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "-1");
        settings.put("statestore.cache.max.bytes", "0"); // every count goes to the output, none is left out
        settings.put("commit.interval.ms", "100");
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), "4000");
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        if (spec.get("protocol").asText().equals("classic")) {
            settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000");
            settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "500");
        }
        return settings;
    }

    private static TreeSet<String> activeTasks(KafkaStreams streams) {
        TreeSet<String> active = new TreeSet<>();
        if (streams.state() == KafkaStreams.State.RUNNING) {
            streams.metadataForLocalThreads().forEach(
                thread -> thread.activeTasks().forEach(task -> active.add(task.taskId().toString())));
        }
        return active;
    }

    private void readCommands() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (!JSON.readTree(line).get("command").asText().equals("close")) {
                    throw new IllegalArgumentException("unknown command " + line);
                }
                closing.countDown();
            }
        } catch (IOException gone) {
            // the same as the end of the input
        }
        Runtime.getRuntime().halt(2); // whoever started this process is gone, and nobody reads our events
    }

    private void fail(Throwable crash) {
        write("failed", JSON.createObjectNode().put("error", crash.toString()));
        Runtime.getRuntime().halt(1);
    }

    private synchronized void write(String event, ObjectNode fields) {
        Instant now = Instant.now();
        ObjectNode line = JSON.createObjectNode();
        line.put("event", event);
        line.put("mono", System.nanoTime());
        line.put("time", now.getEpochSecond() * 1_000_000_000L + now.getNano());
        line.put("seq", next++);
        line.setAll(fields);
        out.print(line + "\n");
        out.flush();
    }
}
