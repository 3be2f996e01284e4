import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.AppInfoParser;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;

/**
 * The consumer under a framework. It writes what the framework's own rebalance listener is called for, as
 * tests/integration/drivers/line_protocol.py describes; the framework is not changed.
 */
final class WatchedConsumer extends KafkaConsumer<String, String> {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private static final CountDownLatch CLOSED = new CountDownLatch(1);
    private static long next = 0;

    WatchedConsumer(Map<String, Object> settings) {
        super(settings);
    }

    @Override
    public void subscribe(Collection<String> topics, ConsumerRebalanceListener listener) {
        super.subscribe(topics, new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                rebalanced("assigned", partitions);
                listener.onPartitionsAssigned(partitions);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                listener.onPartitionsRevoked(partitions);
                rebalanced("revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                listener.onPartitionsLost(partitions);
                rebalanced("lost", partitions);
            }
        });
    }

    @Override
    public void close() {
        super.close();
        CLOSED.countDown();
    }

    @Override
    public void close(Duration timeout) {
        super.close(timeout);
        CLOSED.countDown();
    }

    private static void rebalanced(String event, Collection<TopicPartition> partitions) {
        Map<String, TreeSet<Integer>> byTopic = new TreeMap<>();
        partitions.forEach(at -> byTopic.computeIfAbsent(at.topic(), topic -> new TreeSet<>()).add(at.partition()));
        ObjectNode fields = JSON.createObjectNode();
        fields.set("partitions", JSON.valueToTree(byTopic));
        fields.put("incremental", false);
        write(event, fields);
    }

    static JsonNode parse(String line) throws IOException {
        return JSON.readTree(line);
    }

    static List<String> topics(JsonNode spec) {
        return JSON.convertValue(spec.get("topics"), JSON.getTypeFactory().constructCollectionType(List.class, String.class));
    }

    /** Settings that the frameworks leave to the application. */
    static Map<String, Object> settings(JsonNode spec) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", spec.get("bootstrap").asText());
        settings.put("group.id", spec.get("group").asText());
        settings.put("client.id", spec.get("client_id").asText());
        settings.put("session.timeout.ms", spec.get("session_timeout_ms").asInt());
        settings.put("heartbeat.interval.ms", spec.get("heartbeat_interval_ms").asInt());
        settings.put("max.poll.interval.ms", spec.get("max_poll_interval_ms").asInt());
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", 100);
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return settings;
    }

    static void started(String framework) {
        ObjectNode started = JSON.createObjectNode();
        started.put("client", framework);
        started.put("version", AppInfoParser.getVersion());
        started.put("pid", ProcessHandle.current().pid());
        write("started", started);
    }

    static void read(String topic, int partition, long offset, String value) {
        ObjectNode fields = JSON.createObjectNode();
        fields.put("topic", topic).put("partition", partition).put("first", offset).put("last", offset);
        fields.set("offsets", JSON.createArrayNode().add(offset));
        fields.set("values", JSON.createArrayNode().add(value));
        write("records", fields);
    }

    static void failed(Throwable crash) {
        write("failed", JSON.createObjectNode().put("error", crash.toString()));
        Runtime.getRuntime().halt(1);
    }

    /** Reads commands until `close`, the only one that is obeyed, and returns no more once the consumer is closed. */
    static void untilClosed(Runnable close) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (JSON.readTree(line).get("command").asText().equals("close")) {
                    write("closing", JSON.createObjectNode());
                    close.run();
                    CLOSED.await();
                    write("closed", JSON.createObjectNode());
                    Runtime.getRuntime().halt(0);
                }
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } catch (IOException gone) {
            // the same as the end of the input
        }
        Runtime.getRuntime().halt(2); // whoever started this process is gone, and nobody reads our events
    }

    private static synchronized void write(String event, ObjectNode fields) {
        Instant now = Instant.now();
        ObjectNode line = JSON.createObjectNode();
        line.put("event", event);
        line.put("mono", System.nanoTime());
        line.put("time", now.getEpochSecond() * 1_000_000_000L + now.getNano());
        line.put("seq", next++);
        line.setAll(fields);
        OUT.print(line + "\n");
        OUT.flush();
    }
}
