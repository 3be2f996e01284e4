import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * An application on Kafka's own Java client. It says and understands what
 * tests/integration/drivers/line_protocol.py describes.
 */
public final class ConsumerDriver implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "logged-sticky", LoggedSticky.class.getName(),
        "logged-cooperative-sticky", LoggedCooperativeSticky.class.getName(),
        "reversed", Reversed.class.getName());
    /** The only one of this process; for assignors, which the client makes itself. */
    private static ConsumerDriver driver;

    private final JsonNode spec;
    private final boolean incremental;
    private final PrintStream out =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private final ConcurrentLinkedQueue<JsonNode> commands = new ConcurrentLinkedQueue<>();
    /** What was reported and is not committed yet, where the application commits by itself. */
    private final Map<TopicPartition, OffsetAndMetadata> progress = new HashMap<>();
    private final long commitEveryNs;
    private Consumer<String, String> consumer;
    private long commitDue;
    private long next = 0;

    private ConsumerDriver(JsonNode spec) {
        this.spec = spec;
        this.incremental = spec.get("group_protocol").asText().equals("consumer")
            || texts(spec.get("assignors")).stream().anyMatch(name -> name.endsWith("cooperative-sticky"));
        this.commitEveryNs = 1_000_000L * spec.get("commit_every_ms").asLong();
        this.commitDue = System.nanoTime() + commitEveryNs;
    }

    public static void main(String[] arguments) throws IOException {
        driver = new ConsumerDriver(JSON.readTree(arguments[0]));
        driver.run();
    }

    private void run() {
        ObjectNode started = JSON.createObjectNode();
        started.put("client", "kafka-clients");
        started.put("version", version());
        started.put("pid", ProcessHandle.current().pid());
        write("started", started);
        Thread reader = new Thread(this::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        try {
            work();
        } catch (KafkaException crash) {
            write("failed", JSON.createObjectNode().put("error", crash.toString()));
            Runtime.getRuntime().halt(1);
        }
    }

    /** As the client's jar says; the class that reads it has moved between packages. */
    private static String version() {
        Properties jar = new Properties();
        try (InputStream stream = KafkaConsumer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            jar.load(stream);
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
        return jar.getProperty("version");
    }

    private void work() {
        consumer = new KafkaConsumer<>(settings());
        consumer.subscribe(texts(spec.get("topics")), this);
        while (true) {
            JsonNode command = commands.poll();
            if (command != null && command.get("command").asText().equals("close")) {
                break;
            }
            if (command != null) {
                obey(command);
            }
            report(consumer.poll(POLL));
            if (!progress.isEmpty() && System.nanoTime() >= commitDue) {
                commitDue = System.nanoTime() + commitEveryNs;
                commitOffsets(new HashMap<>(progress));
            }
        }
        commitOffsets(new HashMap<>(progress));
        write("closing", JSON.createObjectNode());
        consumer.close();
        write("closed", JSON.createObjectNode());
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", spec.get("bootstrap").asText());
        settings.put("group.id", spec.get("group").asText());
        settings.put("client.id", spec.get("client_id").asText());
        settings.put("group.protocol", spec.get("group_protocol").asText());
        settings.put("max.poll.interval.ms", spec.get("max_poll_interval_ms").asText());
        settings.put("enable.auto.commit", spec.get("auto_commit").asText());
        settings.put("auto.commit.interval.ms", spec.get("auto_commit_interval_ms").asText());
        settings.put("metadata.max.age.ms", spec.get("metadata_max_age_ms").asText());
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", "100");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        List<String> assignors = texts(spec.get("assignors"));
        if (spec.get("group_protocol").asText().equals("classic")) {
            settings.put("session.timeout.ms", spec.get("session_timeout_ms").asText());
            settings.put("heartbeat.interval.ms", spec.get("heartbeat_interval_ms").asText());
            settings.put("partition.assignment.strategy",
                String.join(",", assignors.stream().map(ASSIGNORS::get).toList()));
        } else if (!assignors.isEmpty()) {
            settings.put("group.remote.assignor", assignors.get(0));
        }
        if (!spec.get("instance_id").isNull()) {
            settings.put("group.instance.id", spec.get("instance_id").asText());
        }
        if (!spec.get("rack").isNull()) {
            settings.put("client.rack", spec.get("rack").asText());
        }
        if (spec.has("own_settings")) {
            spec.get("own_settings").fields().forEachRemaining(
                one -> settings.put(one.getKey(), one.getValue().asText()));
        }
        return settings;
    }

    // What the client tells its application.

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        rebalanced("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> open = new HashMap<>(progress);
        open.keySet().retainAll(partitions);
        commitOffsets(open);
        progress.keySet().removeAll(partitions);
        commitInCallback("revoked");
        rebalanced("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        progress.keySet().removeAll(partitions);
        commitInCallback("lost");
        rebalanced("lost", partitions);
    }

    /** As applications do that catch nothing: a commit that is refused ends them. */
    private void commitInCallback(String callback) {
        if (spec.has("commit_in") && texts(spec.get("commit_in")).contains(callback)) {
            consumer.commitSync();
        }
    }

    private void rebalanced(String event, Collection<TopicPartition> partitions) {
        Map<String, TreeSet<Integer>> byTopic = new TreeMap<>();
        for (TopicPartition at : partitions) {
            byTopic.computeIfAbsent(at.topic(), topic -> new TreeSet<>()).add(at.partition());
        }
        ObjectNode fields = JSON.createObjectNode();
        fields.set("partitions", JSON.valueToTree(byTopic));
        fields.put("incremental", incremental);
        if (logsAssignments()) {
            fields.put("member_id", consumer.groupMetadata().memberId());
        }
        write(event, fields);
    }

    // What an assignor of this process computes, as the leader of its group.

    private boolean logsAssignments() {
        return texts(spec.get("assignors")).stream().anyMatch(
            name -> name.startsWith("logged-") || name.equals("reversed"));
    }

    private static void computed(Map<String, List<TopicPartition>> assignment) {
        ObjectNode members = JSON.createObjectNode();
        assignment.forEach((member, partitions) -> members.set(member, JSON.valueToTree(
            partitions.stream().map(at -> List.of(at.topic(), at.partition())).toList())));
        driver.write("computed", JSON.createObjectNode().set("members", members));
    }

    /** StickyAssignor, which says what it has computed. */
    public static final class LoggedSticky extends StickyAssignor {
        @Override
        public Map<String, List<TopicPartition>> assign(
                Map<String, Integer> partitionsPerTopic, Map<String, Subscription> subscriptions) {
            Map<String, List<TopicPartition>> assignment = super.assign(partitionsPerTopic, subscriptions);
            computed(assignment);
            return assignment;
        }

        @Override
        public Map<String, List<TopicPartition>> assignPartitions(
                Map<String, List<PartitionInfo>> partitionsPerTopic, Map<String, Subscription> subscriptions) {
            Map<String, List<TopicPartition>> assignment =
                super.assignPartitions(partitionsPerTopic, subscriptions);
            computed(assignment);
            return assignment;
        }
    }

    /** CooperativeStickyAssignor, which says what it has computed. */
    public static final class LoggedCooperativeSticky extends CooperativeStickyAssignor {
        @Override
        public Map<String, List<TopicPartition>> assign(
                Map<String, Integer> partitionsPerTopic, Map<String, Subscription> subscriptions) {
            Map<String, List<TopicPartition>> assignment = super.assign(partitionsPerTopic, subscriptions);
            computed(assignment);
            return assignment;
        }

        @Override
        public Map<String, List<TopicPartition>> assignPartitions(
                Map<String, List<PartitionInfo>> partitionsPerTopic, Map<String, Subscription> subscriptions) {
            Map<String, List<TopicPartition>> assignment =
                super.assignPartitions(partitionsPerTopic, subscriptions);
            computed(assignment);
            return assignment;
        }
    }

    /** An assignor that no broker has: the highest partition goes to the first member, and so on downwards. */
    public static final class Reversed implements ConsumerPartitionAssignor {
        @Override
        public String name() {
            return "reversed";
        }

        @Override
        public GroupAssignment assign(Cluster metadata, GroupSubscription group) {
            List<String> members = new ArrayList<>(new TreeSet<>(group.groupSubscription().keySet()));
            Map<String, List<TopicPartition>> assignment = new TreeMap<>();
            members.forEach(member -> assignment.put(member, new ArrayList<>()));
            TreeSet<String> topics = new TreeSet<>();
            group.groupSubscription().values().forEach(one -> topics.addAll(one.topics()));
            for (String topic : topics) {
                int count = metadata.partitionCountForTopic(topic);
                for (int number = count - 1; number >= 0; number--) {
                    String member = members.get((count - 1 - number) % members.size());
                    assignment.get(member).add(new TopicPartition(topic, number));
                }
            }
            computed(assignment);
            Map<String, Assignment> assigned = new HashMap<>();
            assignment.forEach((member, partitions) -> assigned.put(member, new Assignment(
                partitions, ByteBuffer.wrap("reversed".getBytes(StandardCharsets.UTF_8)))));
            return new GroupAssignment(assigned);
        }
    }

    private void report(ConsumerRecords<String, String> polled) {
        for (TopicPartition at : polled.partitions()) {
            List<ConsumerRecord<String, String>> read = polled.records(at);
            ObjectNode fields = JSON.createObjectNode();
            fields.put("topic", at.topic());
            fields.put("partition", at.partition());
            fields.put("first", read.get(0).offset());
            fields.put("last", read.get(read.size() - 1).offset());
            fields.set("offsets", JSON.valueToTree(read.stream().map(ConsumerRecord::offset).toList()));
            fields.set("values", JSON.valueToTree(read.stream().map(ConsumerRecord::value).toList()));
            write("records", fields);
            if (commitEveryNs > 0) {
                progress.put(at, new OffsetAndMetadata(read.get(read.size() - 1).offset() + 1));
            }
        }
    }

    // What the application is told to do.

    private void obey(JsonNode command) {
        switch (command.get("command").asText()) {
            case "commit" -> commit(command);
            case "subscribe" -> consumer.subscribe(texts(command.get("topics")), this);
            case "unsubscribe" -> consumer.unsubscribe();
            case "stall" -> stall(command.get("ms").asLong());
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private void commit(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        JsonNode asked = command.get("offsets");
        if (asked != null && !asked.isNull()) {
            asked.properties().forEach(topic -> topic.getValue().properties().forEach(partition ->
                offsets.put(new TopicPartition(topic.getKey(), Integer.parseInt(partition.getKey())),
                    new OffsetAndMetadata(partition.getValue().asLong()))));
        } else {
            consumer.assignment().forEach(at -> offsets.put(at, new OffsetAndMetadata(consumer.position(at))));
        }
        commitOffsets(offsets);
        if (offsets.isEmpty()) {
            write("committed", JSON.createObjectNode().set("offsets", JSON.createObjectNode()));
        }
    }

    private void commitOffsets(Map<TopicPartition, OffsetAndMetadata> offsets) {
        if (offsets.isEmpty()) {
            return;
        }
        ObjectNode fields = JSON.createObjectNode();
        fields.set("offsets", JSON.valueToTree(byTopic(offsets)));
        try {
            consumer.commitSync(offsets);
        } catch (CommitFailedException | org.apache.kafka.common.errors.RebalanceInProgressException
                 | org.apache.kafka.common.errors.FencedInstanceIdException
                 | org.apache.kafka.common.errors.TimeoutException refusal) {
            fields.put("error", refusal.toString());
            write("commit_failed", fields);
            return;
        }
        offsets.forEach(progress::remove);
        write("committed", fields);
    }

    private static Map<String, Map<Integer, Long>> byTopic(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<String, Map<Integer, Long>> byTopic = new TreeMap<>();
        offsets.forEach((at, offset) ->
            byTopic.computeIfAbsent(at.topic(), topic -> new TreeMap<>()).put(at.partition(), offset.offset()));
        return byTopic;
    }

    private static void stall(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void readCommands() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(JSON.readTree(line));
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

    /** From the resource in the client's jar: the class that reads it has another package since Kafka 4.4. */
    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(element -> texts.add(element.asText()));
        return texts;
    }
}
