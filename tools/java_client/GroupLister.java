import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.common.TopicPartition;

import java.util.List;
import java.util.Properties;

/**
 * What an operator's tool on an old Java client sees of a group. Only calls that kafka-clients 2.0 has; the output is
 * one fact a line, its words separated by tabs.
 */
public final class GroupLister {
    public static void main(String[] arguments) throws Exception {
        String group = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        try (AdminClient admin = AdminClient.create(settings)) {
            for (ConsumerGroupListing listing : admin.listConsumerGroups().all().get()) {
                say("listed", listing.groupId());
            }
            ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            say("group", found.state().toString(), found.partitionAssignor());
            for (MemberDescription member : found.members()) {
                say("member", member.consumerId(), member.clientId(), member.host());
                for (TopicPartition at : member.assignment().topicPartitions()) {
                    say("assigned", member.consumerId(), at.topic(), Integer.toString(at.partition()));
                }
            }
        }
    }

    private static void say(String... words) {
        System.out.println(String.join("\t", words));
    }
}
