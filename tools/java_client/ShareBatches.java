import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

import java.util.Arrays;
import java.util.List;
import java.util.Scanner;
import java.util.stream.Collectors;

/**
 * Merges batches of a share partition's state with Kafka's own class. Each line of the input is a start offset, the batches so
 * far and the new ones, between bars; batches are separated by semicolons, their first and last offset, state and count by
 * commas. The merged ones are printed in the same form.
 */
public final class ShareBatches {
    private ShareBatches() {
    }

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split("\\|", -1);
            List<PersisterStateBatch> merged = new PersisterStateBatchCombiner(
                batches(parts[1]), batches(parts[2]), Long.parseLong(parts[0])).combineStateBatches();
            System.out.println(merged.stream()
                .map(batch -> batch.firstOffset() + "," + batch.lastOffset() + "," + batch.deliveryState() + ","
                    + batch.deliveryCount())
                .collect(Collectors.joining(";")));
        }
    }

    private static List<PersisterStateBatch> batches(String text) {
        return Arrays.stream(text.split(";"))
            .filter(one -> !one.isEmpty())
            .map(one -> one.split(","))
            .map(one -> new PersisterStateBatch(Long.parseLong(one[0]), Long.parseLong(one[1]),
                Byte.parseByte(one[2]), Short.parseShort(one[3])))
            .toList();
    }
}
