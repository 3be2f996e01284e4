import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;

/**
 * Reads a topic from its beginning with Kafka's share consumer (KIP-932), again and again, each time in a group of its
 * own and by another of the ways. Its argument is JSON: ways (address by name), topic, records, runs.
 *
 * It prints a line of JSON for each time: way, run, and the seconds from the first record to the last. The ways take
 * turns, and all of them run in this process, so that the compiler is equally warm for each.
 */
public final class ShareThroughput {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(500);

    private ShareThroughput() {
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode spec = JSON.readTree(arguments[0]);
        String topic = spec.get("topic").asText();
        int records = spec.get("records").asInt();
        List<String> order = new ArrayList<>();
        spec.get("ways").fieldNames().forEachRemaining(order::add);
        for (int run = 0; run <= spec.get("runs").asInt(); run++) {
            for (String way : order) {
                double seconds = read(spec.get("ways").get(way).asText(), topic, records);
                if (run > 0) { // the first is to warm up
                    System.out.println(JSON.writeValueAsString(Map.of("way", way, "run", run, "seconds", seconds)));
                }
            }
            Collections.rotate(order, 1);
        }
    }

    private static double read(String bootstrap, String topic, int records) throws Exception {
        String group = "share-throughput-" + UUID.randomUUID();
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("max.poll.records", 2000);
        settings.put("check.crcs", false);
        startAtTheBeginning(settings, group);
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            int read = 0;
            while (read == 0) {
                read = consumer.poll(POLL).count();
            }
            long began = System.nanoTime();
            while (read < records) {
                read += consumer.poll(POLL).count();
            }
            return (System.nanoTime() - began) / 1e9;
        }
    }

    private static void startAtTheBeginning(Properties settings, String group) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            admin.incrementalAlterConfigs(
                Map.of(resource, List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
        }
    }
}
