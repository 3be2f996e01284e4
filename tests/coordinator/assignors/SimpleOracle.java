import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.MemberAssignmentImpl;

/** Answers each line of input, a group as JSON (cases.py), with the assignment of Kafka's own simple assignor. */
public class SimpleOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(JSON.readTree(line)));
        }
    }

    private static String answer(JsonNode group) throws Exception {
        Map<String, JsonNode> members = new HashMap<>();
        group.get("members").fields().forEachRemaining(entry -> members.put(entry.getKey(), entry.getValue()));
        Map<Uuid, Integer> counts = new HashMap<>();
        group.get("counts").fields().forEachRemaining(e -> counts.put(Uuid.fromString(e.getKey()), e.getValue().asInt()));
        Map<Uuid, Set<Integer>> assignable = partitions(group.get("assignable"));
        GroupSpec spec = new GroupSpec() {
            public Collection<String> memberIds() { return members.keySet(); }
            public SubscriptionType subscriptionType() {
                return group.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
            }
            public boolean isPartitionAssigned(Uuid topic, int number) { throw new UnsupportedOperationException(); }
            public boolean isPartitionAssignable(Uuid topic, int number) {
                return assignable.getOrDefault(topic, Set.of()).contains(number);
            }
            public MemberSubscription memberSubscription(String id) {
                Set<Uuid> topics = new LinkedHashSet<>();
                members.get(id).get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
                return new MemberSubscription() {
                    public Optional<String> rackId() { return Optional.empty(); }
                    public Optional<String> instanceId() { return Optional.empty(); }
                    public Set<Uuid> subscribedTopicIds() { return topics; }
                };
            }
            public MemberAssignment memberAssignment(String id) {
                return new MemberAssignmentImpl(partitions(members.get(id).get("assigned")));
            }
        };
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) { return counts.getOrDefault(topic, -1); }
            public Set<String> racksForPartition(Uuid topic, int number) { return Set.of(); }
        };
        try {
            Map<String, Map<String, Set<Integer>>> result = new TreeMap<>();
            new SimpleAssignor().assign(spec, topics).members().forEach((id, assignment) -> {
                Map<String, Set<Integer>> named = new TreeMap<>();
                assignment.partitions().forEach((topic, numbers) -> named.put(topic.toString(), new TreeSet<>(numbers)));
                result.put(id, named);
            });
            return JSON.writeValueAsString(result);
        } catch (RuntimeException failure) {
            return JSON.writeValueAsString(failure.getClass().getSimpleName());
        }
    }

    private static Map<Uuid, Set<Integer>> partitions(JsonNode node) {
        Map<Uuid, Set<Integer>> result = new HashMap<>();
        node.fields().forEachRemaining(entry -> {
            List<Integer> numbers = new ArrayList<>();
            entry.getValue().forEach(number -> numbers.add(number.asInt()));
            result.put(Uuid.fromString(entry.getKey()), new HashSet<>(numbers));
        });
        return result;
    }
}
