import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * An application that produces on Kafka's own Java client until it is told to close. Its argument and its events are
 * those of tests/integration/drivers/producer_driver.py.
 */
public final class ProducerDriver {
    private static final long PAUSE_MS = 50;
    private static final int REPORT_EVERY = 50;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final JsonNode spec;
    private final PrintStream out =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private final CountDownLatch closing = new CountDownLatch(1);
    /** How many are acknowledged, by partition. */
    private final Map<Integer, Long> acknowledged = new TreeMap<>();
    private long sum;
    private long next;

    private ProducerDriver(JsonNode spec) {
        this.spec = spec;
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        new ProducerDriver(JSON.readTree(arguments[0])).run();
    }

    private void run() throws InterruptedException {
        write("started", JSON.createObjectNode().put("client", "kafka-clients").put("version", ""));
        Thread reader = new Thread(this::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        long sent = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings())) {
            int partitions = spec.get("partitions").asInt();
            do {
                for (int partition = 0; partition < partitions; partition++, sent++) {
                    producer.send(
                        new ProducerRecord<>(spec.get("topic").asText(), partition, null, Long.toString(sent)),
                        this::delivered);
                }
            } while (!closing.await(PAUSE_MS, TimeUnit.MILLISECONDS));
            producer.flush();
        }
        report();
        write(sum == sent ? "closed" : "failed", JSON.createObjectNode().put("sent", sent));
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", spec.get("bootstrap").asText());
        settings.put("client.id", "producer");
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        spec.get("own_settings").properties().forEach(one -> settings.put(one.getKey(), one.getValue().asText()));
        return settings;
    }

    private synchronized void delivered(RecordMetadata at, Exception error) {
        if (error != null) {
            write("failed", JSON.createObjectNode().put("error", error.toString()));
            Runtime.getRuntime().halt(1);
        }
        acknowledged.merge(at.partition(), 1L, Long::sum);
        sum++;
        if (sum % REPORT_EVERY == 0) {
            report();
        }
    }

    private synchronized void report() {
        write("produced", JSON.createObjectNode().set("acknowledged", JSON.valueToTree(acknowledged)));
    }

    private void readCommands() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                closing.countDown(); // the only command that a producer obeys
            }
        } catch (IOException gone) {
            // the same as the end of the input
        }
        if (closing.getCount() > 0) {
            Runtime.getRuntime().halt(2); // whoever started this process is gone, and nobody reads our events
        }
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
