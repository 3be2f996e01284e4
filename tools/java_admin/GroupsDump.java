import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberAssignment;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.common.TopicPartition;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;

/** Lists, describes and reads the offsets of every group, and prints one JSON object. */
public final class GroupsDump {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        List<Map<String, Object>> found = new ArrayList<>();
        try (Admin admin = Admin.create(settings)) {
            for (GroupListing listing : admin.listGroups().all().get()) {
                found.add(group(admin, listing));
            }
        }
        new ObjectMapper().writeValue(System.out, found);
        System.out.println();
    }

    private static Map<String, Object> group(Admin admin, GroupListing listing) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        String id = listing.groupId();
        told.put("group_id", id);
        told.put("type", listing.type().map(Object::toString).orElse(null));
        told.put("protocol_type", listing.protocol());
        told.put("listed_state", listing.groupState().map(Object::toString).orElse(null));
        if (listing.protocol().equals("consumer") || listing.protocol().isEmpty()) {
            ConsumerGroupDescription described =
                admin.describeConsumerGroups(List.of(id)).all().get().get(id);
            told.put("state", described.groupState().toString());
            told.put("protocol", described.partitionAssignor());
            told.put("epoch", described.groupEpoch().orElse(null));
            told.put("assignment_epoch", described.targetAssignmentEpoch().orElse(null));
            told.put("members", members(described.members()));
        } else if (listing.type().map(Object::toString).orElse("").equals("Classic")) {
            ClassicGroupDescription described = admin.describeClassicGroups(List.of(id)).all().get().get(id);
            told.put("state", described.state().toString());
            told.put("protocol", described.protocolData());
            told.put("members", members(described.members()));
        }
        told.put("offsets", offsets(admin, id));
        return told;
    }

    private static List<Map<String, Object>> members(Collection<MemberDescription> described) {
        List<Map<String, Object>> members = new ArrayList<>();
        for (MemberDescription member : described) {
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("member_id", member.consumerId());
            told.put("instance_id", member.groupInstanceId().orElse(null));
            told.put("client_id", member.clientId());
            told.put("client_host", member.host());
            told.put("rack", member.rackId().orElse(null));
            told.put("member_epoch", member.memberEpoch().orElse(null));
            told.put("upgraded", member.upgraded().orElse(null));
            told.put("assignment", partitions(member.assignment()));
            told.put("target", member.targetAssignment().map(GroupsDump::partitions).orElse(null));
            members.add(told);
        }
        return members;
    }

    private static Map<String, TreeSet<Integer>> partitions(MemberAssignment assignment) {
        Map<String, TreeSet<Integer>> byTopic = new TreeMap<>();
        for (TopicPartition at : assignment.topicPartitions()) {
            byTopic.computeIfAbsent(at.topic(), topic -> new TreeSet<>()).add(at.partition());
        }
        return byTopic;
    }

    private static List<Object> offsets(Admin admin, String group) throws Exception {
        List<Object> offsets = new ArrayList<>();
        Map<String, ListConsumerGroupOffsetsSpec> asked = Map.of(group, new ListConsumerGroupOffsetsSpec());
        admin.listConsumerGroupOffsets(asked).partitionsToOffsetAndMetadata(group).get().forEach((at, offset) -> {
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("topic", at.topic());
            told.put("partition", at.partition());
            told.put("committed_offset", offset.offset());
            told.put("leader_epoch", offset.leaderEpoch().orElse(null));
            told.put("metadata", offset.metadata());
            offsets.add(told);
        });
        return offsets;
    }
}
