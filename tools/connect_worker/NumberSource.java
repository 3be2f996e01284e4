import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A source connector whose every task counts: from 0 on, for ever or to below "until", in records "task:number".
 *
 * A task says when it runs, as a line in the file that the system property "epochgate.tasks" of its worker names, in
 * the form that tests/integration/support/ownership.py judges: the connector is a topic there, its tasks partitions.
 */
public final class NumberSource extends SourceConnector {
    private static final ConfigDef SETTINGS = new ConfigDef()
        .define("topic", Type.STRING, Importance.HIGH, "where the numbers go")
        .define("until", Type.LONG, Long.MAX_VALUE, Importance.HIGH, "where each task ends to count");

    private Map<String, String> settings;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Numbers.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> all = new ArrayList<>();
        for (int number = 0; number < most; number++) {
            Map<String, String> one = new HashMap<>(settings);
            one.put("number", Integer.toString(number));
            all.add(one);
        }
        return all;
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return SETTINGS;
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> settings) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> settings) {
        return ConnectorTransactionBoundaries.UNSUPPORTED;
    }

    /** Counts ten numbers a second, and faster when it knows its end. */
    public static final class Numbers extends SourceTask {
        private static final int AT_A_TIME = 4;
        private static final int TO_THE_END_AT_A_TIME = 100;
        private static final long PAUSE_MS = 400;
        private static final long NEVER = Long.MAX_VALUE;

        private String connector;
        private String topic;
        private int number;
        private long next;
        private long until;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> settings) {
            connector = settings.get("name");
            topic = settings.get("topic");
            number = Integer.parseInt(settings.get("number"));
            until = Long.parseLong(settings.getOrDefault("until", Long.toString(NEVER)));
            say("assigned");
            Map<String, Object> read = context.offsetStorageReader().offset(source());
            next = read == null ? 0 : (Long) read.get("next");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(PAUSE_MS);
            List<SourceRecord> records = new ArrayList<>();
            int most = until == NEVER ? AT_A_TIME : TO_THE_END_AT_A_TIME;
            for (; next < until && records.size() < most; next++) {
                records.add(new SourceRecord(
                    source(), Map.of("next", next + 1), topic, null,
                    Schema.STRING_SCHEMA, Integer.toString(number), Schema.STRING_SCHEMA, number + ":" + next));
            }
            return records.isEmpty() ? null : records;
        }

        @Override
        public void stop() {
            say("revoked");
        }

        private Map<String, Integer> source() {
            return Map.of("number", number);
        }

        private void say(String event) {
            String line = String.format(
                "{\"event\": \"%s\", \"mono\": %d, \"time\": %d, \"incremental\": true, \"partitions\": {\"%s\": [%d]}}%n",
                event, System.nanoTime(), System.currentTimeMillis() * 1_000_000, connector, number);
            try {
                Path told = Path.of(System.getProperty("epochgate.tasks"));
                Files.writeString(told, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException error) {
                throw new ConnectException(error);
            }
        }
    }
}
