import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;

/**
 * An application on Kafka's own share consumer (KIP-932). Its argument is JSON: bootstrap, group, topic, client_id and
 * mode:
 *
 *   implicit  a poll acknowledges what the poll before returned
 *   explicit  each record is acknowledged by itself, then all of the poll at once
 *   renew     the same, but at first their locks are renewed (Kafka 4.2): then a later poll returns them once more
 *   release   the same, but a record that comes for the first time is released, and so comes again
 *   give-up   each record is released whenever it comes
 *   hold      the first records are never acknowledged, and nothing is polled after them
 *
 * Its events have the form of tests/integration/drivers/line_protocol.py:
 *
 *   started       pid
 *   records       topic, partition, first, last, offsets, values, and deliveries: their delivery counts
 *   acknowledged  topic, partition, offsets, and error, which is null where the broker accepted it
 *   closed        the last event of an orderly end, at the command `close`
 *   failed        error: the client raised into the application
 */
public final class ShareConsumerDriver {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final ObjectMapper JSON = new ObjectMapper();

    private final JsonNode spec;
    private final String mode;
    private final PrintStream out =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private volatile boolean closing = false;
    private final Set<String> renewed = new HashSet<>();
    private long next = 0;

    private ShareConsumerDriver(JsonNode spec) {
        this.spec = spec;
        this.mode = spec.get("mode").asText();
    }

    public static void main(String[] arguments) throws IOException {
        new ShareConsumerDriver(JSON.readTree(arguments[0])).run();
    }

    private void run() {
        write("started", JSON.createObjectNode().put("pid", ProcessHandle.current().pid()));
        Thread reader = new Thread(this::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings())) {
            consumer.setAcknowledgementCommitCallback(this::acknowledged);
            consumer.subscribe(List.of(spec.get("topic").asText()));
            while (!closing) {
                work(consumer, consumer.poll(POLL));
            }
        } catch (KafkaException crash) {
            write("failed", JSON.createObjectNode().put("error", crash.toString()));
            Runtime.getRuntime().halt(1);
        }
        write("closed", JSON.createObjectNode());
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", spec.get("bootstrap").asText());
        settings.put("group.id", spec.get("group").asText());
        settings.put("client.id", spec.get("client_id").asText());
        settings.put("share.acknowledgement.mode", mode.equals("implicit") ? "implicit" : "explicit");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return settings;
    }

    private void work(KafkaShareConsumer<String, String> consumer, ConsumerRecords<String, String> polled) {
        report(polled);
        if (polled.isEmpty() || mode.equals("implicit")) {
            return;
        }
        if (mode.equals("hold")) {
            waitForClose();
            return;
        }
        for (ConsumerRecord<String, String> record : polled) {
            consumer.acknowledge(record, becomes(record));
        }
        consumer.commitSync().values().forEach(error -> error.ifPresent(refused -> {
            throw refused;
        }));
    }

    private AcknowledgeType becomes(ConsumerRecord<String, String> record) {
        boolean isFirst = record.deliveryCount().orElseThrow() == 1;
        if (mode.equals("renew") && renewed.add(record.partition() + "-" + record.offset())) {
            return AcknowledgeType.valueOf("RENEW");
        }
        boolean isReleased = mode.equals("give-up") || mode.equals("release") && isFirst;
        return isReleased ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
    }

    private void report(ConsumerRecords<String, String> polled) {
        for (TopicPartition at : polled.partitions()) {
            List<ConsumerRecord<String, String>> read = polled.records(at);
            ObjectNode fields = place(at.topic(), at.partition());
            fields.put("first", read.get(0).offset());
            fields.put("last", read.get(read.size() - 1).offset());
            fields.set("offsets", JSON.valueToTree(read.stream().map(ConsumerRecord::offset).toList()));
            fields.set("values", JSON.valueToTree(read.stream().map(ConsumerRecord::value).toList()));
            fields.set("deliveries",
                JSON.valueToTree(read.stream().map(record -> record.deliveryCount().orElseThrow()).toList()));
            write("records", fields);
        }
    }

    private void acknowledged(Map<TopicIdPartition, Set<Long>> offsets, Exception refusal) {
        offsets.forEach((at, those) -> {
            ObjectNode fields = place(at.topic(), at.partition());
            fields.set("offsets", JSON.valueToTree(new TreeSet<>(those)));
            fields.put("error", refusal == null ? null : refusal.toString());
            write("acknowledged", fields);
        });
    }

    private static ObjectNode place(String topic, int partition) {
        return JSON.createObjectNode().put("topic", topic).put("partition", partition);
    }

    private synchronized void waitForClose() {
        while (!closing) {
            try {
                wait();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }

    private void readCommands() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (!JSON.readTree(line).get("command").asText().equals("close")) {
                    throw new IllegalArgumentException("unknown command " + line);
                }
                synchronized (this) {
                    closing = true;
                    notifyAll();
                }
            }
        } catch (IOException gone) {
            // the same as the end of the input
        }
        Runtime.getRuntime().halt(2); // whoever started this process is gone, and nobody reads our events
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
