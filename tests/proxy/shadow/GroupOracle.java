package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Plays each line of input, a classic group and a run of its move as JSON (oracle.py), on Kafka's own group
 * coordinator, and answers with the target assignment at the end.
 */
public class GroupOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String GROUP = "group";
    private static final int INTERVAL_MS = 1000;
    private static final int GENERATION = 3;
    private static final GroupCoordinatorMetrics METRICS = new GroupCoordinatorMetrics();

    private final JsonNode scene;
    private final Topics topics;
    private final GroupMetadataManager manager;
    private final Map<Integer, String> joined = new LinkedHashMap<>();
    private long nowMs = 1_000_000;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(JSON.writeValueAsString(new GroupOracle(JSON.readTree(line)).play()));
        }
    }

    @SuppressWarnings("unchecked")
    private GroupOracle(JsonNode scene) {
        this.scene = scene;
        topics = new Topics(scene.get("topics"));
        AbstractConfig settings = new AbstractConfig(
            Utils.mergeConfigs(List.of(GroupCoordinatorConfig.CONFIG_DEF, ShareGroupConfig.CONFIG_DEF)),
            Map.of("group.consumer.migration.policy", "bidirectional"), false);
        GroupCoordinatorConfig config = new GroupCoordinatorConfig(settings);
        SnapshotRegistry snapshots = new SnapshotRegistry(new LogContext());
        manager = new GroupMetadataManager.Builder()
            .withSnapshotRegistry(snapshots)
            .withTime(stub(Time.class, Map.of("milliseconds", () -> nowMs)))
            .withTimer(stub(CoordinatorTimer.class, Map.of()))
            .withExecutor(stub(CoordinatorExecutor.class, Map.of()))
            .withConfig(config)
            .withGroupConfigManager(new GroupConfigManager(config, new ShareGroupConfig(settings)))
            .withGroupCoordinatorMetricsShard(METRICS.newMetricsShard(snapshots, new TopicPartition("__consumer_offsets", 0)))
            .withMetadataImage(topics)
            .build();
    }

    private Map<String, Map<String, List<Integer>>> play() throws Exception {
        boolean inPlace = !scene.get("at_once").asBoolean();
        if (inPlace) {
            replay(classicGroup());
            helper(0);
        }
        for (JsonNode join : scene.get("joins")) {
            int client = join.get("client").asInt();
            if (join.get("computes").asBoolean()) nowMs += INTERVAL_MS;
            join(join.get("id").asText(), client, inPlace);
            joined.put(client, join.get("id").asText());
        }
        if (inPlace) helper(-1);
        compute();
        Map<String, Map<String, List<Integer>>> targets = new TreeMap<>();
        group().targetAssignment().forEach((member, assignment) -> {
            Map<String, List<Integer>> partitions = new TreeMap<>();
            assignment.partitions().forEach((topic, numbers) -> partitions.put(topic.toString(), new ArrayList<>(new TreeSet<>(numbers))));
            targets.put(member, partitions);
        });
        return targets;
    }

    /** A new member heartbeats after the assignment interval has passed. */
    private void compute() throws Exception {
        nowMs += INTERVAL_MS;
        String known = joined.values().iterator().next();
        heartbeat(new ConsumerGroupHeartbeatRequestData().setMemberId(known).setMemberEpoch(group().members().get(known).memberEpoch()));
    }

    private ConsumerGroup group() {
        return manager.consumerGroup(GROUP);
    }

    /** The helper of a conversion joins (epoch 0) or leaves (-1). */
    private void helper(int epoch) throws Exception {
        ConsumerGroupHeartbeatRequestData request = new ConsumerGroupHeartbeatRequestData().setMemberId("helper").setMemberEpoch(epoch);
        if (epoch == 0) request.setRebalanceTimeoutMs(60_000).setSubscribedTopicNames(List.of()).setTopicPartitions(List.of());
        heartbeat(request);
    }

    /** A client joins; in place under its own id, at its generation and with what it has. */
    private void join(String id, int client, boolean inPlace) throws Exception {
        JsonNode member = scene.get("members").get(client);
        List<ConsumerGroupHeartbeatRequestData.TopicPartitions> owned = new ArrayList<>();
        if (inPlace) member.get("assigned").fields().forEachRemaining(entry -> {
            List<Integer> numbers = new ArrayList<>();
            entry.getValue().forEach(number -> numbers.add(number.asInt()));
            owned.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions().setTopicId(topics.byName.get(entry.getKey()).id()).setPartitions(numbers));
        });
        heartbeat(new ConsumerGroupHeartbeatRequestData().setMemberId(id).setMemberEpoch(inPlace ? GENERATION : 0)
            .setInstanceId(member.hasNonNull("instance") ? member.get("instance").asText() : null)
            .setRebalanceTimeoutMs(60_000).setServerAssignor(scene.get("assignor").asText())
            .setSubscribedTopicNames(texts(member.get("topics"))).setTopicPartitions(owned));
    }

    private void heartbeat(ConsumerGroupHeartbeatRequestData request) throws Exception {
        replay(manager.consumerGroupHeartbeat(context(), request.setGroupId(GROUP)).records());
    }

    private List<CoordinatorRecord> classicGroup() {
        List<GroupMetadataValue.MemberMetadata> members = new ArrayList<>();
        for (JsonNode member : scene.get("members")) {
            List<TopicPartition> assigned = new ArrayList<>();
            member.get("assigned").fields().forEachRemaining(
                entry -> entry.getValue().forEach(number -> assigned.add(new TopicPartition(entry.getKey(), number.asInt()))));
            members.add(new GroupMetadataValue.MemberMetadata()
                .setMemberId(member.get("id").asText())
                .setGroupInstanceId(member.hasNonNull("instance") ? member.get("instance").asText() : null)
                .setClientId("client").setClientHost("/127.0.0.1").setRebalanceTimeout(60_000).setSessionTimeout(45_000)
                .setSubscription(bytes(ConsumerProtocol.serializeSubscription(
                    new ConsumerPartitionAssignor.Subscription(texts(member.get("topics"))))))
                .setAssignment(bytes(ConsumerProtocol.serializeAssignment(new ConsumerPartitionAssignor.Assignment(assigned)))));
        }
        GroupMetadataValue value = new GroupMetadataValue().setProtocolType("consumer").setGeneration(GENERATION).setProtocol("range")
            .setLeader(members.get(0).memberId()).setCurrentStateTimestamp(nowMs).setMembers(members);
        return List.of(CoordinatorRecord.record(
            new GroupMetadataKey().setGroup(GROUP), new org.apache.kafka.server.common.ApiMessageAndVersion(value, (short) 3)));
    }

    private void replay(List<CoordinatorRecord> records) throws Exception {
        for (CoordinatorRecord record : records) {
            for (Method method : GroupMetadataManager.class.getMethods()) {
                if (method.getName().equals("replay") && method.getParameterTypes()[0] == record.key().getClass()) {
                    method.invoke(manager, record.key(), record.value() == null ? null : record.value().message());
                }
            }
        }
    }

    private static List<String> texts(JsonNode node) {
        List<String> found = new ArrayList<>();
        node.forEach(one -> found.add(one.asText()));
        return found;
    }

    private static byte[] bytes(ByteBuffer buffer) {
        return Utils.toArray(buffer);
    }

    private static AuthorizableRequestContext context() {
        return stub(AuthorizableRequestContext.class, Map.of(
            "clientId", () -> "client", "clientAddress", InetAddress::getLoopbackAddress, "requestVersion", () -> 1));
    }

    private interface Answer {
        Object give();
    }

    /** Answers only these methods; all others do nothing. */
    @SuppressWarnings("unchecked")
    private static <T> T stub(Class<T> type, Map<String, Answer> answers) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> {
            if (answers.containsKey(method.getName())) return answers.get(method.getName()).give();
            return method.getReturnType() == boolean.class ? (Object) false : method.getReturnType() == long.class ? (Object) 0L : null;
        });
    }

    private record Topic(Uuid id, String name, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int number) {
            return new ArrayList<>();
        }
    }

    private static final class Topics implements CoordinatorMetadataImage {
        private final Map<String, Topic> byName = new LinkedHashMap<>();
        private final Map<Uuid, Topic> byId = new LinkedHashMap<>();

        Topics(JsonNode topics) {
            for (JsonNode one : topics) {
                Topic topic = new Topic(Uuid.fromString(one.get("id").asText()), one.get("name").asText(), one.get("partitions").asInt());
                byName.put(topic.name(), topic);
                byId.put(topic.id(), topic);
            }
        }

        public Set<Uuid> topicIds() { return byId.keySet(); }
        public Set<String> topicNames() { return byName.keySet(); }
        public Optional<TopicMetadata> topicMetadata(String name) { return Optional.ofNullable(byName.get(name)); }
        public Optional<TopicMetadata> topicMetadata(Uuid id) { return Optional.ofNullable(byId.get(id)); }
        public CoordinatorMetadataDelta emptyDelta() { return CoordinatorMetadataDelta.EMPTY; }
        public long version() { return 1; }
        public boolean isEmpty() { return false; }
    }
}
